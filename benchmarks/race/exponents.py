"""Power laws by least squares over the logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import linregress, t

EXACT_ROWS = 800  # with more, and a quarter of them held out beside, PeerwiseClassifier learns from landmarks


class Exponent(NamedTuple):
    """b of cost = a * size ** b, half the width of its 95 % confidence interval (NaN for two sizes), and R squared."""

    value: float
    margin: float
    r_squared: float

    def __str__(self) -> str:
        margin = "" if np.isnan(self.margin) else f" ± {self.margin:.2f}"
        return f"{self.value:.2f}{margin}"


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> Exponent:
    """NaN with fewer than two sizes.

    >>> str(exponent([1, 10, 100], [2, 20, 200]))
    '1.00 ± 0.00'
    """
    if len(sizes) < 2:
        return Exponent(float("nan"), float("nan"), float("nan"))
    found = linregress(np.log(sizes), np.log(np.maximum(costs, 1e-9)))
    freedom = len(sizes) - 2
    margin = float(t.ppf(0.975, freedom) * found.stderr) if freedom else float("nan")
    return Exponent(float(found.slope), margin, float(found.rvalue**2))


def cuts(axis: str, name: str, sizes: Sequence[int]) -> dict[str, list[int]]:
    """PeerwiseClassifier learns from all rows up to a number of them, and from landmarks above: two laws."""
    if (axis, name) != ("rows", "ours"):
        return {"": list(sizes)}
    parts = {
        f", up to {EXACT_ROWS:,}": [size for size in sizes if size <= EXACT_ROWS],
        f", above {EXACT_ROWS:,}": [size for size in sizes if size > EXACT_ROWS],
    }
    return {cut: some for cut, some in parts.items() if len(some) > 1}
