"""What models put out: logits, probabilities, and the checks both must pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Sequences
from peerwise.errors import BadOutputs

FLOOR = 1e-7
VALUES_AT_ONCE = 2**19
IMAGE_DIMENSIONS = 4  # rows, channels, height, width

Floats = NDArray[np.floating[Any]]


def softmax(logits: Floats) -> NDArray[np.float64]:
    shifted = np.asarray(logits, dtype=np.float64)
    shifted = np.exp(shifted - shifted.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def log_probabilities(probabilities: Floats) -> NDArray[np.float64]:
    """Stand-in logits of a model that has none: log of the probabilities, none below `FLOOR`."""
    return np.asarray(np.log(np.clip(np.asarray(probabilities, dtype=np.float64), FLOOR, 1.0)))


def checked(outputs: Any, rows: int, classes: int, name: str) -> NDArray[np.float64]:
    """``outputs`` as float64 ``(rows, classes)``, or `BadOutputs` naming the model."""
    try:
        values = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadOutputs(
            f"model {name!r} returned {type(outputs).__name__}, expected numbers of shape ({rows}, {classes}): "
            "return one row of probabilities a sample."
        ) from error
    if values.shape != (rows, classes):
        raise BadOutputs(
            f"model {name!r} returned shape {values.shape}, expected ({rows}, {classes}): one row a sample, one "
            "column a class. Pass classes=[...] with one name a column, in the model's own order."
        )
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise BadOutputs(
            f"model {name!r} returned a non-finite value in {len(bad)} of {rows} rows (first: row {bad[0]}): expected "
            "finite numbers. Impute missing inputs inside the model or leave it out of the pool."
        )
    return values


def checked_probabilities(outputs: Any, rows: int, classes: int, name: str) -> NDArray[np.float64]:
    """As `checked`; rows must also be non-negative and sum to one."""
    values = checked(outputs, rows, classes, name)
    wrong = np.flatnonzero((values < -1e-6).any(axis=1) | (np.abs(values.sum(axis=1) - 1.0) > 1e-3))
    if len(wrong):
        row = np.array2string(values[wrong[0]], precision=4, threshold=8)
        raise BadOutputs(
            f"model {name!r} returned {row} for row {wrong[0]}: expected probabilities that sum to one. Apply softmax "
            "first; an ONNX file with logits must call its output 'logits'."
        )
    return np.clip(values, 0.0, 1.0)


def count_rows(X: Any) -> int:
    """Rows of an array, a DataFrame, a sparse matrix or Sequences."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def slices(X: Any) -> Iterator[slice]:
    """Row slices of bounded size, so that predicting a big array never needs a big block of activations."""
    first = X[:1]
    parts = (first.static, first.series) if isinstance(first, Sequences) else (first,)
    values = sum(int(np.prod(np.shape(part))) for part in parts)
    if len(np.shape(first)) == IMAGE_DIMENSIONS:
        values *= 4  # convolutions make many times as many
    step = max(1, VALUES_AT_ONCE // max(1, values))
    for start in range(0, len(X), step):
        yield slice(start, min(start + step, len(X)))
