"""Weights and attributes as the file holds them: known types, whole, of bounded size, in the file itself."""

from __future__ import annotations

import math
from typing import Any

from onnx import AttributeProto, NodeProto, TensorProto

from peerwise.parcels.gate.limits import quoted, refused

# Bytes of one element in raw_data, and the field that may hold the elements instead.
ELEMENTS: dict[int, tuple[int, str]] = {
    TensorProto.FLOAT: (4, "float_data"),
    TensorProto.DOUBLE: (8, "double_data"),
    TensorProto.INT64: (8, "int64_data"),
    TensorProto.INT32: (4, "int32_data"),
    TensorProto.UINT8: (1, "int32_data"),
    TensorProto.BOOL: (1, "int32_data"),
    TensorProto.STRING: (0, "string_data"),
}
_LISTS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_VALUES = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}
MOST_SIDES, MOST_INT = 8, 2**31
_SMALLER = "Ask the peer for a smaller model, or raise the limit."
# Sizes and steps: zero or less would divide by zero, too many would take too long.
_RANGES = {
    "kernel_shape": (1, 4096),
    "strides": (1, 4096),
    "dilations": (1, 4096),
    "pads": (0, 4096),
    "group": (1, 65536),
    "hidden_size": (1, 65536),
    "n_targets": (1, 65536),
    "axis": (-MOST_SIDES, MOST_SIDES),
    "training_mode": (0, 0),
}


def type_name(number: int) -> str:
    known: dict[int, str] = {value: name for name, value in TensorProto.DataType.items()}
    return known.get(number, str(number)).lower()


def checked_tensor(tensor: TensorProto, most: int) -> int:
    """How many elements it has; `GateRefused` if it does not hold exactly these."""
    name, sides = quoted(tensor.name), list(tensor.dims)
    if tensor.data_type not in ELEMENTS:
        known = ", ".join(type_name(kind) for kind in ELEMENTS)
        raise refused(f"weights {name} of type {type_name(tensor.data_type)}", f"one of {known}")
    if len(sides) > MOST_SIDES or any(side < 0 for side in sides):
        raise refused(f"weights {name} of shape {quoted(sides)}", f"at most {MOST_SIDES} sides, none negative")
    count: int = math.prod(sides)
    if count > most:
        raise refused(f"weights {name} of shape {quoted(sides)}", f"at most {most} elements", _SMALLER)
    size, field = ELEMENTS[tensor.data_type]
    filled = [other for other in _LISTS if len(getattr(tensor, other))]
    raw = len(tensor.raw_data)
    held = raw / size if raw and size and not filled else len(getattr(tensor, field))
    if held != count or (raw and not size) or set(filled) - {field} or (raw and filled):
        found = f"weights {name} of shape {quoted(sides)}, with {raw} bytes and {', '.join(filled) or 'no list'}"
        raise refused(found, f"{count} elements of {type_name(tensor.data_type)}, in one place")
    return count


def checked_attributes(node: NodeProto, most: int) -> tuple[dict[str, Any], int]:
    """The attributes by name, and how many numbers are in them."""
    found: dict[str, Any] = {}
    numbers = 0
    for attribute in node.attribute:
        where = f"attribute {quoted(attribute.name)} of {node.op_type}"
        field = _VALUES.get(attribute.type)
        others = {item.name for item, _ in attribute.ListFields()} - {"name", "doc_string", "type", field}
        if field is None or others:
            raise refused(f"{where} of type {attribute.type} with {sorted(others)}", "one value, of the type it names")
        if attribute.name in found:
            raise refused(f"{where}, twice", "each attribute once")
        value = getattr(attribute, field)
        if field == "t":
            numbers += checked_tensor(value, most)
        elif field in ("floats", "ints", "strings"):
            numbers += len(value)
        if numbers > most:
            raise refused(f"{where} with {numbers} numbers", f"at most {most}", _SMALLER)
        if field in ("i", "ints"):
            _check_ints(node, attribute.name, [value] if field == "i" else value)
        found[attribute.name] = value
    return found, numbers


def _check_ints(node: NodeProto, name: str, values: Any) -> None:
    if node.op_type == "Slice" or not len(values):  # an open end is written as the largest number there is
        return
    if node.op_type == "Cast" and name == "to" and values[0] not in ELEMENTS:
        raise refused(f"Cast to {type_name(values[0])}", ", ".join(type_name(kind) for kind in ELEMENTS))
    low, high = _RANGES.get(name, (-MOST_INT, MOST_INT))
    if min(values) < low or max(values) > high:
        worst = min(values) if min(values) < low else max(values)
        raise refused(f"attribute {quoted(name)} of {node.op_type} is {worst}", f"{low} to {high}")
