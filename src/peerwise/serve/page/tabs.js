// Tabs by the ARIA pattern: one of them in the tab order, arrows, Home and End move and open.
import { byId } from "./dom.js";

export function tabs(list, opened) {
  const all = [...list.querySelectorAll('[role="tab"]')];
  const open = (tab, focus = true) => {
    for (const each of all) {
      const chosen = each === tab;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
      byId(each.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    opened(tab.id.replace("tab-", ""));
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  list.addEventListener("keydown", (event) => {
    const shown = all.filter((tab) => !tab.hidden);
    const at = shown.indexOf(document.activeElement);
    let to = null;
    if (event.key in steps) to = (at + steps[event.key] + shown.length) % shown.length;
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = shown.length - 1;
    if (at < 0 || to === null) return;
    event.preventDefault();
    open(shown[to]);
  });
  for (const tab of all) tab.addEventListener("click", () => open(tab));
  return (name) => open(byId(`tab-${name}`), false);
}
