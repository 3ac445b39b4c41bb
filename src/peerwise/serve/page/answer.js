// One answer: what it is and how sure, whom it comes from and why, then everything behind it.
import { bar, button, count, day, el, figure, known, percent, table } from "./dom.js";
import { neighbours } from "./neighbours.js";

// about: {bundle, told (the service's), row or null, truth: {case, label} or null, open: asks for the explanation}
export function answerView(about) {
  const [answer] = about.told.answers;
  const opened = about.told.explanation ?? null;
  return [
    headline(about, answer),
    opened ? pulls(about, opened) : trust(about, answer),
    opened?.models?.length && !opened.agreed ? models(opened.models, about.told) : null,
    opened?.neighbours?.length ? neighbours(opened.neighbours, about) : null,
    about.told.notes?.length ? notes(about.told.notes) : null,
    answeredBy(about, answer),
  ];
}

export function inWords(told) {
  const [answer] = told.answers;
  const said = `${answer.answer}, ${percent(answer.probabilities[answer.answer])}`;
  const record = sentence(recordOf(told, answer));
  return `${answer.unsure ? `Unsure: ${sentence(answer.why)} ${lead(answer)} ${said}.` : `Sure: ${said}.`} ${record}`.trim();
}

// A rule for balanced accuracy may answer with a rare class that is not the likeliest.
const isLikeliest = ({ answer, probabilities }) => probabilities[answer] === Math.max(...Object.values(probabilities));
const lead = (answer) => (isLikeliest(answer) ? "Most likely" : "Answered");

// How often answers like this one were wrong; nothing where no calibration case tells.
function recordOf(told, answer) {
  const tally = told.record?.[answer.unsure ? "unsure" : "sure"];
  return tally?.answers ? tally.text : "";
}

function headline({ bundle, told, truth }, answer) {
  const level = percent(told.level, Number.isInteger(Math.round(1000 * told.level) / 10) ? 0 : 1);
  const share = percent(answer.probabilities[answer.answer]);
  const main = answer.unsure
    ? [el("p", { class: "verdict" }, "Unsure"), el("p", { class: "why" }, sentence(answer.why)),
      el("p", { class: "likely" }, `${lead(answer)} `, el("b", {}, answer.answer), ` with ${share}`, isLikeliest(answer) ? "" : ", as every class counts alike here")]
    : [el("p", { class: "verdict" }, el("span", { class: "name" }, answer.answer), " ", el("span", { class: "share" }, share)),
      el("p", { class: "why" }, `Sure at ${level}`)];
  return el("article", { class: `card answer ${answer.unsure ? "unsure" : "sure"}` },
    el("p", { class: "eyebrow" }, `${bundle.target || "Answer"}, at ${level}`), main,
    recordOf(told, answer) ? el("p", { class: "record" }, sentence(recordOf(told, answer))) : null,
    answer.note ? el("p", { class: "remark" }, sentence(answer.note)) : null,
    answeredFrom(bundle), classes(bundle, answer, level), ownSays(answer), truthOf(truth, answer));
}

const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "");

function classes(bundle, answer, level) {
  const ranked = Object.entries(answer.probabilities).sort(([, one], [, other]) => other - one);
  const shown = ranked.slice(0, 10);
  const possible = new Set(answer.set);
  const items = shown.map(([name, share]) => el("li", { class: possible.has(name) ? "possible" : "" },
    el("span", { class: "name" }, name), bar(share), el("span", { class: "number" }, percent(share)),
    answer.unsure && possible.has(name) ? el("span", { class: "tag" }, "possible") : null));
  const rest = ranked.length - shown.length;
  return el("div", {}, el("ul", { class: "bars classes", "aria-label": answer.unsure ? `Probability of each answer, and what is possible at ${level}` : "Probability of each answer" }, items),
    rest > 0 ? el("p", { class: "hint" }, `and ${count(rest, "less likely answer")}`) : null);
}

// Which models answer at all: where peers' models did worse when the bundle was fitted, the own ones alone.
function answeredFrom(bundle) {
  const peers = bundle.models.some(({ own }) => !own);
  if (!bundle.own_models_answer) return peers ? el("p", { class: "hint" }, "Own and peers\u2019 models answer together.") : null;
  const found = bundle.validation;
  return el("p", { class: "remark" }, "The own models answer alone: with peers\u2019 models ",
    `${String(found.metric).replaceAll("_", " ")} was ${figure(found.ours)} instead of ${figure(found.own)} on ${count(found.rows, "validation case")}.`);
}

function ownSays(answer) {
  if (!answer.own) return null;
  const [name, share] = Object.entries(answer.own).reduce((best, each) => (each[1] > best[1] ? each : best));
  const same = name === answer.answer;
  return el("p", { class: "own-says" }, `The own models alone say ${same ? "the same: " : "otherwise: "}`, el("b", {}, name), ` with ${percent(share)}.`);
}

function truthOf(truth, answer) {
  if (!truth) return null;
  const right = truth.label === answer.answer;
  return el("p", { class: `truth ${right ? "right" : "wrong"}` },
    el("span", {}, `True label of validation case ${truth.case}: `, el("b", {}, truth.label), right ? ", as answered. " : ", not as answered. "),
    el("span", { class: "hint" }, "The method has learned from this case, so this says little about new ones."));
}

// A model's name may be broken before its site.
const named = (name, own) => el("span", { class: "named" },
  el("span", { class: "clip name" }, name.split(/(?<=@)/).flatMap((part, place) => (place ? [el("wbr"), part] : [part]))), own ? el("span", { class: "mark" }, "own") : null);

// Who moved the answer, and what that rests on; where all models agree, one line says so.
function pulls({ told }, opened) {
  const [answer] = told.answers;
  const note = opened.note ? el("p", { class: "remark" }, sentence(opened.note)) : null;
  const title = opened.agreed ? "The models agree" : "Who pulled this answer where";
  const head = [el("h3", {}, title), el("p", {}, sentence(opened.agreement)), note];
  if (opened.agreed) return el("section", { class: "card" }, head);
  const items = opened.evidence.map(({ site, own, influence, trust, text }) => el("li", { class: [own ? "own" : "", influence < 0 ? "against" : ""].join(" ").trim() },
    named(site, own), bar(Math.abs(influence ?? 0)), el("span", { class: "number" }, points(influence)),
    el("span", { class: "evidence" }, [`trust ${percent(trust)}`, text].filter(Boolean).join(", "))));
  const how = `Points of the probability of ${answer.answer} that are owed to each site: plus where it speaks for it, minus where against.`;
  return el("section", { class: "card" }, head, el("ul", { class: "bars pulls", "aria-label": "Influence by site" }, items), el("p", { class: "hint" }, how));
}

function points(influence) {
  if (!known(influence)) return "–";
  const whole = Math.round(100 * influence);
  return whole > 0 ? `+${whole}` : whole < 0 ? `−${-whole}` : "0";
}

function trust({ bundle, told, open }, answer) {
  const of = `${answer.consulted?.length ?? 0} of ${count(bundle.models.length, "model")} consulted`;
  const more = told.explanation === undefined && open ? button("Open this answer (asks all models)", open) : null;
  const head = [el("h3", {}, "Whom this answer trusts"), el("p", { class: "hint" }, of)];
  if (!answer.trust) {
    return el("section", { class: "card" }, head, el("p", {}, "This method does not divide its trust among sites."), more);
  }
  const items = Object.entries(answer.trust).map(([site, share]) => el("li", { class: site === bundle.site ? "own" : "" },
    named(site, site === bundle.site),
    bar(share), el("span", { class: "number" }, percent(share))));
  return el("section", { class: "card" }, head, el("ul", { class: "bars trust", "aria-label": "Trust by site" }, items), more);
}

function models(said, told) {
  const rows = said.map((each) => {
    const row = [each.name, el("span", { class: "clip" }, each.says ?? "–"), percent(each.confidence), percent(each.trust),
      known(each.of_nearby) ? `${each.right_nearby} of ${each.of_nearby}` : "–", el("td", { class: "nowrap" }, each.version || told.models?.[each.name]?.version || "–")];
    row[0] = el("th", { scope: "row" }, named(each.name, each.own));
    row.marked = each.trust ? null : "idle";
    return row;
  });
  const heads = ["Model", "Says", "Confidence", "Trust", "Right on such cases", "Version"];
  return el("section", { class: "card" }, el("h3", {}, "What each model said"), table("What each model said of this case", heads, rows, { class: "numbers" }));
}

function notes(all) {
  return el("section", { class: "card" }, el("h3", {}, "Notes"), el("ul", { class: "notes" }, all.map((each) => el("li", {}, each))));
}

function answeredBy({ bundle, told }, answer) {
  const used = answer.consulted ?? Object.keys(told.models ?? {});
  const items = used.map((name) => {
    const { version, sha256 } = told.models?.[name] ?? {};
    return el("li", {}, el("b", {}, name), version ? `, version ${version}` : "", sha256 ? el("code", {}, sha256.slice(0, 12)) : null);
  });
  const made = known(bundle.made) ? `, made ${day(bundle.made)}` : "";
  const promise = told.sets === "by-class" ? "for the cases of each class" : "over all cases together";
  const sets = told.calibration_rows
    ? `How sure answers are was measured on ${count(told.calibration_rows, "case")} of this site, ${promise}.` : "There were no cases left to measure how sure answers are.";
  return el("details", { class: "card" }, el("summary", {}, "Which bundle and models answered"),
    el("p", {}, `${bundle.own_models_answer ? "Own models" : bundle.method} at ${told.site}, bundle `, el("code", {}, told.bundle.slice(0, 12)), `${made}. ${sets}`),
    el("ul", { class: "notes" }, items));
}

