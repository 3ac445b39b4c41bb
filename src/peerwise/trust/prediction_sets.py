"""How sure an answer is: the classes that cannot be ruled out at a level, from rows that nothing was learned from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ConfigError, ParcelError

LOWEST, HIGHEST = 0.5, 0.999


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Split conformal prediction sets (Vovk, Gammerman & Shafer 2005), with the score s(x, c) = 1 - p(c | x).

        C(x) = { c : s(x, c) <= q }, and the likeliest class always
        q = the ceil((n + 1) * level)-th smallest s(x_i, y_i) of n calibration rows

    The truth is in C(x) for at least a share ``level`` of new rows, whatever the models are worth, as long as new rows
    come as the calibration rows did, and these were used for nothing else. That is a promise over all rows together:
    not for each class, nor for each kind of patient. Too few rows for a level rule nothing out. Without the likeliest
    class sets would be empty where models are right more often than the level asks, and a lower level be less sure.
    ``scores``: s(x_i, y_i), sorted.
    """

    scores: NDArray[np.float64]

    @classmethod
    def fit(cls, probabilities: NDArray[np.floating], y: NDArray[np.int64]) -> PredictionSets:
        """From what is said of calibration rows, (n, classes), and their class codes."""
        return cls(np.sort(1.0 - probabilities[np.arange(len(y)), y].astype(np.float64)))

    @classmethod
    def kept(cls, scores: object) -> PredictionSets:
        """From scores that were kept in a file, which somebody may have changed: a wrong one would rule out the
        truth."""
        right = isinstance(scores, np.ndarray) and scores.ndim == 1 and scores.dtype.kind == "f"
        if not isinstance(scores, np.ndarray) or not right or not ((scores > -1e-3) & (scores < 1.001)).all():
            raise ParcelError("the calibration scores were changed: expected numbers from 0 to 1. Make them again.")
        if (np.diff(scores) < 0).any():
            raise ParcelError("the calibration scores were changed: expected them sorted. Make them again.")
        return cls(scores.astype(np.float64))

    @property
    def rows(self) -> int:
        return len(self.scores)

    def __call__(self, probabilities: NDArray[np.floating], level: float) -> NDArray[np.bool_]:
        """``(n, classes)``: the classes that cannot be ruled out."""
        check_level(level)
        # (n + 1) * level a hair above a whole number is that number
        rank = math.ceil((self.rows + 1) * level - 1e-9)
        if rank > self.rows:
            return np.ones(probabilities.shape, np.bool_)
        likely = 1.0 - probabilities.astype(np.float64) <= self.scores[rank - 1]
        likely[np.arange(len(likely)), probabilities.argmax(axis=1)] = True
        return np.asarray(likely)


def check_level(level: float) -> None:
    if not LOWEST <= level <= HIGHEST:
        raise ConfigError(f"level is {level:g}: expected a share from {LOWEST} to {HIGHEST}, such as 0.9.")


def least_rows(level: float) -> int:
    """So many calibration rows are needed before anything can be ruled out.

    >>> least_rows(0.9), least_rows(0.95), least_rows(0.99)
    (9, 19, 99)
    """
    return math.ceil(level / (1 - level) - 1e-9)
