"""What is known of each site whose models a bundle holds: its card, and what it does for this site's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from peerwise.run.peer.arrivals import arrivals
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.record import RECORD
from peerwise.serve.desk import About

Line = dict[str, Any]
FIGURES = ("contribution", "agreement", "accuracy", "right_where_own_fails")
NEW = "a newer version is here: decide on it and fit again"


def plain_lines(about: About) -> list[Line]:
    """A line a site, the own one first, with nothing but the names and versions of its models."""
    homes = dict.fromkeys(model.site for model in sorted(about.models, key=lambda model: not model.own))
    lines = []
    for home in homes:
        mine = [model for model in about.models if model.site == home]
        facts = dict.fromkeys(("created", "expires", "card", *FIGURES))
        lines.append(
            {"site": home, "own": mine[0].own, "models": [model.name for model in mine], "version": mine[0].version}
            | facts
            | {"warnings": []}
        )
    return lines


def peer_lines(peer: PeerFolder, about: About, report: Mapping[str, Any]) -> list[Line]:
    """With the cards that came with the models, and figures from the validation rows that `fit` has kept."""
    here = {(arrival.site, arrival.version): arrival for arrival in arrivals(peer)}
    newest: dict[str, int] = {}
    for site, version in here:
        newest[site] = max(version, newest.get(site, 0))
    figures = _figures(peer, report)
    lines = plain_lines(about)
    for line in lines:
        line |= figures.get(line["site"], {})
        version = report["peers"].get(line["site"])
        arrival = here.get((line["site"], version))
        if arrival is not None:
            line |= {"created": arrival.created, "expires": arrival.expires, "card": arrival.card}
            if not arrival.is_current(peer.now()):
                line["warnings"].append("its models may no longer be used: they have expired. Fit again.")
            if newest[line["site"]] > version:
                line["warnings"].append(NEW)
        line["warnings"] += _dependence(line["site"], report.get("instability"))
    return lines


def _dependence(site: str, found: Mapping[str, Any] | None) -> list[str]:
    """The peers that `fit` warned of."""
    if not found or not found["warning"] or site not in found["by_peer"]:
        return []
    part = found["by_peer"][site]
    if f"without {site!r} " not in found["warning"]:
        return []
    return [
        f"{part['changed']:.0%} of the answers hang on this site alone: without it they would be others, and accuracy "
        f"{part['accuracy_without']:.3f} instead of {found['accuracy']:.3f} (on {found['rows']} own rows)."
    ]


def _figures(peer: PeerFolder, report: Mapping[str, Any]) -> dict[str, Line]:
    """By site, from the answers to validation rows of what had not learned from them; nothing where these were kept of
    another fit, or without trust."""
    if report["own_models_answer"]:  # the figures are of the method that was not taken
        return {}
    kept = peer.bundle.load(RECORD) if peer.bundle.has(RECORD) else {}
    details = kept.get("details") or {}
    if kept.get("report") != dict(report) or "trust" not in details:
        return {}
    y, answers, own = kept["y"], details["answers"], details["own"].argmax(axis=1)
    homes = [name.rpartition("@")[2] for name in details["models"]]
    found = {}
    for home in dict.fromkeys(homes):
        columns = [place for place, each in enumerate(homes) if each == home]
        says, trust = details["says"][:, columns], details["trust"][:, columns]
        right = says == y[:, None]
        found[home] = {
            "contribution": float(trust.sum(axis=1).mean()),
            "agreement": float(np.mean(says == answers[:, None])),
            "accuracy": float(np.mean(right)),
            "right_where_own_fails": int((right & (own != y)[:, None]).any(axis=1).sum()),
        }
    return found
