"""Two sets of answers to the same rows: which is better, by how much, and could it be chance?

A row counts only where exactly one of the two is right: ``only_ours`` and ``only_own`` such rows among ``rows``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, norm

from peerwise.errors import DataError

LEVEL = 0.95
STEPS = 40  # halvings of an interval of length 2: twelve digits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Our answers against the own model's, on the same rows.

    ``gain`` = accuracy of ours - accuracy of own, with the score interval ``low`` to ``high``; ``p``: exact McNemar
    test, two-sided. ``balanced_gain`` is the same of balanced accuracy, the mean over classes (`mean_interval`). The
    test and the interval are made differently and may disagree at the edge.
    """

    rows: int
    only_ours: int
    only_own: int
    gain: float
    low: float
    high: float
    p: float
    balanced_gain: float
    balanced_low: float
    balanced_high: float


def compare(y: ArrayLike, ours: ArrayLike, own: ArrayLike, level: float = LEVEL) -> Comparison:
    """Compare two sets of answers (labels, not probabilities) with the truth and each other.

    >>> found = compare([0, 0, 1, 1, 1, 1], ours=[0, 0, 1, 1, 1, 0], own=[1, 0, 0, 0, 1, 0])
    >>> found.only_ours, found.only_own, round(found.gain, 2), found.p
    (3, 0, 0.5, 0.25)
    """
    truth, first, second = (np.asarray(each) for each in (y, ours, own))
    if not truth.shape == first.shape == second.shape or truth.ndim != 1:
        shapes = f"{truth.shape}, {first.shape} and {second.shape}"
        raise DataError(f"y, ours and own have shapes {shapes}: expected the same (n,), one label a row.")
    counts = counts_by_class(truth, first, second)
    won, lost, rows = (int(each) for each in counts.sum(axis=0))
    low, high = score_interval([won], [lost], [rows], level)
    gain = (won - lost) / rows if rows else float("nan")
    balanced = mean_interval(counts[:, 0], counts[:, 1], counts[:, 2], level=level)
    return Comparison(rows, won, lost, gain, float(low[0]), float(high[0]), mcnemar(won, lost), *balanced)


def counts_by_class(y: NDArray[Any], ours: NDArray[Any], own: NDArray[Any]) -> NDArray[np.int64]:
    """``only_ours``, ``only_own`` and ``rows`` of each class present, (classes, 3)."""
    present, place = np.unique(y, return_inverse=True)
    right, own_right = ours == y, own == y
    parts = (right & ~own_right, own_right & ~right, np.ones(len(y)))
    return np.column_stack([np.bincount(place, part, minlength=len(present)) for part in parts]).astype(np.int64)


def mcnemar(only_ours: int, only_own: int) -> float:
    """Exact McNemar test: if both were equally good, each of these rows would fall to either side like a coin.
    Two-sided p; 1 where there is no such row."""
    rows = only_ours + only_own
    return float(binomtest(only_ours, rows, 0.5).pvalue) if rows else 1.0


def score_interval(
    only_ours: ArrayLike, only_own: ArrayLike, rows: ArrayLike, level: float = LEVEL
) -> tuple[Floats, Floats]:
    """Tango's score interval (1998) of the difference of two paired shares, (only_ours - only_own) / rows, for each
    entry of the arrays. It holds its level also for few rows, and is no point where both agree on every row. NaN
    without rows.

    With q the likeliest P(only own is right) if the difference were d, its ends solve
    (only_ours - only_own - rows d)^2 = z^2 rows (2 q + d (1 - d)).
    """
    b, c, n = (np.asarray(each, dtype=np.float64) for each in (only_ours, only_own, rows))
    z = float(norm.ppf((1 + level) / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.stack([(b - c) / n] * 2)
        outside = np.stack([np.full_like(b, -1.0), np.full_like(b, 1.0)])
        for _ in range(STEPS):
            tried = (inside + outside) / 2
            accepted = np.square(b - c - n * tried) <= z * z * n * _spread(b, c, n, tried)
            inside, outside = np.where(accepted, tried, inside), np.where(accepted, outside, tried)
    return inside[0], inside[1]


def mean_interval(
    only_ours: ArrayLike,
    only_own: ArrayLike,
    rows: ArrayLike,
    weights: ArrayLike | None = None,
    level: float = LEVEL,
) -> tuple[float, float, float]:
    """The mean of the differences of several parts with rows of their own (sites, classes; ``weights``: equal ones
    unless given) and its score interval: that of one sample with the same shares and as many rows as the parts are
    worth together.

    They are worth 1 / sum(w^2 / n) rows if all parts are alike, fewer if small parts differ more: then as many as
    explain the variance seen within parts. The smaller of the two counts, as in surveys (Korn and Graubard 1998).
    Parts without rows do not count; NaN of nothing.
    """
    b, c, n = (np.asarray(each, dtype=np.float64) for each in (only_ours, only_own, rows))
    w = np.ones_like(n) if weights is None else np.asarray(weights, dtype=np.float64)
    b, c, n, w = (each[n > 0] for each in (b, c, n, w))
    if not len(n):
        return float("nan"), float("nan"), float("nan")
    w = w / w.sum()
    won, lost = float((w * b / n).sum()), float((w * c / n).sum())
    gain, alike = won - lost, 1 / float((w * w / n).sum())
    spread = won + lost - gain * gain
    # One row alone shows no variance of its own.
    seen = np.where(n > 1, ((b + c) / n - np.square((b - c) / n)) / np.maximum(n - 1, 1), spread)
    variance = float((w * w * seen).sum())
    worth = min(alike, spread / variance) if variance > 0 else alike
    low, high = score_interval([worth * won], [worth * lost], [worth], level)
    return gain, float(low[0]), float(high[0])


def holm(p_values: ArrayLike) -> Floats:
    """Holm's correction over all these tests, of whatever sites, seeds and settings: the chance of even one false
    alarm among them stays below the level that an adjusted p is held to. NaN (no test) stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03]).round(6).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.shape, np.nan)
    order = np.argsort(raw)[: np.isfinite(raw).sum()]
    steps = raw[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _spread(b: Floats, c: Floats, n: Floats, d: Floats) -> Floats:
    """Of one row's difference, if the true difference were d: 2 q + d (1 - d)."""
    half = (2 * n - b + c) * d - b - c
    root = np.sqrt(np.maximum(np.square(half) + 8 * n * c * d * (1 - d), 0.0))
    q = (root - half) / (4 * n)
    return np.asarray(np.maximum(2 * q + d * (1 - d), 0.0))
