"""One label a public row from what all sites said. Ties go to the lowest class, so peers need not agree on an order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ConfigError, ParcelError

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]
LEAST = 1e-6  # so that a site without expertise still breaks ties, and sites all without it have one vote each
UNDECIDED = -1


def consensus(votes: Iterable[tuple[Labels, Scores]], classes: int) -> Labels:
    """S[j, c] = sum_i max(E_i[j], 1e-6) 1[yhat_i(j) = c], label argmax_c S[j, c].

    ``votes``: labels and expertise of one site after the other, (|U|,) each, of which only the sum is held. Where all
    expertise is about 0, and where it is equal, this is the majority.
    """
    return _leading(_tally(votes, classes)[0])


def majority(labels: Iterable[Labels], classes: int) -> Labels:
    """The label that most sites say; ``labels`` (sites, |U|) -> (|U|,)."""
    return _leading(_counts(labels, classes)[0])


def qualified_majority(labels: Iterable[Labels], classes: int, share: float) -> Labels:
    """The majority where at least ``share`` of the sites say it, -1 elsewhere (FedCT); ``labels`` (sites, |U|)."""
    if not 0 < share <= 1:
        raise ConfigError(f"share is {share}: expected above 0 and at most 1.")
    counts, sites = _counts(labels, classes)
    # The share of 0.7 times 10 is a little over 7 in floating point.
    enough = counts.max(axis=1) >= share * sites * (1 - 1e-12)
    return np.where(enough, _leading(counts), UNDECIDED)


def _counts(labels: Iterable[Labels], classes: int) -> tuple[Scores, int]:
    return _tally(((said, np.ones(len(said))) for said in labels), classes)


def _tally(votes: Iterable[tuple[Labels, Scores]], classes: int) -> tuple[Scores, int]:
    """S (|U|, C), and how many sites voted."""
    total: Scores | None = None
    sites = 0
    for labels, expertise in votes:
        if total is None:
            total = np.zeros((len(labels), classes))
        if labels.shape != (len(total),) or expertise.shape != labels.shape:
            raise ParcelError(
                f"{labels.shape} labels with {expertise.shape} scores: expected {len(total)} of each. All sites need "
                "the same public rows."
            )
        total[np.arange(len(total)), labels] += np.maximum(expertise, LEAST)
        sites += 1
    if total is None:
        raise ParcelError("nobody voted on the public rows: expected at least one site.")
    return total, sites


def _leading(totals: Scores) -> Labels:
    """The lowest class among those that lead: sums that differ by rounding alone are equal, in any order of sites."""
    best = totals.max(axis=1, keepdims=True)
    leading: Labels = np.argmax(totals >= best * (1 - 1e-9), axis=1).astype(np.int64)
    return leading
