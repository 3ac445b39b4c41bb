"""What a child says, taken apart by a parent that trusts none of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import BadOutputs, BrokenFile, GateRefused, ModelError, ParcelError, PeerwiseError, WorkerError
from peerwise.models.onnx_model import TYPES
from peerwise.models.worker.frames import Header

RAISED: dict[str, type[PeerwiseError]] = {
    kind.__name__: kind for kind in (BrokenFile, ModelError, BadOutputs, WorkerError, ParcelError, GateRefused)
}
MOST_TEXT = 1000  # characters of an error
MOST_DIMENSIONS = 8
MOST_NAME = 500  # characters of the name of an input, a class or a feature
MOST_NAMES = 10_000
DTYPES = ("<f4", "<f8")

Reply = tuple[Header, list[bytearray]]


class Refused(Exception):
    """What the runtime said of rows that it did not take, the slice of this number."""

    slice = 0


@dataclass(frozen=True)
class Facts:
    """Of an opened file, as `peerwise.models.onnx_model.OnnxModel` has them."""

    inputs: dict[str, str]
    input_shapes: dict[str, tuple[int, ...]]
    has_logits: bool
    width: int | None
    classes: tuple[Any, ...] | None
    features: tuple[str, ...] | None


def printable(text: str) -> str:
    """What a stranger may have written, as one line that no terminal obeys."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def raise_error(header: Header) -> None:
    """Where the child tells an error, that one, by its name."""
    if "error" not in header:
        return
    kind, text = header["error"], header.get("text")
    if set(header) != {"error", "text"} or type(kind) is not str or type(text) is not str:
        raise _strange(header)
    said = printable(text)[:MOST_TEXT]
    raise RAISED[kind](said) if kind in RAISED else Refused(said)


def facts(reply: Reply) -> Facts:
    header, parts = reply
    raise_error(header)
    if set(header) != {field.name for field in fields(Facts)} or parts:
        raise _strange(header)
    inputs, shaped, width = header["inputs"], header["input_shapes"], header["width"]
    right = (
        isinstance(inputs, dict)
        and all(_is_name(name) and type(kind) is str and kind in TYPES for name, kind in inputs.items())
        and isinstance(shaped, dict)
        and set(shaped) == set(inputs)
        and all(_is_shape(shape, least=-1) for shape in shaped.values())
        and type(header["has_logits"]) is bool
        and (width is None or type(width) is int)
        and all(_is_flat_list(header[key]) for key in ("classes", "features"))
    )
    if not right:
        raise _strange(header)
    sizes = {name: tuple(shape) for name, shape in shaped.items()}
    classes, features = (None if header[key] is None else tuple(header[key]) for key in ("classes", "features"))
    return Facts(inputs, sizes, header["has_logits"], width, classes, features)


def arrays(replies: Iterable[Reply]) -> list[NDArray[Any]]:
    found: list[NDArray[Any]] = []
    for reply in replies:
        try:
            found.append(array(reply))
        except Refused as refused:
            refused.slice = len(found)
            raise
    return found


def array(reply: Reply) -> NDArray[Any]:
    header, parts = reply
    raise_error(header)
    dtype, shape = header.get("dtype"), header.get("shape")
    if set(header) != {"dtype", "shape"} or len(parts) != 1 or dtype not in DTYPES or not _is_shape(shape):
        raise _strange(header)
    assert shape is not None
    if math.prod(shape) * int(dtype[-1]) != len(parts[0]):
        raise WorkerError(
            f"the process sent {len(parts[0])} bytes for {shape} of {dtype}: expected as many as that is."
        )
    return np.frombuffer(parts[0], dtype).reshape(shape)


def shapes(reply: Reply) -> dict[str, list[int]]:
    header, parts = reply
    raise_error(header)
    found = header.get("shapes")
    if set(header) != {"shapes"} or parts or not isinstance(found, dict):
        raise _strange(header)
    if not all(isinstance(shape, list) and all(type(size) is int for size in shape) for shape in found.values()):
        raise _strange(header)
    return found


def _is_name(name: Any) -> bool:
    return type(name) is str and len(name) <= MOST_NAME and name.isprintable()


def _is_flat_list(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        return False
    return not any(isinstance(each, list | dict) or len(str(each)) > MOST_NAME for each in value)


def _is_shape(shape: Any, least: int = 0) -> bool:
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        return False
    return all(type(size) is int and least <= size < 2**62 for size in shape)


def _strange(header: Header) -> WorkerError:
    return WorkerError(f"the process sent {printable(str(header)[:200])}: expected an answer. It was ended.")
