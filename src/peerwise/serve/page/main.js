// Opens the service: token, bundle, the three views; and notices when it answers from another bundle than before.
import { ask, hasToken, keepToken, takeToken } from "./api.js";
import { Batch } from "./batch.js";
import { Case } from "./case.js";
import { button, byId, count, day, el, fill, known, plain } from "./dom.js";
import { Peers } from "./peers.js";
import { Picker } from "./picker.js";
import { Settings } from "./settings.js";
import { tabs } from "./tabs.js";
import { trouble } from "./trouble.js";

const service = { bundle: null, settings: null, heard, refused, toBatch, toCase };
let views = null;
let waiting = null; // what is to be done once there is a token

async function open() {
  if (!views) only("opening");
  try {
    service.bundle = await ask("/v1/bundle");
  } catch (error) {
    if (!(error.status >= 0)) throw error;
    if (!refused(error, open)) {
      only("opening");
      fill(byId("opening"), trouble(error, open));
    }
    return;
  }
  only("service");
  titles(service.bundle);
  if (views) return;
  service.settings = new Settings(service.bundle);
  const peers = new Peers(service);
  const show = tabs(document.querySelector('[role="tablist"]'), (name) => name === "peers" && peers.show());
  const one = new Case(service);
  views = { show, peers, one, batch: new Batch(service), picker: new Picker(service, (found) => one.known(found)) };
}

function only(id) {
  for (const each of ["opening", "token-form", "service"]) byId(each).hidden = each !== id;
}

function titles(bundle) {
  const made = known(bundle.made) ? `, made ${day(bundle.made)}` : "";
  document.title = `${plain(bundle.task || bundle.target)} at ${plain(bundle.site)} · Peerwise`;
  fill(byId("where"), el("b", {}, bundle.site), el("span", {}, bundle.task), el("span", {}, bundle.method));
  const sites = new Set(bundle.models.map(({ site }) => site)).size;
  fill(byId("versions"), el("span", {}, "Bundle ", el("code", {}, bundle.digest.slice(0, 12)),
    `${made}: ${count(bundle.models.length, "model")} of ${count(sites, "site")}.`));
}

// Whether a refusal was dealt with here: without a right token nothing else can be done.
function refused(error, again) {
  if (error.status !== 401) return false;
  waiting = again;
  byId("token-why").textContent = hasToken() ? "The service does not know this token. It prints a new one at every start, unless it was given one." : "The service asks for its token.";
  byId("token").value = "";
  only("token-form");
  byId("token").focus();
  return true;
}

// After each answer: if it came from another bundle, the form and the peers are read anew.
async function heard(told) {
  if (told.bundle === service.bundle.digest) return;
  const before = service.bundle.digest;
  try {
    service.bundle = await ask("/v1/bundle");
  } catch {
    return; // the next answer tells it again
  }
  if (service.bundle.digest === before) return;
  titles(service.bundle);
  service.settings.canBeFrugal = Boolean(service.bundle.frugal);
  for (const view of [views.one, views.batch, views.picker]) view.show(service.bundle);
  fill(byId("banner"), el("div", { class: "notice" },
    el("p", {}, "The service answers from a new bundle ", el("code", {}, service.bundle.digest.slice(0, 12)), " since just now. The form has been renewed; what you had filled in was kept where it fits."),
    button("Understood", () => fill(byId("banner")))));
}

function toBatch(text) {
  views.batch.given(text);
  views.show("batch");
  views.batch.ask();
}

function toCase(row) {
  views.show("case");
  views.one.taken(row);
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value.trim());
  const act = waiting ?? open;
  waiting = null;
  if (!views) open();
  else {
    only("service");
    act();
  }
});

// A printed address that is pasted into an open page brings its token.
addEventListener("hashchange", () => {
  if (!location.hash.includes("token=")) return;
  takeToken();
  open();
});

takeToken();
open();
