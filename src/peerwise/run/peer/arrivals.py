"""What arrived of peers and what was decided on it. The ledger is the one record of decisions; files follow it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import Any, Literal

from peerwise.errors import ConfigError, NotTrusted, ParcelError, choices
from peerwise.parcels import Parcel
from peerwise.parcels.signed import Ledger, Manifest
from peerwise.parcels.signed.editions import edition
from peerwise.run.peer.folder import PeerFolder

SECONDS = re.compile(r"[0-9]+ seconds")  # elapsed seconds, ignored when comparing reasons
Decided = Literal["accepted", "refused", "waiting"]


@dataclass(frozen=True)
class Arrival:
    """One version of a peer's models that passed the gate: ``facts`` by model, ``left_out`` the models that did not
    pass, with the reasons; ``decided`` by whom and why."""

    site: str
    version: int
    created: int
    expires: int
    card: dict[str, Any]
    facts: dict[str, dict[str, Any]]
    left_out: dict[str, str]
    decided: Decided
    by: str
    why: str

    def is_current(self, now: int) -> bool:
        return now < self.expires


def keep_arrival(
    peer: PeerFolder, manifest: Manifest, parcel: Parcel, facts: dict[str, Any], left_out: dict[str, str]
) -> None:
    """After the ledger knows of it: a file without a line is never used, a line without a file is pulled again."""
    about = {
        "version": manifest.version,
        "created": manifest.created,
        "expires": manifest.expires,
        "card": manifest.card or {},
        "facts": facts,
        "left_out": left_out,
    }
    peer.arrived.save(_place(manifest.site, manifest.version), {"about": about, "parcel": dict(parcel)})


def arrivals(peer: PeerFolder) -> list[Arrival]:
    """All that is here, by site and version."""
    decided = decisions(peer.ledger)
    found = []
    for path in sorted(peer.arrived.folder.glob("sites/*/*.json")):
        site, version = path.parent.name, int(path.stem)
        state, by, why = decided.get((site, version), ("waiting", "", ""))
        try:
            about = peer.arrived.load_item(_place(site, version), "about")
            found.append(Arrival(site=site, decided=state, by=by, why=why, **about))
        except (ParcelError, TypeError) as error:
            raise ParcelError(
                f"{path} is damaged or of another version of Peerwise ({error}): remove it, and run 'peerwise pull', "
                f"which fetches it again."
            ) from error
    return found


def parcel_of(peer: PeerFolder, arrival: Arrival, *, later: bool = False) -> Parcel:
    """``later``: its models stay on disk until they are asked for."""
    place = _place(arrival.site, arrival.version)
    return Parcel.of_size(peer.arrived.size(place), peer.arrived.load_item(place, "parcel", later=later))


def in_use(peer: PeerFolder) -> dict[str, Arrival]:
    """By site, the newest accepted version of every member that may still be used. A list that has ended lets nothing
    new in, and what was accepted before is used as before; a site without a list has no peers."""
    members, now = peer.members, peer.now()
    found = {}
    for arrival in arrivals(peer):
        if arrival.decided == "accepted" and arrival.is_current(now) and arrival.site in members:
            found[arrival.site] = arrival  # they come by version
    return found


def newest(peer: PeerFolder, site: str, version: int | None = None) -> Arrival:
    """The version asked for, or the newest one, of a site; an error names what there is."""
    here = arrivals(peer)
    of_site = [arrival for arrival in here if arrival.site == site]
    if not of_site:
        names = sorted({arrival.site for arrival in here})
        if not names:
            raise ConfigError(f"nothing of {site!r} is here, nor of any other site: run 'peerwise pull' first.")
        raise ConfigError(choices(site, names, "peer"))
    if version is None:
        return of_site[-1]
    for arrival in of_site:
        if arrival.version == version:
            return arrival
    there = ", ".join(edition(arrival.version) for arrival in of_site)
    raise ConfigError(f"version {edition(version)} of {site!r} is not here: expected {there}.")


def decisions(ledger: Ledger) -> dict[tuple[str, int], tuple[Decided, str, str]]:
    """By site and version, the last decision, who made it and why; whoever was removed is decided on anew."""
    found: dict[tuple[str, int], tuple[Decided, str, str]] = {}
    for line in ledger.lines():
        if line["what"] == "removed":
            found = {known: decided for known, decided in found.items() if known[0] != line["site"]}
        if line["what"] in ("accepted", "refused"):
            found[line["site"], line["version"]] = (line["what"], line["who"], line["why"])
    return found


def decide(peer: PeerFolder, site: str, version: int | None, decided: Decided, why: str) -> Arrival:
    """Note a person's decision on a version; once it is in use, older ones are not needed."""
    if not why.strip():
        raise ConfigError("the reason is empty: expected --why TEXT, which the ledger keeps.")
    arrival = newest(peer, site, version)
    if decided == "accepted" and site not in peer.roster().names:
        raise NotTrusted(f"{site!r} is no member any more: expected one of the list. Its models cannot be accepted.")
    peer.ledger.add(decided, site=site, version=arrival.version, why=why)
    forget_older(peer)
    return newest(peer, site, arrival.version)


def forget(peer: PeerFolder, site: str) -> None:
    """Remove all that is here of a site."""
    for arrival in arrivals(peer):
        if arrival.site == site:
            peer.arrived.remove(_place(arrival.site, arrival.version))
    peer.arrived.remove_unused()
    shutil.rmtree(peer.path / "parts" / site, ignore_errors=True)  # transfers that were broken off


def forget_older(peer: PeerFolder) -> None:
    """Keep, of each site, the newest version and the newest accepted one."""
    here = arrivals(peer)
    for place, arrival in enumerate(here):
        later = [other for other in here[place + 1 :] if other.site == arrival.site]
        replaced = any(other.decided == "accepted" for other in later)
        if later and (replaced or arrival.decided != "accepted"):
            peer.arrived.remove(_place(arrival.site, arrival.version))
    peer.arrived.remove_unused()


def _place(site: str, version: int) -> str:
    return f"sites/{site}/{version:016d}"  # beside the blobs, whatever a site is called


def note_once(peer: PeerFolder, site: str, about: str, why: str, **facts: Any) -> None:
    """Every exclusion is in the ledger with its reason; the same one is not written at every pull."""
    noted = [line for line in peer.ledger.lines() if line["what"] == "left out"]
    noted = [line for line in noted if (line["site"], line["about"]) == (site, about)]
    same = bool(noted) and SECONDS.sub("", noted[-1]["why"]) == SECONDS.sub("", why)
    if not same or any(noted[-1].get(name) != value for name, value in facts.items()):
        peer.ledger.add("left out", site=site, about=about, why=why, **facts)
