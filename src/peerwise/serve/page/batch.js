// Many cases at once: a table of answers with the unsure ones marked, to be taken away as CSV.
import { ask } from "./api.js";
import { button, byId, count, el, fill, percent, table } from "./dom.js";
import { drops } from "./drops.js";
import { csvText, readRows, withCommas } from "./text_rows.js";
import { trouble } from "./trouble.js";

const SHOWN = 200;

export class Batch {
  // service: as for a case, and toCase(row)
  constructor(service) {
    Object.assign(this, { service, told: null, rows: [], asked: 0 });
    byId("batch-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    byId("batch-file").addEventListener("change", (event) => this.take(event.target.files[0]));
    drops(byId("panel-batch"), (file) => this.take(file));
    this.show(service.bundle);
  }

  show(bundle) {
    byId("tab-batch").hidden = bundle.kind !== "table";
    const most = bundle.limits?.rows ? `, at most ${bundle.limits.rows.toLocaleString("en")} rows at a time` : "";
    const names = bundle.features.map(({ name }) => name);
    byId("batch-hint").textContent = `A row a case${most}. Columns by name, in any order; what is missing stays empty: ${names.slice(0, 20).join(", ")}${names.length > 20 ? ", …" : ""}.`;
    this.service.settings.shownIn(byId("batch-settings"), "batch", () => this.told && this.ask());
  }

  async take(file) {
    if (!file) return;
    byId("batch-file").value = "";
    this.given(await file.text());
    this.ask();
  }

  given(text) {
    byId("batch-text").value = text;
  }

  async ask() {
    const text = byId("batch-text").value;
    const mine = ++this.asked;
    const { level, frugal } = this.service.settings;
    const place = byId("batch-answers");
    this.said("Asking the models …");
    if (!this.told) fill(place, el("div", { class: "card empty" }, el("p", { class: "muted" }, "Asking the models …")));
    place.setAttribute("aria-busy", "true");
    try {
      this.rows = readRows(text);
      const body = text.trim().startsWith("{") || text.trim().startsWith("[")
        ? { body: JSON.stringify({ rows: this.rows, level, frugal }) }
        : { body: withCommas(text.trim() + "\n"), type: "text/csv", level, frugal };
      const told = await ask("/v1/predict", body);
      await this.service.heard(told);
      if (mine === this.asked) this.answered(told);
    } catch (error) {
      if (mine === this.asked) this.failed(error);
    } finally {
      if (mine === this.asked) place.removeAttribute("aria-busy");
    }
  }

  answered(told) {
    this.told = told;
    const unsure = told.answers.filter((answer) => answer.unsure).length;
    const summary = `${count(told.answers.length, "case")}: ${told.answers.length - unsure} sure, ${unsure} unsure at ${percent(told.level)}`;
    this.said(summary);
    const only = el("input", { type: "checkbox" });
    const held = el("div");
    const draw = (all) => fill(held, this.drawn(told.answers.filter((answer) => !only.checked || answer.unsure), all, draw));
    only.addEventListener("change", () => draw(false));
    draw(false);
    const records = ["sure", "unsure"].map((kind) => told.record?.[kind]).filter((tally) => tally?.answers).map((tally) => `${tally.text}.`);
    fill(byId("batch-answers"), el("section", { class: "card" }, el("h3", {}, summary),
      records.length ? el("p", { class: "record" }, records.join(" ")) : null,
      el("div", { class: "actions" }, button("Download answers as CSV", () => this.download(), { class: "main" }),
        unsure ? el("label", { class: "switch" }, only, "Only the unsure ones") : null),
      told.notes?.length ? el("ul", { class: "notes" }, told.notes.map((note) => el("li", {}, note))) : null, held));
  }

  drawn(answers, all, draw) {
    const shown = all ? answers : answers.slice(0, SHOWN);
    const rows = shown.map((answer) => {
      const [site, share] = Object.entries(answer.trust ?? {})[0] ?? [null, null];
      const row = [`${answer.row}`, el("b", {}, answer.answer), percent(answer.probabilities[answer.answer]),
        answer.unsure ? el("td", { class: "is-unsure" }, el("span", { class: "tag" }, "unsure"), " ", answer.why) : "sure",
        site === null ? "–" : `${site} ${percent(share)}`,
        el("td", {}, button("Open", () => this.service.toCase(this.rows[answer.row - 1]), { class: "small", "aria-label": `Open case ${answer.row}` }))];
      row.marked = answer.unsure ? "unsure" : null;
      return row;
    });
    const made = table("Answers by row", ["Row", "Answer", "Probability", "Sure?", "Trusts most", el("th", { scope: "col" }, el("span", { class: "hidden" }, "Open"))], rows, { class: "answers-table" });
    return [made, shown.length < answers.length ? button(`Show all ${answers.length}`, () => draw(true)) : null];
  }

  // In the columns that the service itself gives as CSV.
  download() {
    const { answers } = this.told;
    const classes = this.service.bundle.classes;
    const sites = answers.some((answer) => answer.trust) ? [...new Set(this.service.bundle.models.map(({ site }) => site))] : [];
    const number = (value) => Number(value.toPrecision(6));
    const header = ["row", "answer", "unsure", "set", ...classes.map((name) => `p_${name}`), ...sites.map((name) => `trust_${name}`)];
    const lines = answers.map((answer) => [answer.row, answer.answer, answer.unsure, answer.set.join("; "),
      ...classes.map((name) => number(answer.probabilities[name])), ...sites.map((name) => number(answer.trust?.[name] ?? 0))]);
    const address = URL.createObjectURL(new Blob([csvText([header, ...lines])], { type: "text/csv" }));
    const link = el("a", { download: "answers.csv" });
    link.href = address;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  failed(error) {
    this.told = null;
    this.said("");
    const again = () => this.ask();
    if (this.service.refused(error, again)) return fill(byId("batch-answers"));
    fill(byId("batch-answers"), trouble(error.status >= 0 ? error : Object.assign(error, { status: 422 }), again));
  }

  said(text) {
    byId("batch-said").textContent = text;
  }
}
