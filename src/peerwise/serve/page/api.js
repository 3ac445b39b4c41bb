// The one way to the service; every failure becomes a Refused with a sentence for people.
import { known } from "./dom.js";

const KEPT = "peerwise-token";
const GONE = "The service does not answer. It may have been stopped, or the connection is lost.";

export class Refused extends Error {
  // status 0: nobody answered; wait: seconds that the service asks for.
  constructor(status, message, fields = [], wait = null) {
    super(message);
    Object.assign(this, { status, fields, wait });
  }
}

// The token of the printed address; it does not stay in the address bar or the history.
export function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found === null) return;
  keepToken(found);
  history.replaceState(null, "", location.pathname + location.search);
}

export function keepToken(token) {
  sessionStorage.setItem(KEPT, token);
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEPT));

export async function ask(path, { body, type = "application/json", ...query } = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) if (known(value)) url.searchParams.set(name, value);
  const headers = { Accept: "application/json" };
  const token = sessionStorage.getItem(KEPT) ?? "";
  if (/[^\x21-\x7e]/.test(token)) throw new Refused(401, "This cannot be a token: expected letters and figures alone.");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = type;
  let response;
  try {
    response = await fetch(url, { method: body === undefined ? "GET" : "POST", headers, body, cache: "no-store" });
  } catch {
    throw new Refused(0, GONE);
  }
  const told = await response.json().catch(() => null);
  if (response.ok && told !== null) return told;
  const error = told?.error ?? {};
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const message = error.message ?? `The service answered with status ${response.status} and no reason.`;
  throw new Refused(response.status, message, error.fields ?? [], Number.isFinite(wait) ? wait : null);
}
