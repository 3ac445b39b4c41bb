"""What is said of the rows behind a model: how many, roughly, and what differential privacy was spent on them."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from peerwise.errors import ConfigError

EDGES = (1, 10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000)
UNITS = ("record", "client")
LONGEST = 80


@dataclass(frozen=True)
class Privacy:
    """(epsilon, delta) differential privacy of what leaves, all rounds together. ``unit``: whose presence it hides, one
    "record" or one "client" with all its rows; ``accountant``: how it was added up, such as "prv"."""

    epsilon: float
    delta: float
    unit: str
    accountant: str

    def __post_init__(self) -> None:
        if not (_is_number(self.epsilon) and self.epsilon > 0):
            raise ConfigError(f"epsilon is {self.epsilon!r}: expected a number above 0. Say what was spent.")
        if not (_is_number(self.delta) and 0 <= self.delta < 1):
            raise ConfigError(f"delta is {self.delta!r}: expected a number from 0 to below 1, such as 1e-5.")
        if self.unit not in UNITS:
            raise ConfigError(f"unit is {self.unit!r}: expected one of {', '.join(UNITS)}.")
        if not isinstance(self.accountant, str) or not 0 < len(self.accountant) <= LONGEST:
            raise ConfigError(f"accountant is {self.accountant!r}: expected its name, such as 'prv'.")

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def rows_bucket(n: int) -> str:
    """Roughly how many rows: their exact number would tell when a row comes or goes.

    >>> [rows_bucket(n) for n in (0, 7, 100, 499, 500, 2_000_000)]
    ['0', '1-9', '100-499', '100-499', '500-999', '1000000+']
    """
    if n < 0:
        raise ConfigError(f"{n} rows: expected 0 or more.")
    return BUCKETS[bisect_right(EDGES, n)]


BUCKETS = ("0", *(f"{low}-{high - 1}" for low, high in pairwise(EDGES)), f"{EDGES[-1]}+")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
