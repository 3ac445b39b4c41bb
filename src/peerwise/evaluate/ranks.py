"""Many methods over many settings: mean ranks, and how far apart two of them must be to differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

from peerwise.errors import DataError
from peerwise.evaluate.paired import LEVEL, holm


@dataclass(frozen=True)
class Ranking:
    """``ranks``: the mean rank of each method over ``blocks`` settings, best (1) first; ``p`` of Friedman's test (all
    methods alike), corrected for ties; two methods whose mean ranks differ by less than ``critical`` cannot be told
    apart; ``groups``: the largest sets of methods of which this holds for all, each with two methods or more."""

    ranks: pd.Series[float]
    blocks: int
    p: float
    critical: float
    groups: list[tuple[str, ...]]


def ranking(scores: pd.DataFrame, level: float = LEVEL) -> Ranking:
    """Of methods (columns) over independent settings (rows), higher being better; equal scores share their ranks.

    Friedman's test, then Nemenyi's critical difference (Demsar, JMLR 2006): with k methods, n settings and q the
    studentised range over sqrt(2), CD = q sqrt(k (k + 1) / 6 n).
    """
    if scores.shape[0] < 2 or scores.shape[1] < 3:
        raise DataError(f"scores have shape {scores.shape}: expected at least 2 settings (rows) and 3 methods.")
    if scores.isna().any(axis=None):
        lacking = ", ".join(map(str, scores.columns[scores.isna().any()]))
        raise DataError(f"{lacking} did not run in every setting: rank the methods that did, or fewer settings.")
    values = scores.to_numpy(dtype=np.float64)
    ranks = pd.Series(rankdata(-values, axis=1).mean(axis=0), index=scores.columns, name="rank")
    ranks = ranks.sort_values(kind="stable")
    alike = bool((values == values[:, :1]).all())
    p = 1.0 if alike else float(friedmanchisquare(*values.T).pvalue)
    critical = critical_difference(scores.shape[1], scores.shape[0], level)
    return Ranking(ranks, scores.shape[0], p, critical, _groups(ranks, critical))


def critical_difference(methods: int, settings: int, level: float = LEVEL) -> float:
    """
    >>> round(critical_difference(4, 14), 2), round(critical_difference(4, 14, level=0.9), 2)
    (1.25, 1.12)
    """
    q = float(studentized_range.ppf(level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * settings))


def against(gains: pd.DataFrame) -> pd.Series[float]:
    """For each method (column) the p of no gain, over settings (rows; NaN where it did not run): Wilcoxon's signed
    ranks, two-sided, with Holm's correction over the methods. NaN with no setting where it is other than zero."""
    found = {}
    for name in gains.columns:
        known = gains[name].dropna().to_numpy(dtype=np.float64)
        moved = known[~np.isclose(known, 0.0, atol=1e-12)]
        found[name] = float(wilcoxon(moved).pvalue) if len(moved) else math.nan
    return pd.Series(holm(list(found.values())), index=gains.columns, name="p")


def _groups(ranks: pd.Series[float], critical: float) -> list[tuple[str, ...]]:
    values = ranks.to_numpy(dtype=np.float64)
    found: list[tuple[str, ...]] = []
    reached = 0
    for start in range(len(values)):
        end = int(np.searchsorted(values, values[start] + critical, side="left"))
        if end > max(reached, start + 1):
            found.append(tuple(map(str, ranks.index[start:end])))
            reached = end
    return found
