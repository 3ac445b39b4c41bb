"""The compiled loops of this room, in a file of their own: numba is imported when the first of them is called."""

from __future__ import annotations

import numpy as np
from numba import njit

EPS = 1e-8
TILE = 16  # queries that share one pass over the train rows: both stay in cache
BLOCK = 2048  # train rows that one query meets at once
STEP = 32  # of these, looked through together: few blocks hold a row that is near
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, fastmath=FAST)
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
                if d < distance[q, base + k - 1]:
                    _insert(distance[q], index[q], base, base + k - 1, d, row)
    return index, distance


@njit(cache=True)
def nearest_euclidean(queries, columns, leave_out, k):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """As `nearest` of one class, by squared Euclidean distance; ``columns`` (width, rows) holds the train rows turned,
    so that one query meets many rows at once."""
    n, rows = queries.shape[0], columns.shape[1]
    index = np.full((n, k), -1, np.int64)
    distance = np.full((n, k), np.inf, np.float32)
    room = np.empty(BLOCK, np.float32)
    for start in range(0, rows, BLOCK):
        far = room[: min(BLOCK, rows - start)]
        for q in range(n):
            _squares(queries[q], columns, start, far)
            for first in range(0, far.shape[0], STEP):
                part = far[first : first + STEP]
                if not _any_below(part, distance[q, k - 1]):
                    continue
                for r in range(part.shape[0]):
                    row = start + first + r
                    if part[r] < distance[q, k - 1] and row != leave_out[q]:
                        _insert(distance[q], index[q], 0, k - 1, part[r], row)
    return index, distance


@njit(cache=True)
def _insert(distance, index, first, last, d, row):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    slot = last
    while slot > first and distance[slot - 1] > d:
        distance[slot] = distance[slot - 1]
        index[slot] = index[slot - 1]
        slot -= 1
    distance[slot] = d
    index[slot] = row


@njit(cache=True)
def _squares(query, columns, start, far):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Four columns at a time: the sums are then read and written a quarter as often."""
    far[:] = 0
    width, stop = query.shape[0], start + far.shape[0]
    whole = width - width % 4
    for i in range(0, whole, 4):
        a, b = columns[i, start:stop], columns[i + 1, start:stop]
        c, d = columns[i + 2, start:stop], columns[i + 3, start:stop]
        _add_four(far, a, b, c, d, query[i], query[i + 1], query[i + 2], query[i + 3])
    for i in range(whole, width):
        _add_one(far, columns[i, start:stop], query[i])


@njit(cache=True, fastmath=FAST)
def _add_four(far, a, b, c, d, w, x, y, z):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for r in range(far.shape[0]):
        far[r] += ((a[r] - w) ** 2 + (b[r] - x) ** 2) + ((c[r] - y) ** 2 + (d[r] - z) ** 2)


@njit(cache=True, fastmath=FAST)
def _add_one(far, column, at):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for r in range(far.shape[0]):
        far[r] += (column[r] - at) ** 2


@njit(cache=True)
def _any_below(values, bound):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    below = np.int32(0)
    for r in range(values.shape[0]):
        below += np.int32(values[r] < bound)
    return below > 0


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


@njit(cache=True)
def answers(logits):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """``logits.argmax(axis=2)``, ten times as fast for few classes."""
    n, models, classes = logits.shape
    said = np.empty((n, models), np.int32)
    for q in range(n):
        for m in range(models):
            best, place = logits[q, m, 0], 0
            for c in range(1, classes):
                value = logits[q, m, c]
                better = value > best
                best, place = (value if better else best), (c if better else place)
            said[q, m] = place
    return said


@njit(cache=True)
def tally(said, weight, classes):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """``(n, classes)``: the summed weight of the models that say each class."""
    n, models = said.shape
    votes = np.zeros((n, classes))
    for q in range(n):
        for m in range(models):
            votes[q, said[q, m]] += weight[q, m]
    return votes
