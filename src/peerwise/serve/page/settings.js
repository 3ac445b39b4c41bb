// How sure an answer has to be, and whether fewer models are asked: one choice for the whole page, shown wherever one
// asks.
import { el, percent } from "./dom.js";

const LEVELS = [0.8, 0.9, 0.95, 0.99];

export class Settings {
  constructor(bundle) {
    this.level = bundle.level ?? 0.9;
    this.frugal = false;
    this.canBeFrugal = Boolean(bundle.frugal);
    this.places = new Set();
  }

  // changed: called when the person has chosen otherwise here.
  shownIn(place, name, changed) {
    const levels = [...new Set([...LEVELS, this.level])].sort();
    const choices = levels.map((level) => {
      const input = el("input", { type: "radio", name: `${name}-level`, value: level });
      input.addEventListener("change", () => this.choose({ level }, changed));
      return el("label", {}, input, el("span", {}, percent(level)));
    });
    const frugal = el("input", { type: "checkbox", name: `${name}-frugal` });
    frugal.addEventListener("change", () => this.choose({ frugal: frugal.checked }, changed));
    place.replaceChildren(
      el("fieldset", { class: "levels" }, el("legend", {}, "Sure at"), el("span", { class: "segments" }, choices)),
      ...(this.canBeFrugal ? [el("label", { class: "switch" }, frugal, "Frugal: ask only as many models as it takes")] : []));
    this.places.add(place);
    this.refresh();
  }

  choose(choice, changed) {
    Object.assign(this, choice);
    this.refresh();
    changed();
  }

  refresh() {
    for (const place of this.places) {
      for (const input of place.querySelectorAll("input")) {
        input.checked = input.type === "radio" ? Number(input.value) === this.level : this.frugal;
      }
    }
  }
}
