"""Contribution scores: how much each site's models count in one site's meta-model, as they are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError, reason
from peerwise.methods.base import Inbox
from peerwise.methods.pool_models import full_name
from peerwise.trust.stacking import Stacking

KINDS = ("impurity", "permutation")
Scores = dict[str, Any]  # {"impurity": {peer: share} | None, "permutation": {peer: loss} | None, "self": {kind: value}}


def contribution_of(site: str, senders: list[str], learner: Stacking) -> Scores:
    """Importances summed by site, the site's own apart. Impurity: shares of one with the own share; permutation: what
    balanced accuracy loses, as measured. None where the meta-model has none, or rows are too few.

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
        try:
            found[sender] = _checked(inbox[sender].get("contribution"), sender)
        except ParcelError as error:
            unread[full_name("scores", sender)] = reason(error)
    return found, unread


def _checked(scores: Any, sender: str) -> Scores:
    wrong = ParcelError(f"site {sender!r} sent {str(scores)[:80]!r}: expected finite scores by site, its own apart.")
    if not isinstance(scores, Mapping) or not isinstance(scores.get("self"), Mapping):
        raise wrong
    found: Scores = {"self": {kind: scores["self"].get(kind) for kind in KINDS}}
    for kind in KINDS:
        given = scores.get(kind)
        if given is not None and not isinstance(given, Mapping):
            raise wrong
        found[kind] = None if given is None else dict(given)
    numbers = [*found["self"].values(), *(found["impurity"] or {}).values(), *(found["permutation"] or {}).values()]
    if not all(value is None or (isinstance(value, int | float) and np.isfinite(value)) for value in numbers):
        raise wrong
    return found


def _sum_of(values: NDArray[np.float64], senders: list[str], name: str) -> float:
    return float(values[[sender == name for sender in senders]].sum())
