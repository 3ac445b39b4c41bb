"""The compiled loops of this room, in a file of their own: numba is imported when the first of them is called."""

from __future__ import annotations

import numpy as np
from numba import njit

EPS = 1e-8
TILE = 16  # queries that share one pass over the train rows: both stay in cache


@njit(cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _l1(a, b):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += abs(a[i] - b[i])
    return total


@njit(cache=True)
def nearest(queries, train, labels, leave_out, classes, k):  # type: ignore[no-untyped-def]  # pragma: no cover
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
def cumulative_mean_weights(queries, train, index, distance, classes, membership):  # type: ignore[no-untyped-def]  # pragma: no cover
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


@njit(cache=True)
def weighted_sums(index, weight, correct, surprise):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    n, slots = index.shape
    models = correct.shape[1]
    accuracy = np.zeros((n, models))
    log_loss = np.zeros((n, models))
    for q in range(n):
        for slot in range(slots):
            row = index[q, slot]
            if row < 0:
                continue
            w = weight[q, slot]
            for m in range(models):
                accuracy[q, m] += w * correct[row, m]
                log_loss[q, m] += w * surprise[row, m]
    return accuracy, log_loss
