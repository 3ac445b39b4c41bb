// Elements are made from text alone: whatever a name or a value holds, it is shown and never read as markup.

// What does not simply print (control characters, changes of direction) is written out.
export function plain(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}]/gu, (one) =>
    one === "\n" || one === "\t" ? one : `\\u{${one.codePointAt(0).toString(16)}}`);
}

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, plain(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== "")
    .map((child) => (child instanceof Node ? child : plain(child))));
  return made;
}

export function button(text, act, attributes = {}) {
  const made = el("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

export const byId = (id) => document.getElementById(id);

export function fill(place, ...children) {
  place.replaceChildren(...children.flat().filter(Boolean));
}

export const known = (value) => value !== null && value !== undefined;

export function percent(share, digits = 0) {
  if (!known(share)) return "–";
  if (digits === 0 && share < 1 && share >= 0.995) return ">\u00a099\u00a0%";
  if (digits === 0 && share > 0 && share < 0.005) return "<\u00a01\u00a0%";
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

export function figure(value) {
  if (!known(value)) return "–";
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
}

export function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

export function day(seconds) {
  return known(seconds) ? new Date(1000 * seconds).toISOString().slice(0, 10) : "–";
}

// "3 days ago", "in 4 months": people think of models' ages so, the date stands beside it.
export function away(seconds, now = Date.now() / 1000) {
  const off = seconds - now;
  const units = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  const [unit, size] = units.find(([, size]) => Math.abs(off) >= size) ?? [null, 1];
  return unit ? new Intl.RelativeTimeFormat("en").format(Math.round(off / size), unit) : "just now";
}

// A table in a region of its own that scrolls sideways, so that the page never does.
export function table(caption, heads, rows, attributes = {}) {
  const cell = (value, place) => {
    if (value instanceof Node && (value.tagName === "TD" || value.tagName === "TH")) return value;
    return place === 0 ? el("th", { scope: "row" }, value) : el("td", {}, value);
  };
  const made = el("table", attributes,
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map((head) => (head instanceof Node ? head : el("th", { scope: "col" }, head))))),
    el("tbody", {}, rows.map((row) => el("tr", { class: row.marked ?? null }, [...row].map(cell)))));
  return el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, made);
}

export function bar(share, attributes = {}) {
  const inner = el("span");
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "bar", "aria-hidden": "true", ...attributes }, inner);
}
