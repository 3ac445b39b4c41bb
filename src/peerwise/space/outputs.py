"""Pool outputs ``(n, models, classes)``: what is accepted, and what is refused by name."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import BadOutputs, DataError
from peerwise.models.outputs import log_probabilities

OutputKind = Literal["logits", "probabilities"]
Array = NDArray[np.float32]


def as_logits(outputs: ArrayLike, kind: str, *, what: str = "outputs", names: list[str] | None = None) -> Array:
    """Check outputs and return them as float32 logits (for probabilities: their logarithm, floored)."""
    if kind not in ("logits", "probabilities"):
        raise BadOutputs(f"kind={kind!r}: expected 'logits' or 'probabilities'.")
    try:
        array = np.asarray(outputs, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise BadOutputs(f"{what} are no array of numbers ({error}): expected (rows, models, classes).") from error
    if array.ndim != 3 or 0 in array.shape[1:]:
        raise BadOutputs(
            f"{what} have shape {array.shape}: expected (rows, models, classes) with at least one of each."
        )
    finite = np.isfinite(array)
    if not finite.all():
        model = int(np.flatnonzero(~finite.all(axis=(0, 2)))[0])
        row = int(np.flatnonzero(~np.isfinite(array[:, model]).all(axis=1))[0])
        raise BadOutputs(
            f"{what}: model {_name(model, names)} gives {_first_bad(array[row, model])} at row {row}: expected finite "
            f"numbers. Mend the model or leave it out of the pool."
        )
    if kind == "logits":
        return array
    _check_probabilities(array, what, names)
    return np.asarray(log_probabilities(array), dtype=np.float32)


def softmax(logits: NDArray[np.floating]) -> Array:
    """Softmax over the last axis, in float32 (that of `peerwise.models.outputs` is for one model, in float64)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float32)


def flat(array: NDArray[Any]) -> NDArray[Any]:
    """One vector a row, also where there are no rows."""
    return np.ascontiguousarray(array.reshape(len(array), math.prod(array.shape[1:])))


def check_codes(y: ArrayLike, rows: int, classes: int, *, what: str = "y") -> NDArray[np.int64]:
    """Labels as class codes 0..classes-1; negative, unknown or too few labels are refused with the first bad row."""
    codes = np.asarray(y)
    if codes.shape != (rows,):
        raise DataError(f"{what} has shape {codes.shape}: expected ({rows},), one label a row of the outputs.")
    if rows == 0:
        raise DataError(f"{what} is empty: expected at least one labelled row.")
    if codes.dtype.kind not in "iu":
        odd = np.ones(rows, bool) if codes.dtype.kind != "f" else ~np.isfinite(codes) | (codes != np.round(codes))
        if odd.any():
            row = int(odd.argmax())
            raise DataError(
                f"{what} holds {codes.tolist()[row]!r} at row {row}: expected class codes 0 to {classes - 1} "
                f"(whole numbers)."
            )
    bad = np.flatnonzero((codes < 0) | (codes >= classes))
    if len(bad):
        raise DataError(
            f"{what} holds the label {codes[bad[0]]} at row {bad[0]} ({len(bad)} such rows): expected class codes 0 to "
            f"{classes - 1}. Encode the labels in the order of the outputs' last axis."
        )
    return codes.astype(np.int64)


def _check_probabilities(array: Array, what: str, names: list[str] | None) -> None:
    bad = ((array < -1e-6) | (array > 1 + 1e-6)).any(axis=2) | (np.abs(array.sum(axis=2) - 1) > 1e-3)
    if bad.any():
        row, model = (int(i) for i in np.argwhere(bad)[0])
        raise BadOutputs(
            f"{what}: model {_name(model, names)} gives {np.round(array[row, model], 4).tolist()} at row {row}: "
            f"expected probabilities that sum to one. Pass kind='logits' if these are logits."
        )


def _name(model: int, names: list[str] | None) -> str:
    return repr(names[model]) if names else str(model)


def _first_bad(values: NDArray[Any]) -> str:
    return str(values[~np.isfinite(values)][0])
