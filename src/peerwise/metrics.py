"""Metrics over class codes and probabilities. Early stopping, the choice of rounds and the tables all use these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Probabilities = NDArray[np.floating]


def accuracy(y: Labels, predicted: Labels) -> float:
    """Share of rows answered rightly; NaN without rows."""
    return float(np.mean(y == predicted)) if len(y) else float("nan")


def balanced_accuracy(y: Labels, predicted: Labels) -> float:
    """Mean recall over the classes present in ``y``; NaN without rows.

    >>> balanced_accuracy(np.array([0, 0, 0, 2]), np.array([0, 0, 1, 2]))
    0.8333333333333333
    """
    present = np.unique(y)
    if len(present) == 0:
        return float("nan")
    return float(np.mean([np.mean(predicted[y == label] == label) for label in present]))


def log_loss(y: Labels, probabilities: Probabilities, floor: float = 1e-8) -> float:
    """Mean negative log-probability of the true class, floored so that a certain mistake stays finite."""
    if len(y) == 0:
        return float("nan")
    return float(-np.mean(np.log(np.maximum(probabilities[np.arange(len(y)), y], floor))))


def effective_size(trust: NDArray[np.floating]) -> NDArray[np.float64]:
    """ESS = 1 / sum of squared weights, a row: how many models really have a say.

    >>> effective_size(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    array([2., 1.])
    """
    return np.asarray(1.0 / np.sum(np.square(trust, dtype=np.float64), axis=1))
