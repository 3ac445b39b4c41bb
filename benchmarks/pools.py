"""Synthetic pool outputs for the benchmarks: models of different skill, always the same for the same numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerwise.space import softmax

Logits = NDArray[np.float32]
Labels = NDArray[np.int64]


def outputs(rng: np.random.Generator, rows: int, models: int, classes: int) -> tuple[Logits, Labels]:
    """What each model says of the true class stands out more or less from noise."""
    y = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, models, classes)).astype(np.float32)
    logits[np.arange(rows), :, y] += np.linspace(0, 4, models, dtype=np.float32)
    return logits, y


def decision_vectors(rows: int, models: int, classes: int) -> tuple[Logits, Labels]:
    """(rows, models * classes) probabilities."""
    logits, y = outputs(np.random.default_rng(0), rows, models, classes)
    return softmax(logits).reshape(rows, -1).astype(np.float32), y
