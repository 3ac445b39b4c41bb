"""How much of a site's answers hangs on one single peer: the trust learner is fitted again without each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.methods.one_shot import OneShot, labelled_logits, pool_names
from peerwise.methods.pool_models import Array
from peerwise.methods.stacking_rows import sender_of, train_and_val
from peerwise.metrics import accuracy
from peerwise.models.folds import fold_rows

FOLDS = 2  # of the site's rows, so that no learner answers a row that it has learned from
MOST_ROWS = 600  # drawn from a larger site, so that twenty peers take seconds
DECIDES = 0.1  # share of the answers above which the user is told of a peer; docs/results/poisoning.md has why


@dataclass(frozen=True)
class PeerInfluence:
    """Without this peer: the share of answers that would be others, and the accuracy that would be left."""

    changed: float
    accuracy_without: float


@dataclass(frozen=True)
class Instability:
    """``by_peer``, the most influential first; ``accuracy`` with all of them, on so many ``rows``, which are the site's
    train and validation rows (of a single row or patient nothing can be said: 0 rows); ``warning`` in plain words where
    one peer alone decides too much."""

    by_peer: dict[str, PeerInfluence]
    accuracy: float
    rows: int
    warning: str | None


def instability(method: OneShot, site: Site, decides: float = DECIDES) -> Instability:
    """What each peer does to this site's answers, from its state after ``absorb``.

    Every row is answered by learners of this method that were fitted to the other half of the rows, once with the whole
    pool and once without each peer. It shows dependence, not intent: an honest expert stands out as a clever attacker
    does, and peers that say the same (two attackers with one aim) hide each other.
    """
    pool, own = pool_names(site)
    rows = train_and_val(site)
    said = labelled_logits(site)
    kept = _some(len(rows), site)
    group = None if rows.group is None else rows.group[kept]
    X, y, said = rows.X[kept], rows.y[kept], said[kept]
    folds = fold_rows(y, FOLDS, site.seed_for("instability"), group)
    if not folds:
        return Instability({}, float("nan"), 0, None)
    senders = [site.name if place in own else sender_of(name) for place, name in enumerate(pool)]

    def without(peer: str | None) -> NDArray[np.int64]:
        columns = [place for place, sender in enumerate(senders) if sender != peer]
        mine = [place for place, column in enumerate(columns) if senders[column] == site.name]
        return _answers(method, site, said[:, columns], mine, X, y, folds)

    usual = without(None)
    found = {}
    for peer in sorted({*senders} - {site.name}):
        other = without(peer)
        found[peer] = PeerInfluence(float(np.mean(usual != other)), accuracy(y, other))
    by_peer = dict(sorted(found.items(), key=lambda item: -item[1].changed))
    right = accuracy(y, usual)
    return Instability(by_peer, right, len(y), _warning(by_peer, right, len(y), decides))


def _some(rows: int, site: Site) -> NDArray[np.int64]:
    if rows <= MOST_ROWS:
        return np.arange(rows)
    return np.sort(site.rng("instability").choice(rows, MOST_ROWS, replace=False))


def _answers(
    method: OneShot,
    site: Site,
    said: Array,
    own: list[int],
    X: Inputs,
    y: NDArray[np.int64],
    folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> NDArray[np.int64]:
    """The answer to each row of a learner that never saw it."""
    found = np.zeros_like(y)  # the folds have every row once
    for rest, asked in folds:
        learner = method.new_learner(site, own).fit_outputs(said[rest], y[rest], X=X[rest])
        found[asked] = learner.predict_proba_outputs(said[asked], X[asked]).argmax(axis=1)
    return found


def _warning(by_peer: dict[str, PeerInfluence], right: float, rows: int, decides: float) -> str | None:
    alone = {peer: found for peer, found in by_peer.items() if found.changed > decides}
    if not alone:
        return None
    told = "; ".join(
        f"without {peer!r} {found.changed:.0%} of them would be others, and accuracy {found.accuracy_without:.3f} "
        f"instead of {right:.3f}"
        for peer, found in alone.items()
    )
    return (
        f"many answers hang on one single peer (measured on {rows} own rows): {told}. Should that peer err or mean "
        f"harm, so do these answers, also on rows that look like none of yours: make sure that you know who it is, or "
        f"refuse its models and fit again."
    )
