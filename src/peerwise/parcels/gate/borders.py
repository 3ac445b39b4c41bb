"""What goes in and what comes out: the task's inputs, one output "logits", and names of classes and features."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from peerwise.parcels.gate.limits import quoted, refused
from peerwise.parcels.gate.tensors import type_name

UNKNOWN = "unknown"  # the reserved class of a model that may say so
INPUT_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.UINT8, TensorProto.INT64, TensorProto.INT32)
OUTPUT_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE)
MOST_METADATA, MOST_NAME = 2**16, 200


def check_inputs(graph: GraphProto, inputs: Mapping[str, tuple[int, ...]]) -> None:
    """Exactly the task's inputs, each for any number of rows."""
    names = [given.name for given in graph.input]
    if set(names) != set(inputs):
        by_column = len(names) > len(inputs) == 1 and math.prod(next(iter(inputs.values()))) == len(names)
        raise refused(
            f"inputs {quoted(names)}",
            f"{list(inputs)}",
            "It takes one input a column, as an export from a data frame with text does: ask the peer to code "
            "categories as numbers and export from an array."
            if by_column
            else "Ask the peer to export the model for this task.",
        )
    for given in graph.input:
        sides = _sides(given)
        if given.type.tensor_type.elem_type not in INPUT_TYPES:
            known = ", ".join(type_name(kind) for kind in INPUT_TYPES)
            raise refused(f"input {given.name!r} of type {type_name(given.type.tensor_type.elem_type)}", known)
        if sides is None or not sides or sides[0] is not None:
            raise refused(f"input {given.name!r} of shape {quoted(sides)}", "any number of rows, and their shape")
        if tuple(sides[1:]) != tuple(inputs[given.name]):
            raise refused(
                f"input {given.name!r} has rows of shape {quoted(tuple(sides[1:]))}",
                f"{tuple(inputs[given.name])}",
                "Ask the peer to train on the columns of this task.",
            )


def check_output(graph: GraphProto) -> None:
    names = [said.name for said in graph.output]
    if names != ["logits"]:
        raise refused(f"outputs {quoted(names)}", "one, 'logits'", "Ask the peer to use peerwise.models.export.")
    kind = graph.output[0].type.tensor_type.elem_type
    if kind not in OUTPUT_TYPES:
        raise refused(f"an output of type {type_name(kind)}", "float or double")


def check_width(graph: GraphProto, found: list[int], rows: int, classes: int, names: tuple[Any, ...] | None) -> int:
    """How many columns the output has, one a class; one more where the last is declared to be "unknown"."""
    open_set = names is not None and len(names) == classes + 1 and names[-1] == UNKNOWN
    width = classes + open_set
    if names is not None and len(names) != width:
        raise refused(f"names of {len(names)} classes", f"{classes}, or one more called {UNKNOWN!r} at the end")
    declared = _sides(graph.output[0])
    if found != [rows, width]:
        raise refused(
            f"an output of shape {quoted(found)} for {rows} rows", f"{[rows, width]}, one column a class", _OTHER_TASK
        )
    if declared is not None and (len(declared) != 2 or declared[0] is not None or declared[1] not in (None, width)):
        raise refused(f"an output that is said to be of shape {quoted(declared)}", f"[rows, {width}]", _OTHER_TASK)
    return width


_OTHER_TASK = "It may be a model of another task: ask the peer."


def read_metadata(model: ModelProto, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[Any, ...] | None]:
    """The names of classes and features, where the file has them; it may have nothing else."""
    found: dict[str, tuple[Any, ...] | None] = {"classes": None, "features": None}
    for item in model.metadata_props:
        if item.key not in found or found[item.key] is not None:
            raise refused(f"metadata {quoted(item.key)}, unknown or twice", "only 'classes' and 'features'")
        if len(item.value) > MOST_METADATA:
            raise refused(f"{len(item.value)} characters of {item.key}", f"at most {MOST_METADATA}")
        found[item.key] = _names(item.key, item.value)
    features = found["features"]
    shapes = list(inputs.values())
    if features is not None and len(shapes) == 1 and len(shapes[0]) == 1 and len(features) != shapes[0][0]:
        raise refused(f"names of {len(features)} features", f"{shapes[0][0]}")
    return found


def _names(key: str, text: str) -> tuple[Any, ...]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        raise refused(f"metadata {key} {quoted(text)}", "a JSON list of names") from None
    kinds = (str,) if key == "features" else (str, int, float, bool)
    if not isinstance(names, list) or not all(isinstance(name, kinds) for name in names):
        raise refused(f"metadata {key} {quoted(text)}", "a JSON list of names")
    if any(len(str(name)) > MOST_NAME or (isinstance(name, float) and not math.isfinite(name)) for name in names):
        raise refused(f"metadata {key} {quoted(text)}", f"names of at most {MOST_NAME} characters")
    if len({str(name) for name in names}) != len(names):
        raise refused(f"metadata {key} {quoted(text)}", "each name once")
    return tuple(names)


def _sides(value: ValueInfoProto) -> list[int | None] | None:
    """The shape as it is said, None for a side that is open; None where there is no shape."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [side.dim_value if side.HasField("dim_value") else None for side in value.type.tensor_type.shape.dim]
