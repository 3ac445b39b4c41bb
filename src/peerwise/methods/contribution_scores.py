"""Contribution scores: how much each site's models count in one site's meta-model, as they are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError
from peerwise.federation.cleaning import full_name
from peerwise.federation.method import Inbox
from peerwise.methods.pool_models import at_its_cost
from peerwise.trust.stacking import Stacking

KINDS = ("impurity", "permutation")
LOWEST = {"impurity": 0.0, "permutation": -1.0}
OFF = 1e-3  # by which shares may miss one
Scores = dict[str, Any]  # {"impurity": {peer: share} | None, "permutation": {peer: loss} | None, "self": {kind: value}}


def contribution_of(site: str, senders: list[str], learner: Stacking) -> Scores:
    """Importances summed by site, the site's own apart. Impurity: shares of one with the own share; permutation: what
    balanced accuracy loses, as measured, at most 1. None where the meta-model has none, or rows are too few.

    ``senders``: whose model each column is. A site that cannot stack owes all to its own models.
    """
    peers = sorted(set(senders) - {site})
    if learner.reason_:
        nobody = dict.fromkeys(peers, 0.0)
        return {"impurity": nobody, "permutation": None, "self": {"impurity": 1.0, "permutation": None}}
    found: Scores = {"self": {}}
    for kind, values in zip(KINDS, (learner.importances_, learner.permutation_), strict=True):
        sums = None if values is None else {name: _sum_of(values, senders, name) for name in (*peers, site)}
        found["self"][kind] = None if sums is None else sums.pop(site)
        found[kind] = sums
    return found


def read_scores(inbox: Inbox) -> tuple[dict[str, Scores], dict[str, str]]:
    """Each site's scores; and those that cannot be read, as ``scores@site``, with the reason."""
    found: dict[str, Scores] = {}
    unread: dict[str, str] = {}
    for sender in sorted(inbox):
        with at_its_cost(full_name("scores", sender), unread):
            found[sender] = _checked(inbox[sender].get("contribution"), sender)
    return found, unread


def _checked(scores: Any, sender: str) -> Scores:
    if not isinstance(scores, Mapping) or not isinstance(scores.get("self"), Mapping):
        raise ParcelError(
            f"site {sender!r} sent a {type(scores).__name__}: expected finite scores by site, with its own apart."
        )
    found: Scores = {"self": {}}
    for kind in KINDS:
        given, own = scores.get(kind), scores["self"].get(kind)
        if given is None and own is None:
            found[kind] = found["self"][kind] = None
            continue
        if not isinstance(given, Mapping):
            raise ParcelError(f"site {sender!r} sent {kind} as {type(given).__name__}: expected a score for each site.")
        found[kind] = {_name(peer, sender): _score(value, kind, sender) for peer, value in given.items()}
        found["self"][kind] = _score(own, kind, sender)
        total = sum(found[kind].values()) + found["self"][kind]
        if kind == "impurity" and abs(total - 1) > OFF:
            raise ParcelError(f"site {sender!r} sent shares that sum to {total:.4g}: expected 1, with its own.")
    return found


def _name(peer: Any, sender: str) -> str:
    # What begins with "$" has a meaning of its own where states are kept.
    if not isinstance(peer, str) or peer.startswith("$"):
        raise ParcelError(f"site {sender!r} sent a score of {str(peer)[:80]!r}: expected a site's name.")
    return peer


def _score(value: Any, kind: str, sender: str) -> float:
    least = LOWEST[kind]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least - OFF <= value <= 1 + OFF:
        raise ParcelError(
            f"site {sender!r} sent {kind} {str(value)[:80]!r}: expected finite scores by site, from {least:g} to 1."
        )
    return min(max(float(value), least), 1.0)


def _sum_of(values: NDArray[np.float64], senders: list[str], name: str) -> float:
    return float(np.clip(values[[sender == name for sender in senders]].sum(), -1.0, 1.0))
