"""Exact class-aware L1 neighbours, and the cumulative mean distance weights over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from peerwise.space.outputs import Array

Membership = Literal["none", "soft"]


@dataclass(frozen=True)
class Neighbourhood:
    """For each destination, ``k`` slots a class, nearest first; ``index`` is -1 where a class has too few rows.

    ``index``, ``distance`` and ``weight`` have shape (destinations, classes present * k); weights sum to one
    over a destination that has any neighbour.
    """

    index: NDArray[np.int64]
    distance: Array
    weight: Array


def neighbourhood(
    queries: Array,
    train: Array,
    labels: NDArray[np.int64],
    k: int,
    *,
    leave_out_self: bool = False,
    membership: NDArray[np.float64] | None = None,
) -> Neighbourhood:
    """The ``k`` nearest train rows of every class for each query, weighted by cumulative mean distance.

    ``labels`` are codes 0..P-1 of the classes present. ``leave_out_self``: query j is train row j. ``membership``
    holds one share a train row (the soft variant); None is the paper's.
    """
    from peerwise.space.loops import cumulative_mean_weights, nearest

    classes = int(labels.max()) + 1
    out = np.arange(len(queries)) if leave_out_self else np.full(len(queries), -1)
    index, distance = nearest(queries, train, labels, out, classes, k)
    everyone = np.ones(len(train))
    share = everyone if membership is None else membership
    weight = cumulative_mean_weights(queries, train, index, distance, classes, share)
    # Soft membership can be zero for every neighbour of a row; then its classes count alike, as in the paper.
    lost = (index >= 0).any(axis=1) & (weight.sum(axis=1) == 0)
    if lost.any():
        rows = queries[lost], train, index[lost], distance[lost]
        weight[lost] = cumulative_mean_weights(*rows, classes, everyone)
    return Neighbourhood(index, distance, weight)


def soft_membership(train: Array, labels: NDArray[np.int64], k: int = 7) -> NDArray[np.float64]:
    """Share of same-label rows among each train row's own ``k`` nearest train rows."""
    from peerwise.space.loops import nearest

    rows = np.arange(len(train))
    index, _ = nearest(train, train, np.zeros_like(labels), rows, 1, min(k, max(len(train) - 1, 1)))
    same = (labels[index] == labels[:, None]) & (index >= 0)
    return np.asarray(same.sum(axis=1) / np.maximum((index >= 0).sum(axis=1), 1), dtype=np.float64)
