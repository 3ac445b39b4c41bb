"""Where a site stands: what is trained, shown, here, decided and fitted, and what is due."""

from __future__ import annotations

from typing import Any

from peerwise.errors import PeerwiseError, reason
from peerwise.parcels.signed.editions import edition
from peerwise.run.peer.arrivals import arrivals, in_use
from peerwise.run.peer.fitting import BUNDLE, bundle_about
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.publishing import PUBLISHED

SOON = 14 * 86_400


def status(peer: PeerFolder) -> dict[str, Any]:
    """Nothing is written and nobody is asked."""
    published = peer.read_json(PUBLISHED)
    here = arrivals(peer)
    return {
        "site": peer.name,
        "task": {"name": peer.task.name, "digest": peer.federation.task},
        "method": peer.settings.method,
        "list": _list(peer),
        "published": {"version": published.get("version"), "expires": published.get("expires")},
        "peers": [
            {
                "site": arrival.site,
                "version": arrival.version,
                "models": sorted(arrival.facts),
                "decided": arrival.decided,
                "expires": arrival.expires,
                "expired": not arrival.is_current(peer.now()),
            }
            for arrival in here
        ],
        "bundle": _bundle(peer),
        "due": due(peer),
    }


def due(peer: PeerFolder) -> list[str]:
    """What a person should do next, the most pressing first."""
    todo = []
    try:
        known = peer.known_roster()
    except PeerwiseError as error:
        return [str(error)]
    if known.names == [peer.name] and peer.is_founder:
        todo.append(f"there are no other members yet: send {peer.path / 'invite.json'} to those who are to join.")
    left = known.expires - peer.now()
    if left <= 0:
        todo.append("the list of members has ended: nothing new is let in. The founder runs 'peerwise admit --renew'.")
    elif left < SOON:
        todo.append(f"the list of members ends in {left // 86_400} days: the founder runs 'peerwise admit --renew'.")
    waiting = [arrival for arrival in arrivals(peer) if arrival.decided == "waiting"]
    if waiting:
        names = ", ".join(f"{arrival.site} (version {edition(arrival.version)})" for arrival in waiting)
        todo.append(f"waiting for a decision: {names}. Run 'peerwise review', then accept or refuse.")
    if (shown := _shown(peer)) is not None:
        todo.append(shown)
    if (refit := _refit(peer)) is not None:
        todo.append(refit)
    return todo


def _shown(peer: PeerFolder) -> str | None:
    """Why `publish` should be run, if it should."""
    published = peer.read_json(PUBLISHED)
    if not published.get("version"):
        return "nothing is published: run 'peerwise preview', then 'peerwise publish'."
    if published.get("key") != peer.identity.public:
        return "what is published is signed by a former key, and nobody takes it: run 'peerwise publish'."
    left = published["expires"] - peer.now()
    if left < min(SOON, peer.settings.lifetime // 2):
        return f"what is published may be used for {max(left, 0) // 86_400} more days: run 'peerwise publish'."
    return None


def _refit(peer: PeerFolder) -> str | None:
    """Why `fit` should be run, if it should."""
    if not peer.bundle.has(BUNDLE):
        return "nothing is fitted: run 'peerwise fit'."
    try:
        usable = {site: arrival.version for site, arrival in in_use(peer).items()}
    except PeerwiseError:
        return None
    fitted = bundle_about(peer)
    held: dict[str, int] = fitted["report"]["peers"]
    if fitted["method"] != peer.settings.method or fitted["settings"] != peer.settings.method_settings:
        return f"a refit is due: the bundle was made by {fitted['method']}. Run 'peerwise fit'."
    if fitted["by_rounds"]:
        gone = ", ".join(sorted(set(held) - set(peer.roster().names)))
        return f"a refit is due: {gone} took part, no member any more. Run 'peerwise fit --again'." if gone else None
    changed = sorted(site for site in {*held, *usable} if held.get(site) != usable.get(site))
    if not changed:
        return None
    said = ", ".join(f"{site} {_step(held.get(site), usable.get(site))}" for site in changed)
    return f"a refit is due: {said}. Run 'peerwise fit'."


def _step(held: int | None, usable: int | None) -> str:
    if held is None:
        return "is new"
    return "may no longer be used" if usable is None else f"has a new version ({edition(usable)})"


def _list(peer: PeerFolder) -> dict[str, Any]:
    try:
        known = peer.known_roster()
    except PeerwiseError as error:
        return {"version": None, "note": reason(error)}
    return {"version": known.version, "expires": known.expires, "members": known.names}


def _bundle(peer: PeerFolder) -> dict[str, Any] | None:
    if not peer.bundle.has(BUNDLE):
        return None
    about = bundle_about(peer)
    return {"method": about["method"], "made": about["made"], **about["report"]}
