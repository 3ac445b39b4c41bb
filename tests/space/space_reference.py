"""The decision space written a second time, as loops over the definitions, to hold the fast one against."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

EPS = 1e-8


def grid_rows(rng: np.random.Generator, rows: int, width: int, levels: int = 5) -> np.ndarray:
    """Rows on a coarse grid: many duplicates and ties, and distances that float32 holds exactly."""
    return (rng.integers(0, levels, (rows, width)) / 8).astype(np.float32)


def neighbours(queries, train, labels, k, leave_out_self=False):
    """For each query {class: [(row, distance), ...]}, nearest first, ties by row."""
    found = []
    for j, query in enumerate(queries):
        near = {}
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            rows = rows[rows != j] if leave_out_self else rows
            if not len(rows):
                continue
            search = NearestNeighbors(n_neighbors=len(rows), algorithm="brute", metric="manhattan").fit(train[rows])
            distances, order = search.kneighbors(query[None])
            ranked = sorted(zip(distances[0], rows[order[0]], strict=True))[:k]
            near[int(label)] = [(int(row), float(distance)) for distance, row in ranked]
        found.append(near)
    return found


def weights(query, train, near, member=None):
    """{row: weight} of one query, from the definitions."""
    mass, within = {}, {}
    for label, pairs in near.items():
        d = 0.0
        for r in range(1, len(pairs) + 1):
            mean = np.mean([train[row] for row, _ in pairs[:r]], axis=0, dtype=np.float64)
            d += np.abs(mean - query).sum() / len(pairs)
        share = 1.0 if member is None else np.mean([member[row] for row, _ in pairs])
        mass[label] = share / (d + EPS)
        distances = np.array([distance for _, distance in pairs])
        tau = max(np.median(distances), EPS)
        raised = np.exp(-(distances - distances.min()) / tau)
        within[label] = raised / raised.sum()
    total = sum(mass.values())
    return {
        row: mass[label] / total * within[label][place]
        for label, pairs in near.items()
        for place, (row, _) in enumerate(pairs)
    }


def membership(train, labels, k=7):
    shares = []
    for i in range(len(train)):
        others = [(float(np.abs(train[i].astype(float) - train[j]).sum()), j) for j in range(len(train)) if j != i]
        nearest = [j for _, j in sorted(others)[:k]]
        shares.append(np.mean([labels[j] == labels[i] for j in nearest]) if nearest else 0.0)
    return np.array(shares)


def softmax(logits):
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def random_logits(rng: np.random.Generator, rows: int, models: int, classes: int) -> np.ndarray:
    return rng.normal(0, 2, (rows, models, classes)).astype(np.float32)
