// The form of a table's case, made from the bundle's features: missing values are normal, so no field is required.
import { el, figure, fill, known, byId } from "./dom.js";

const NOT_KNOWN = "not known";

export class Fields {
  constructor(place, features, changed) {
    this.inputs = new Map();
    this.errors = new Map();
    fill(place, features.map((feature, number) => this.made(feature, `field-${number}`)));
    place.oninput = (event) => {
      this.clearError(event.target.name);
      changed();
    };
  }

  made(feature, id) {
    const hint = hintOf(feature);
    const describedby = `${hint ? `${id}-hint ` : ""}${id}-error`;
    const input = feature.type === "category"
      ? el("select", { id, name: feature.name, "aria-describedby": describedby },
        el("option", { value: "" }, NOT_KNOWN),
        feature.values.map((value, place) => el("option", { value: String(place + 1) }, value)))
      : el("input", { id, name: feature.name, type: "text", inputmode: "decimal", autocomplete: "off", "aria-describedby": describedby });
    input.name = feature.name; // as it is: what is sent is not what is shown
    const error = el("p", { id: `${id}-error`, class: "error" });
    this.inputs.set(feature.name, { input, feature });
    this.errors.set(feature.name, error);
    return el("div", { class: "field" }, el("label", { for: id }, feature.name), input,
      hint ? el("span", { class: "hint", id: `${id}-hint` }, hint) : null, error);
  }

  body() {
    return { row: this.row() };
  }

  // What is known, as the service takes it; a number that does not read as one goes as it is, and is told as such.
  row() {
    const found = {};
    for (const [name, { input, feature }] of this.inputs) {
      const text = input.value.trim();
      if (!text) continue;
      if (feature.type === "category") found[name] = feature.values[Number(text) - 1];
      else found[name] = Number.isFinite(Number(text)) ? Number(text) : text;
    }
    return found;
  }

  // Returns the names that are not among the fields; a category that is not known is told at its field.
  show(row) {
    this.clear();
    const others = [];
    for (const [name, value] of Object.entries(row)) {
      const held = this.inputs.get(name);
      if (!held) others.push(name);
      else if (known(value) && String(value).trim()) this.put(held, String(value).trim());
    }
    return others;
  }

  put({ input, feature }, text) {
    if (feature.type !== "category") {
      input.value = text;
      return;
    }
    const place = feature.values.indexOf(text);
    if (place >= 0) input.value = String(place + 1);
    else this.error(feature.name, `“${text}” is not among the values: ${feature.values.join(", ")}. It was left out.`);
  }

  clear() {
    for (const { input } of this.inputs.values()) input.value = "";
    this.clearErrors();
  }

  error(name, message) {
    const held = this.inputs.get(name);
    if (!held) return false;
    held.input.setAttribute("aria-invalid", "true");
    fill(this.errors.get(name), document.createTextNode(message));
    return true;
  }

  clearError(name) {
    this.inputs.get(name)?.input.removeAttribute("aria-invalid");
    this.errors.get(name)?.replaceChildren();
  }

  clearErrors() {
    for (const name of this.inputs.keys()) this.clearError(name);
  }

  focusFirstError() {
    const first = [...this.inputs.values()].find(({ input }) => input.hasAttribute("aria-invalid"));
    (first?.input ?? byId("case-errors")).focus();
  }
}

function hintOf({ type, unit, low, high }) {
  if (type === "category") return "";
  const range = known(low) && known(high) ? `${figure(low)} to ${figure(high)}`
    : known(low) ? `from ${figure(low)}` : known(high) ? `up to ${figure(high)}` : "";
  return [range, unit].filter(Boolean).join(" ");
}
