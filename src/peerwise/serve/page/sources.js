// Where a case comes from, by the kind of its rows. All have body() -> {row} or {file} or null, show(row) -> names that
// it has no place for, clear(), clearErrors(), error(field, message) -> whether there is such a field, focusFirstError().
import { byId, el, fill } from "./dom.js";
import { Fields } from "./fields.js";
import { Picture } from "./picture.js";

export function sourceFor(bundle, place, changed) {
  if (bundle.kind === "image") return new Picture(place, bundle.inputs.x, changed);
  if (bundle.kind === "table" && bundle.features.length) return new Fields(place, bundle.features, changed);
  return new JsonText(place, bundle, changed);
}

// Sequences are nobody's to type in: they are pasted as the service takes them.
class JsonText {
  constructor(place, bundle, changed) {
    const shapes = Object.entries(bundle.inputs).map(([name, shape]) => `${name} ${shape.join(" × ")}`).join(", ");
    this.text = el("textarea", { id: "json-row", rows: "10", spellcheck: "false", "aria-describedby": "json-hint json-error" });
    this.said = el("p", { id: "json-error", class: "error" });
    this.text.addEventListener("input", changed);
    fill(place, el("div", { class: "field wide" }, el("label", { for: "json-row" }, "The case as JSON"),
      el("span", { class: "hint", id: "json-hint" }, `Numbers by name: ${shapes}`), this.text, this.said));
  }

  body() {
    try {
      const found = JSON.parse(this.text.value);
      return { row: found.row ?? found };
    } catch (error) {
      this.error("", `This is not JSON: ${error.message}.`);
      return null;
    }
  }

  show(row) {
    this.text.value = JSON.stringify(row);
    return [];
  }

  clear() {
    this.text.value = "";
    this.clearErrors();
  }

  clearErrors() {
    this.said.textContent = "";
    this.text.removeAttribute("aria-invalid");
  }

  error(field, message) {
    this.said.textContent = [this.said.textContent, field ? `${field}: ${message}` : message].filter(Boolean).join(" ");
    this.text.setAttribute("aria-invalid", "true");
    return true;
  }

  focusFirstError() {
    (this.text.hasAttribute("aria-invalid") ? this.text : byId("case-errors")).focus();
  }
}
