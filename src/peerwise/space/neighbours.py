"""Exact class-aware L1 neighbours, and the cumulative mean distance weights over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from peerwise.space.outputs import Array

Membership = Literal["none", "soft"]
EPS = 1e-8
TILE = 16  # queries that share one pass over the train rows: both stay in cache


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
    classes = int(labels.max()) + 1
    out = np.arange(len(queries)) if leave_out_self else np.full(len(queries), -1)
    index, distance = _nearest(queries, train, labels, out, classes, k)
    everyone = np.ones(len(train))
    share = everyone if membership is None else membership
    weight = _cumulative_mean_weights(queries, train, index, distance, classes, share)
    # Soft membership can be zero for every neighbour of a row; then its classes count alike, as in the paper.
    lost = (index >= 0).any(axis=1) & (weight.sum(axis=1) == 0)
    if lost.any():
        rows = queries[lost], train, index[lost], distance[lost]
        weight[lost] = _cumulative_mean_weights(*rows, classes, everyone)
    return Neighbourhood(index, distance, weight)


def soft_membership(train: Array, labels: NDArray[np.int64], k: int = 7) -> NDArray[np.float64]:
    """Share of same-label rows among each train row's own ``k`` nearest train rows."""
    rows = np.arange(len(train))
    index, _ = _nearest(train, train, np.zeros_like(labels), rows, 1, min(k, max(len(train) - 1, 1)))
    same = (labels[index] == labels[:, None]) & (index >= 0)
    return np.asarray(same.sum(axis=1) / np.maximum((index >= 0).sum(axis=1), 1), dtype=np.float64)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _l1(a, b):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += abs(a[i] - b[i])
    return total


@njit(cache=True)
def _nearest(queries, train, labels, leave_out, classes, k):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Insertion into k sorted slots a class; rows come in index order, so ties fall to the lower index."""
    n = queries.shape[0]
    index = np.full((n, classes * k), -1, np.int64)
    distance = np.full((n, classes * k), np.inf, np.float32)
    for start in range(0, n, TILE):
        for row in range(train.shape[0]):
            base = labels[row] * k
            for q in range(start, min(start + TILE, n)):
                if leave_out[q] == row:
                    continue
                d = _l1(queries[q], train[row])
                if d >= distance[q, base + k - 1]:
                    continue
                slot = base + k - 1
                while slot > base and distance[q, slot - 1] > d:
                    distance[q, slot] = distance[q, slot - 1]
                    index[q, slot] = index[q, slot - 1]
                    slot -= 1
                distance[q, slot] = d
                index[q, slot] = row
    return index, distance


@njit(cache=True)
def _cumulative_mean_weights(queries, train, index, distance, classes, membership):  # type: ignore[no-untyped-def]  # pragma: no cover
    """d_c = mean over r of || mean of the r nearest - query ||_1; class mass ~ m_c / (d_c + eps); softmax within."""
    n, slots = index.shape
    k = slots // classes
    weight = np.zeros((n, slots), np.float32)
    drift = np.empty(queries.shape[1], np.float64)
    within = np.empty(k)
    for q in range(n):
        total = 0.0
        for c in range(classes):
            found = 0
            while found < k and index[q, c * k + found] >= 0:
                found += 1
            if found == 0:
                continue
            drift[:] = 0
            stability, member = 0.0, 0.0
            for r in range(found):
                row = index[q, c * k + r]
                member += membership[row] / found
                moved = 0.0
                for i in range(drift.shape[0]):
                    drift[i] += train[row, i] - queries[q, i]
                    moved += abs(drift[i])
                stability += moved / (r + 1) / found
            mass = member / (stability + EPS)
            total += mass
            near = distance[q, c * k : c * k + found]
            tau = max(np.median(near), EPS)
            norm = 0.0
            for r in range(found):
                within[r] = np.exp(-(near[r] - near[0]) / tau)
                norm += within[r]
            for r in range(found):
                weight[q, c * k + r] = mass * within[r] / norm
        if total > 0:
            for slot in range(slots):
                weight[q, slot] /= total
    return weight
