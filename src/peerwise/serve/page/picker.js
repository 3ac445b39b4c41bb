// Validation cases of this site, by number.
import { ask } from "./api.js";
import { byId, fill } from "./dom.js";
import { trouble } from "./trouble.js";

export class Picker {
  // chosen(case): what to do with one; refused as for a case
  constructor(service, chosen) {
    Object.assign(this, { service, chosen, total: 0 });
    byId("pick-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.take(Number(byId("pick").value));
    });
    byId("pick-any").addEventListener("click", () => this.take(1 + Math.floor(Math.random() * this.total)));
    this.show(service.bundle);
  }

  async show(bundle) {
    byId("pick-form").hidden = true;
    if (!bundle.has_cases) return;
    try {
      this.counted((await ask("/v1/cases", { offset: 0, limit: 1 })).total);
    } catch {
      // There are none to pick from just now; everything else works without.
    }
  }

  counted(total) {
    this.total = total;
    byId("pick-form").hidden = total === 0;
    byId("pick").max = total;
    byId("pick").value ||= 1;
    byId("pick-total").textContent = `of ${total}`;
  }

  async take(number) {
    const at = Math.min(Math.max(1, Math.trunc(number) || 1), this.total);
    byId("pick").value = at;
    try {
      const told = await ask("/v1/cases", { offset: at - 1, limit: 1 });
      this.counted(told.total);
      if (told.cases.length) await this.chosen(told.cases[0]);
    } catch (error) {
      if (!(error.status >= 0)) throw error;
      const again = () => this.take(at);
      if (!this.service.refused(error, again)) fill(byId("answer"), trouble(error, again));
    }
  }
}
