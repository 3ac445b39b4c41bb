"""Weights that are mostly zero, stored so that a parcel is as small as what is left of them.

An array becomes its values that are not zero, in order, and where they stand: one bit for every element, or the gaps
between the values in one byte each (255: skip so many elements, no value follows), whichever is smaller. An array that
would not become smaller stays as it is. Zero means that every bit is: -0.0 and NaN are values, so that every array
comes back bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError
from peerwise.parcels.flat import NAMES

SKIP = 255  # the byte for a gap too long for one byte
OVERHEAD = 200  # bytes that two arrays with names and a shape cost in a parcel beside one
MOST_BYTES = 2**30  # of all arrays together, where the receiver does not know their shapes


def sparse_weights(weights: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """A tree for a parcel; `dense_weights` is its inverse.

    >>> pruned = np.zeros((100, 100), np.float32)
    >>> pruned[7, 3] = 0.5
    >>> sorted(sparse_weights({"layer": pruned})["layer"])
    ['gaps', 'shape', 'values']
    """
    return {name: _sparse(np.asarray(array)) for name, array in weights.items()}


def dense_weights(tree: Any, like: Mapping[str, NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays as they were. ``like``: arrays of the names, shapes and types that are expected; without it all of
    them together may take `MOST_BYTES`. What does not fit is refused before there is memory for it."""
    if not isinstance(tree, Mapping):
        raise ParcelError(f"weights are a {type(tree).__name__}: expected arrays by name, as sparse_weights gives.")
    if like is not None and set(tree) != set(like):
        odd = sorted(str(name) for name in set(tree) ^ set(like))
        raise ParcelError(f"weights {odd[:3]} are missing or too many: expected {len(like)} arrays as the net has.")
    left = MOST_BYTES
    for name, node in tree.items():
        shape, dtype = _declared(node, name)
        if like is not None and (shape, dtype) != (like[name].shape, like[name].dtype):
            raise ParcelError(
                f"weights {name!r} are {dtype} of shape {shape}: expected {like[name].dtype} of {like[name].shape}. "
                f"Was another net trained there?"
            )
        left -= prod(side or 1 for side in shape) * dtype.itemsize  # without rows it could claim any other side
        if like is None and left < 0:
            raise ParcelError(f"weights {name!r} of shape {shape}: expected at most {MOST_BYTES:,} bytes in all.")
    return {name: node if isinstance(node, np.ndarray) else _dense(node, name) for name, node in tree.items()}


def _sparse(array: NDArray[Any]) -> NDArray[Any] | dict[str, Any]:
    flat = np.ascontiguousarray(array).reshape(-1)
    if not flat.size or flat.dtype.newbyteorder("=") not in NAMES:  # the parcel says what it cannot hold
        return array
    there = flat.view(np.uint8).reshape(flat.size, -1).any(axis=1)
    values = flat[there]
    coded = {"gaps": _gaps(np.flatnonzero(there)), "mask": np.packbits(there)}
    kind = min(coded, key=lambda name: coded[name].nbytes)
    if values.nbytes + coded[kind].nbytes + OVERHEAD >= array.nbytes:
        return array
    return {"shape": list(array.shape), "values": values, kind: coded[kind]}


def _gaps(positions: NDArray[np.int64]) -> NDArray[np.uint8]:
    skips, rest = np.divmod(np.diff(positions, prepend=-1) - 1, SKIP)
    coded = np.full(len(positions) + int(skips.sum()), SKIP, np.uint8)
    coded[np.arange(len(positions)) + np.cumsum(skips)] = rest
    return coded


def _declared(node: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type that a node says it has, where it is one that we write."""
    if isinstance(node, np.ndarray):
        return node.shape, node.dtype
    known = isinstance(node, Mapping) and set(node) in ({"shape", "values", "gaps"}, {"shape", "values", "mask"})
    if not known or not isinstance(node["values"], np.ndarray) or node["values"].ndim != 1:
        raise ParcelError(f"weights {name!r} are no array: expected one, or shape, values, and mask or gaps.")
    shape = node["shape"]
    if not isinstance(shape, list) or any(type(side) is not int or side < 0 for side in shape):
        raise ParcelError(f"weights {name!r} have the shape {str(shape)[:80]}: expected whole numbers from 0.")
    if len(shape) > 32:
        raise ParcelError(f"weights {name!r} have {len(shape)} dimensions: expected at most 32.")
    return tuple(shape), node["values"].dtype


def _dense(node: Mapping[str, Any], name: str) -> NDArray[Any]:
    size, values = prod(node["shape"]), node["values"]
    positions = _from_mask(node["mask"], size, name) if "mask" in node else _from_gaps(node["gaps"], size, name)
    if len(positions) != len(values):
        raise ParcelError(
            f"weights {name!r} have {len(values)} values for {len(positions)} positions: expected as many. "
            f"They were changed or cut short: fetch them again."
        )
    flat = np.zeros(size, values.dtype)
    flat[positions] = values
    return flat.reshape(node["shape"])


def _from_mask(mask: Any, size: int, name: str) -> NDArray[np.int64]:
    _check_bytes(mask, name)
    if len(mask) != -(-size // 8):
        raise ParcelError(f"weights {name!r} have a mask of {len(mask)} bytes: expected {-(-size // 8)}, a bit each.")
    positions = np.flatnonzero(np.unpackbits(mask))
    return _within(positions, size, name)


def _from_gaps(gaps: Any, size: int, name: str) -> NDArray[np.int64]:
    _check_bytes(gaps, name)
    steps = gaps.astype(np.int64) + (gaps != SKIP)
    return _within((np.cumsum(steps) - 1)[gaps != SKIP], size, name)


def _within(positions: NDArray[np.int64], size: int, name: str) -> NDArray[np.int64]:
    if len(positions) and positions[-1] >= size:
        raise ParcelError(
            f"weights {name!r} have a value at position {positions[-1]}: expected below {size}. They were changed or "
            f"cut short: fetch them again."
        )
    return positions


def _check_bytes(coded: Any, name: str) -> None:
    if not isinstance(coded, np.ndarray) or coded.dtype != np.uint8 or coded.ndim != 1:
        raise ParcelError(f"weights {name!r} have positions of another kind: expected bytes in one row.")
