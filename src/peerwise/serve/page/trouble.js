// What is said when it does not work: one sentence, and what can be done about it.
import { button, count, el } from "./dom.js";

const TITLES = {
  0: "No answer from the service",
  401: "The token is wrong",
  404: "Not there",
  413: "Too much at once",
  415: "This kind of file is not taken",
  422: "This cannot be answered as it stands",
  429: "Too many questions in a short time",
  503: "The service is busy",
};
const AGAIN = new Set([0, 429, 500, 502, 503, 504]);

export const titleOf = (error) => TITLES[error.status] ?? "That did not work";

export function trouble(error, again) {
  const wait = error.wait ? ` Try again in ${count(error.wait, "second")}.` : "";
  const retry = again && AGAIN.has(error.status) ? button("Try again", again) : null;
  return el("div", { class: "card notice bad", role: "alert" },
    el("h3", {}, titleOf(error)), el("p", {}, error.message, wait), listed(error.fields ?? []), retry);
}

function listed(fields) {
  if (!fields.length) return null;
  const shown = fields.slice(0, 20).map(({ field, message }) => el("li", {}, el("b", {}, field), ": ", message));
  const rest = fields.length - shown.length;
  return el("ul", {}, shown, rest > 0 ? el("li", {}, `and ${count(rest, "more field")}`) : null);
}
