"""An honest little model, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

INPUTS, CLASSES = {"x": (4,)}, 3


def tensor(name: str, value: Any, kind: Any = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.asarray(value, kind), name)


def honest(
    *nodes: NodeProto,
    weights: Iterable[TensorProto] = (),
    out: tuple[str, int, list[Any]] = ("logits", TensorProto.FLOAT, ["rows", 3]),
    opsets: Iterable[tuple[str, int]] = (("", 17), ("ai.onnx.ml", 3)),
    last: str = "x",
) -> ModelProto:
    """A linear model of the task, after ``nodes``, which make ``last`` of shape (rows, 4)."""
    graph = helper.make_graph(
        [*nodes, helper.make_node("MatMul", [last, "w"], [out[0]])],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info(*out)],
        [tensor("w", np.ones((4, 3))), *weights],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid(*item) for item in opsets])


def file(*nodes: NodeProto, **settings: Any) -> bytes:
    return bytes(honest(*nodes, **settings).SerializeToString())


def changed(change: Callable[[ModelProto], Any], **settings: Any) -> bytes:
    model = honest(**settings)
    change(model)
    return bytes(model.SerializeToString())


def node(op: str, inputs: Iterable[str], outputs: Iterable[str] = ("y",), **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def added(op: str, *weights: TensorProto, **attributes: Any) -> bytes:
    """The op's output is computed beside the answer, and thrown away."""
    return file(node(op, [item.name for item in weights], **attributes), weights=weights)


def length(size: int) -> bytes:
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size])
