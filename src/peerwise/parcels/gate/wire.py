"""The first look at a file's bytes, before anything is built of them: only known parts, and not too many.

A parser makes an object of every two bytes if it is told to, some gigabytes of them from a file that is small enough;
and what may not be in a file at all (sub-graphs, functions, data kept elsewhere) is best refused while it is bytes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import onnx

from peerwise.parcels.gate.limits import GateLimits, quoted, refused

# What may be there of each kind of message, with a star where it may be there several times. All else is refused.
ALLOWED = {
    "ModelProto": "ir_version opset_import* producer_name producer_version domain model_version doc_string graph "
    "metadata_props*",
    "OperatorSetIdProto": "domain version",
    "StringStringEntryProto": "key value",
    "GraphProto": "node* name initializer* doc_string input* output* value_info*",
    "NodeProto": "input* output* name op_type domain attribute* doc_string",
    "AttributeProto": "name doc_string type f i s t floats* ints* strings*",
    "TensorProto": "dims* data_type float_data* int32_data* string_data* int64_data* name doc_string raw_data "
    "double_data* uint64_data*",
    "ValueInfoProto": "name type doc_string",
    "TypeProto": "tensor_type denotation",
    "Tensor": "elem_type shape",
    "TensorShapeProto": "dim*",
    "Dimension": "dim_value dim_param denotation",
}
MEANS = {
    "external_data": "weights kept in another file, which the runtime would read from this machine",
    "data_location": "weights kept in another file, which the runtime would read from this machine",
    "g": "a sub-graph",
    "graphs": "sub-graphs",
    "functions": "local functions",
    "training_info": "a graph for training",
    "sparse_initializer": "sparse weights",
    "sparse_tensor": "sparse weights",
    "sparse_tensors": "sparse weights",
    "quantization_annotation": "quantised weights",
    "sequence_type": "a list of tensors",
    "map_type": "a dictionary",
    "optional_type": "a value that may be absent",
    "metadata_props": "notes of the exporter",
}
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
# Long lists within an attribute, thousands at a time: the nodes of trees. The quantifiers never go back.
_RUNS = {
    7: re.compile(rb"(?:\x3d.{4}){2,4096}+", re.DOTALL),
    8: re.compile(rb"(?:\x40[\x80-\xff]{0,9}+[\x00-\x7f]){2,4096}+"),
    9: re.compile(rb"(?:\x4a(?:\x04LEAF|\x0aBRANCH_(?:LEQ|GTE|NEQ)|\x09BRANCH_(?:LT|GT|EQ))){2,4096}+"),
}


class _Field(NamedTuple):
    name: str
    allowed: bool
    repeated: bool
    wires: tuple[int, ...]
    kind: str | None  # of the message within


@cache
def _kinds() -> dict[str, dict[int, _Field]]:
    """Of each kind of message: field number -> what is known of it."""
    found: dict[str, dict[int, _Field]] = {}
    waiting = [onnx.ModelProto.DESCRIPTOR]
    while waiting:
        kind = waiting.pop()
        if kind.name not in found:
            found[kind.name] = {field.number: _field(kind.name, field) for field in kind.fields}
            waiting += [part.message_type for part in kind.fields if found[kind.name][part.number].kind]
    return found


def _field(kind: str, field: Any) -> _Field:
    allowed = ALLOWED[kind].split()
    repeated = f"{field.name}*" in allowed
    if field.cpp_type in (field.CPPTYPE_STRING, field.CPPTYPE_MESSAGE):
        wires: tuple[int, ...] = (LENGTH,)
    else:
        plain = {field.CPPTYPE_FLOAT: FIXED32, field.CPPTYPE_DOUBLE: FIXED64}.get(field.cpp_type, VARINT)
        wires = (plain, LENGTH) if repeated else (plain,)  # a list of numbers may also be one block
    ok = repeated or field.name in allowed
    return _Field(field.name, ok, repeated, wires, field.message_type.name if ok and field.message_type else None)


def looked_over(data: bytes, limits: GateLimits) -> None:
    """`GateRefused` unless the bytes are a model's, with nothing in them but what is `ALLOWED`."""
    kinds, fields, nodes = _kinds(), 0, 0
    waiting = [("ModelProto", 0, len(data))]
    while waiting:
        kind, at, end = waiting.pop()
        seen: set[int] = set()
        while at < end:
            fields += 1
            if fields > limits.fields:
                raise refused(f"a file of more than {limits.fields} parts", f"at most {limits.fields}", _SMALLER)
            if kind == "AttributeProto":
                at = _skip_runs(data, at, end)
                if at == end:
                    break
            number, wire, at = _tag(data, at, end)
            field = kinds[kind].get(number)
            if field is None or not field.allowed:
                raise _unexpected(kind, number, field)
            if wire not in field.wires or number in seen:
                raise refused(f"{kind}.{field.name} twice or in another form (byte {at})", "each part once, as in ONNX")
            if not field.repeated:
                seen.add(number)
            start, at = _extent(data, wire, at, end)
            if field.kind:
                waiting.append((field.kind, start, at))
                nodes += field.kind == "NodeProto"
                if nodes > limits.nodes:
                    raise refused(f"a graph of more than {limits.nodes} nodes", f"at most {limits.nodes}", _SMALLER)


_SMALLER = "Ask the peer for a smaller model, or raise the limit."


def _skip_runs(data: bytes, at: int, end: int) -> int:
    while at < end and (run := _RUNS.get(data[at] >> 3)) and (found := run.match(data, at, end)):
        at = found.end()
    return at


def _tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    key, at = _varint(data, at, end)
    return key >> 3, key & 7, at


def _extent(data: bytes, wire: int, at: int, end: int) -> tuple[int, int]:
    """Where the field's content begins and ends."""
    if wire == VARINT:
        return at, _varint(data, at, end)[1]
    if wire == LENGTH:
        size, at = _varint(data, at, end)
    elif wire in (FIXED32, FIXED64):
        size = 4 if wire == FIXED32 else 8
    else:
        raise _broken(at)
    if size > end - at:
        raise _broken(at)
    return at, at + size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _broken(at)


def _broken(at: int) -> Exception:
    return refused(f"the file makes no sense at byte {at}", "a whole ONNX file", _FETCH)


def _unexpected(kind: str, number: int, field: _Field | None) -> Exception:
    if field is None:
        return refused(f"a part {number} of {kind}, which ONNX does not have", "an ONNX file", _FETCH)
    name = MEANS.get(field.name, f"a part {quoted(field.name)}")
    only = ", ".join(sorted(ALLOWED[kind].replace("*", "").split()))
    return refused(f"{name} ({kind}.{field.name})", f"of {kind} only {only}", _PLAIN)


_FETCH = "It may be truncated or no ONNX: fetch it again."
_PLAIN = "Ask the peer to export a plain model: one graph with its weights in it."
