"""Small whole numbers that a graph works out for its shapes: kept while they are constant or in step with the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = NDArray[Any]
Pair = tuple[Value, Value]  # one value for each of two numbers of rows

MOST_ELEMENTS = 1024
MOST = 2**31  # beyond it a product may wrap around
_KINDS = {6: np.int32, 7: np.int64, 9: np.bool_}  # onnx's numbers of element types; floats are not followed


def in_step(first: Any, second: Any, rows: tuple[int, int]) -> bool:
    """Whether each number is the same for both numbers of rows, or grows with them."""
    a, b = np.asarray(first, dtype=object), np.asarray(second, dtype=object)
    return bool(a.shape == b.shape and np.all((a == b) | (a * rows[1] == b * rows[0])))


def folded(op: str, inputs: list[Pair | None], attributes: Mapping[str, Any], rows: tuple[int, int]) -> Pair | None:
    """The output for both numbers of rows, where it can be told; None where not, which is no error in itself."""
    given = [pair for pair in inputs if pair is not None]
    if len(given) < len(inputs) or not inputs:
        return None
    varying = [not np.array_equal(*pair) for pair in given]
    if op in _MOVES:
        if (op == "ConstantOfShape" and any(varying)) or (op == "Where" and varying[0]):
            return None
        function = _MOVES[op]
    elif op in _SUMS and (not any(varying) or _harmless(op, given, varying)):
        function = _SUMS[op]
    else:
        return None
    made = tuple(function([pair[lane] for pair in given], attributes) for lane in (0, 1))
    return _kept(made[0], made[1], rows)


def _kept(first: Value | None, second: Value | None, rows: tuple[int, int]) -> Pair | None:
    if first is None or second is None or first.size > MOST_ELEMENTS or first.dtype.kind not in "bi":
        return None
    return (first, second) if in_step(first, second, rows) else None


def _harmless(op: str, given: list[Pair], varying: list[bool]) -> bool:
    """A multiple of the number of rows; or its comparison with something negative, which it never equals. All other
    arithmetic with the rows could be tuned to explode at a number of rows that nobody tried."""
    if op == "Mul":
        return sum(varying) <= 1
    if op == "Equal" and sum(varying) == 1:
        moving, fixed = (given[0], given[1]) if varying[0] else (given[1], given[0])
        try:
            differs, other = np.broadcast_arrays(moving[0] != moving[1], fixed[0])
        except ValueError:
            return False
        return bool(np.all(other[differs] < 0))
    return False


def _small(function: Callable[..., Any]) -> Callable[[list[Value], Mapping[str, Any]], Value | None]:
    def work(values: list[Value], attributes: Mapping[str, Any]) -> Value | None:
        with np.errstate(all="ignore"):
            exact = np.asarray(function(*(value.astype(np.float64) for value in values)))
            if not np.all(np.isfinite(exact)) or np.any(np.abs(exact) > MOST):
                return None
            return np.asarray(function(*values))

    return work


def _truncated(a: Value, b: Value) -> Value:
    quotient = np.trunc(a.astype(np.float64) / b)
    return quotient if a.dtype.kind == "f" else quotient.astype(a.dtype)


def _mod(values: list[Value], attributes: Mapping[str, Any]) -> Value | None:
    return None if attributes.get("fmod") or np.any(values[1] == 0) else np.mod(*values)


def _axes(values: list[Value], attributes: Mapping[str, Any]) -> tuple[int, ...] | None:
    if len(values) > 1:
        return tuple(int(axis) for axis in values[1].ravel())
    return tuple(attributes["axes"]) if "axes" in attributes else None


def _unsqueeze(values: list[Value], attributes: Mapping[str, Any]) -> Value:
    return np.expand_dims(values[0], _axes(values, attributes) or ())


def _squeeze(values: list[Value], attributes: Mapping[str, Any]) -> Value:
    return np.squeeze(values[0], _axes(values, attributes))


def _slice(values: list[Value], attributes: Mapping[str, Any]) -> Value | None:
    if len(values) < 3:
        return None
    starts, ends = values[1].tolist(), values[2].tolist()
    axes = values[3].tolist() if len(values) > 3 else range(len(starts))
    steps = values[4].tolist() if len(values) > 4 else [1] * len(starts)
    where = [slice(None)] * values[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # what lies before the first element is the open end of a slice that goes backwards
        where[axis] = slice(start, None if step < 0 and end < -values[0].shape[axis] else end, step)
    return np.ascontiguousarray(values[0][tuple(where)])


def _reshape(values: list[Value], attributes: Mapping[str, Any]) -> Value | None:
    shape = values[1].tolist()
    return None if 0 in shape else np.reshape(values[0], shape)


def _filled(values: list[Value], attributes: Mapping[str, Any]) -> Value | None:
    if np.any(values[0] < 0) or np.prod(values[0].astype(np.float64)) > MOST_ELEMENTS:
        return None
    fill = attributes.get("value", np.zeros(1, np.float32))
    return np.full(values[0].tolist(), fill.ravel()[0])


def _cast(values: list[Value], attributes: Mapping[str, Any]) -> Value | None:
    kind = _KINDS.get(attributes["to"])
    return None if kind is None else values[0].astype(kind)


# What only moves numbers about: these may grow with the rows.
_MOVES: dict[str, Callable[[list[Value], Mapping[str, Any]], Value | None]] = {
    "Identity": lambda values, attributes: values[0],
    "Gather": lambda values, attributes: np.take(values[0], values[1], axis=attributes.get("axis", 0)),
    "Concat": lambda values, attributes: np.concatenate(values, axis=attributes["axis"]),
    "Transpose": lambda values, attributes: np.transpose(values[0], attributes.get("perm")),
    "Where": lambda values, attributes: np.where(*values),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "ConstantOfShape": _filled,
    "Cast": _cast,
}
_SUMS: dict[str, Callable[[list[Value], Mapping[str, Any]], Value | None]] = {
    "Add": _small(np.add),
    "Sub": _small(np.subtract),
    "Mul": _small(np.multiply),
    "Div": _small(_truncated),
    "Equal": _small(np.equal),
    "Mod": _mod,
}
