// One case: filled in, pasted, uploaded or picked; asked; shown.
import { ask } from "./api.js";
import { answerView, inWords } from "./answer.js";
import { byId, button, count, el, fill } from "./dom.js";
import { drops } from "./drops.js";
import { sourceFor } from "./sources.js";
import { readRows } from "./text_rows.js";
import { titleOf, trouble } from "./trouble.js";

const NARROW = matchMedia("(max-width: 60rem)");
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

export class Case {
  // service: {bundle, settings, heard(told), refused(error, again) -> whether it was dealt with, toBatch(text)}
  constructor(service) {
    Object.assign(this, { service, truth: null, asked: 0, isAnswered: false });
    byId("case-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask({ scroll: true });
    });
    byId("case-form").addEventListener("reset", (event) => {
      event.preventDefault();
      this.clear();
    });
    byId("paste-fill").addEventListener("click", () => this.paste(byId("paste-text").value));
    byId("paste-file").addEventListener("change", (event) => this.take(event.target.files[0]));
    drops(byId("panel-case"), (file) => this.take(file));
    addEventListener("paste", (event) => {
      if (service.bundle.kind === "image" && event.clipboardData.files.length) this.take(event.clipboardData.files[0]);
    });
    this.show(service.bundle);
  }

  // Anew for a bundle, which may be another one than before; what was filled in stays where it still fits.
  show(bundle) {
    const shape = JSON.stringify([bundle.kind, bundle.inputs, bundle.features]);
    if (shape !== this.shape) {
      const held = this.shape && this.source.body()?.row;
      this.source = sourceFor(bundle, byId("fields"), () => this.edited());
      if (held) this.source.show(held);
      this.shape = shape;
    }
    byId("paste").hidden = bundle.kind === "image";
    byId("paste-label").textContent = bundle.kind === "table" ? "A line of CSV under its header, or JSON" : "JSON, as the service takes it";
    this.service.settings.shownIn(byId("case-settings"), "case", () => this.isAnswered && this.ask());
    if (!this.isAnswered) this.empty();
  }

  edited() {
    this.truth = null;
    byId("case-errors").hidden = true;
  }

  clear() {
    this.source.clear();
    this.edited();
    this.asked += 1; // an answer under way is not wanted any more
    fill(byId("paste-said"));
    this.empty();
  }

  empty() {
    const { bundle } = this.service;
    const rest = bundle.kind === "table" ? "; the rest may stay empty" : "";
    const pick = bundle.has_cases ? " Or pick a validation case." : "";
    this.nothing("No case yet", `Give what is known of a case${rest}.${pick} The answer is one of ${count(bundle.classes.length, "class", "classes")}: ${shortened(bundle.classes)}.`);
  }

  nothing(title, text) {
    this.isAnswered = false;
    fill(byId("answer"), el("div", { class: "card empty" }, el("p", { class: "verdict" }, title), el("p", { class: "muted" }, text)));
  }

  async take(file) {
    if (!file) return;
    byId("paste-file").value = "";
    if (this.service.bundle.kind === "image") await this.source.take(file);
    else this.paste(await file.text(), file.name);
  }

  paste(text, name = "") {
    const said = byId("paste-said");
    try {
      const rows = readRows(text);
      const { target } = this.service.bundle;
      this.edited();
      const others = this.source.show(rows[0]).filter((other) => other !== target);
      const ignored = others.length ? ` Not among the features, and left out: ${shortened(others)}.` : "";
      const more = rows.length > 1 ? button(`Ask all ${rows.length} rows`, () => this.service.toBatch(text)) : null;
      fill(said, el("span", {}, `${name ? `${name}: ` : ""}${rows.length > 1 ? `the first of ${rows.length} rows` : "one row"} filled in.${ignored} `), more);
      said.className = "";
    } catch (error) {
      said.className = "error";
      fill(said, document.createTextNode(error.message));
    }
  }

  // A validation case: its label waits until the answer is there.
  known({ case: number, label, row }) {
    this.source.show(row);
    this.edited();
    this.truth = { case: number, label };
    return this.ask({ scroll: true });
  }

  // A row from elsewhere on the page.
  taken(row) {
    this.edited();
    this.source.show(row);
    return this.ask({ scroll: true });
  }

  async ask({ scroll = false, open = false } = {}) {
    this.source.clearErrors();
    const given = this.source.body();
    byId("case-errors").hidden = true;
    if (given === null) return;
    const mine = ++this.asked;
    const { settings } = this.service;
    const frugal = settings.frugal && !open;
    this.busy(true);
    try {
      const told = await ask(frugal ? "/v1/predict" : "/v1/explain", request(given, settings.level, frugal));
      await this.service.heard(told);
      if (mine !== this.asked) return;
      this.answered(told, given.row ?? null);
      if (scroll) this.bringIntoView();
    } catch (error) {
      if (mine === this.asked) this.failed(error);
    } finally {
      if (mine === this.asked) this.busy(false);
    }
  }

  answered(told, row) {
    this.isAnswered = true;
    const { bundle } = this.service;
    fill(byId("answer"), answerView({ bundle, told, row, truth: this.truth, open: () => this.ask({ open: true }) }));
    byId("said").textContent = inWords(told);
  }

  busy(is) {
    byId("answer-section").setAttribute("aria-busy", String(is));
    if (!is) return;
    byId("said").textContent = "Asking the models …";
    if (!this.isAnswered) fill(byId("answer"), el("div", { class: "card empty" }, el("p", { class: "muted" }, "Asking the models …")));
  }

  failed(error) {
    if (!(error.status >= 0)) throw error;
    this.isAnswered = false;
    byId("said").textContent = "";
    const again = () => this.ask();
    if (this.service.refused(error, again)) return this.empty();
    if (error.status !== 422) return fill(byId("answer"), trouble(error, again));
    this.nothing("No answer", "The case has to be corrected first.");
    this.mark(error);
  }

  // Each fault at its field; what has no field of its own stands above them.
  mark(error) {
    const at = error.fields.map(({ field, message }) => [nameIn(field), message.replace(`${field} is `, "This is ")]);
    const elsewhere = at.filter(([name, message]) => !this.source.error(name, message));
    const placed = at.filter((each) => !elsewhere.includes(each)).map(([name]) => name);
    const box = byId("case-errors");
    fill(box, el("h3", {}, titleOf(error)),
      el("p", {}, placed.length ? `${count(placed.length, "field")} to correct: ${shortened(placed)}.` : error.message),
      elsewhere.length ? el("ul", {}, elsewhere.map(([name, message]) => el("li", {}, el("b", {}, name), ": ", message))) : null);
    box.hidden = false;
    this.source.focusFirstError();
  }

  bringIntoView() {
    if (NARROW.matches) byId("answer").scrollIntoView({ behavior: CALM.matches ? "auto" : "smooth", block: "start" });
  }
}

const nameIn = (field) => String(field).replace(/^rows?(\[\d+\])?\./, "");

function request({ row, file }, level, frugal) {
  if (file) return { body: file, type: file.type, level, frugal };
  return { body: JSON.stringify({ row, level, frugal }) };
}

function shortened(names, most = 8) {
  return names.length <= most ? names.join(", ") : `${names.slice(0, most).join(", ")}, … (${names.length})`;
}
