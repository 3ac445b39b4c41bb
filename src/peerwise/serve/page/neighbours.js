// The nearest known cases beside the one asked about: a column each, so that a feature is compared along one line.
import { el, figure, known, percent, table } from "./dom.js";

const MOST = 12;

export function neighbours(all, { bundle, row, truth }) {
  const shown = all.slice(0, MOST);
  const withValues = shown.some((each) => each.values) && bundle.kind === "table";
  const title = el("h3", {}, "Nearest known cases");
  const hint = el("p", { class: "hint" }, all.length > MOST ? `The ${MOST} weightiest of ${all.length}, by what the models say of them.`
    : "Near by what the models say of them; the weightiest first.");
  return el("section", { class: "card" }, title, hint, withValues ? besideEachOther(shown, bundle, row) : list(shown), itself(shown, truth));
}

function besideEachOther(shown, bundle, row) {
  const heads = [el("td", {}), el("th", { scope: "col", class: "this" }, "This case"), ...shown.map((each) => el("th", { scope: "col" }, caseName(each)))];
  const facts = [
    [bundle.target || "label", el("td", { class: "this" }, "?"), ...shown.map((each) => el("b", {}, each.label))],
    ["weight", el("td", { class: "this" }, ""), ...shown.map((each) => percent(each.weight))],
  ];
  for (const { name } of bundle.features) {
    const mine = row?.[name];
    facts.push([name, el("td", { class: "this" }, figure(mine)),
      ...shown.map(({ values }) => el("td", { class: known(mine) && same(values?.[name], mine) ? "same" : "" }, figure(values?.[name])))]);
  }
  return table("The nearest known cases beside this one", heads, facts, { class: "beside" });
}

// A case that the method has learned from is its own nearest neighbour, which flatters the answer.
function itself(shown, truth) {
  const there = truth && shown.some((each) => each.part === "validation" && each.case === truth.case);
  return there ? el("p", { class: "hint" }, `Validation ${truth.case} is this case itself.`) : null;
}

const same = (one, other) => String(one) === String(other);

// As it can be picked here; a bundle without the site's rows knows no more than a number.
const caseName = ({ row, part, case: number }) => (part ? `${part === "train" ? "training" : part} ${number}` : `known ${row + 1}`);

function list(shown) {
  const rows = shown.map((each) => [caseName(each), el("span", { class: "clip" }, each.label), known(each.distance) ? figure(each.distance) : "–", percent(each.weight)]);
  return table("The nearest known cases", ["Case", "Label", "Distance", "Weight"], rows, { class: "numbers" });
}
