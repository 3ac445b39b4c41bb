// Whose models are asked here: how much each site adds, how old its models are, and what to beware of.
import { ask } from "./api.js";
import { away, bar, byId, count, day, el, figure, fill, known, percent } from "./dom.js";
import { trouble } from "./trouble.js";

export class Peers {
  constructor(service) {
    this.service = service;
    this.shownFor = null;
  }

  async show() {
    const { bundle } = this.service;
    const place = byId("peers");
    if (this.shownFor === bundle.digest) return;
    fill(place, el("div", { class: "card empty", role: "status" }, el("p", { class: "muted" }, "Reading the peers …")));
    try {
      const told = await ask("/v1/peers");
      fill(place, summary(bundle, told), told.peers.map((peer) => one(peer, bundle)),
        told.peers.length > 1 ? null : el("p", { class: "card muted" }, "No peer's models are accepted here: the own models answer."));
      this.shownFor = bundle.digest;
    } catch (error) {
      if (!(error.status >= 0)) throw error;
      const again = () => this.show();
      fill(place, this.service.refused(error, again) ? null : trouble(error, again));
    }
  }
}

function summary(bundle, told) {
  const found = bundle.validation;
  const score = (value) => (known(value) ? value.toFixed(3) : "–");
  const figures = found
    ? `On ${count(found.rows, "validation case")}: ${String(found.metric).replaceAll("_", " ")} ${score(found.ours)} with peers, ${score(found.own)} with the own models alone; ${found.verdict} (${found.gained} cases gained, ${found.lost} lost).`
    : "There are no validation figures for this bundle.";
  return el("section", { class: "card" }, el("h2", {}, `Peers of ${told.site}`), el("p", {}, figures),
    known(told.rows) && told.peers.some(({ contribution }) => known(contribution)) ? el("p", { class: "hint" }, `Shares below are of the ${count(told.rows, "validation case")} of this site.`) : null);
}

function one(peer, bundle) {
  const ended = known(peer.expires) && peer.expires < Date.now() / 1000;
  const fact = (name, value, ...more) => el("div", {}, el("dt", {}, name), el("dd", {}, value, ...more));
  const time = (seconds, text) => el("time", { datetime: day(seconds), title: day(seconds) }, text);
  return el("article", { class: `card peer${peer.own ? " own" : ""}`, "aria-label": peer.site },
    el("h3", {}, peer.site, peer.own ? " " : null, peer.own ? el("span", { class: "mark" }, "own") : null),
    el("dl", { class: "facts" },
      fact("Contribution", percent(peer.contribution), known(peer.contribution) ? bar(peer.contribution) : null),
      fact("Agrees with the answer", percent(peer.agreement)),
      fact("Accuracy here", percent(peer.accuracy)),
      fact("Right where own fail", peer.own || !known(peer.right_where_own_fails) ? "–" : count(peer.right_where_own_fails, "case")),
      fact("Age", known(peer.created) ? time(peer.created, away(peer.created)) : "–"),
      fact("Expires", known(peer.expires) ? time(peer.expires, `${ended ? "expired " : ""}${away(peer.expires)}`) : "–")),
    peer.warnings?.length ? el("ul", { class: "warnings", "aria-label": "Warnings" }, peer.warnings.map((text) => el("li", {}, text))) : null,
    el("details", {}, el("summary", {}, `${count(peer.models.length, "model")}${peer.card ? " and card" : ""}`), models(peer, bundle), peer.card ? card(peer.card) : null));
}

function models(peer, bundle) {
  const facts = new Map(bundle.models.map((model) => [model.name, model]));
  return el("ul", { class: "notes" }, peer.models.map((name) => {
    const { version, sha256 } = facts.get(name) ?? facts.get(`${name}@${peer.site}`) ?? {};
    return el("li", {}, el("b", {}, name), version ?? peer.version ? `, version ${version || peer.version}` : "", sha256 ? el("code", {}, sha256.slice(0, 12)) : null);
  }));
}

function card(facts) {
  const line = (name, value) => [el("dt", {}, name), el("dd", {}, value)];
  const { task = {}, classes = [], features = [] } = facts;
  return el("dl", { class: "card-facts" },
    line("Task", `${task.name ?? "–"} (${task.kind ?? "–"}, ${String(task.digest ?? "").slice(0, 12)})`),
    line("Classes", classes.join(", ")), line("Features", `${features.length}: ${features.slice(0, 20).join(", ")}${features.length > 20 ? ", …" : ""}`),
    line("Rows", figure(facts.rows)), line("Licence", facts.licence || "not stated"),
    Object.entries(facts.models ?? {}).map(([name, known]) => line(name, told(known))));
}

function told({ training = {}, privacy, attack }) {
  const facts = Object.entries(training ?? {}).map(([name, value]) => `${name.replaceAll("_", " ")}: ${figure(value)}`);
  const noise = privacy ? `epsilon ${figure(privacy.epsilon)}, delta ${figure(privacy.delta)}, of one ${privacy.unit}` : "no differential privacy";
  const risk = attack ? `membership attack AUC ${attack.auc.toFixed(2)} (0.50 is guessing)${attack.few ? ", few rows" : ""}` : "no attack measured";
  return [...facts, noise, risk].join("; ");
}
