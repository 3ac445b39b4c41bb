"""Small ONNX files for tests of the worker: one that is as it should be, and some that no site should run by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import FunctionProto, TensorProto, helper, numpy_helper

from peerwise.models.worker import Limits

COLUMNS, CLASSES = 4, 3
# Small enough that a hanging model is soon given up, and wide enough for a busy machine to open a good one.
SHORT = Limits(memory_bytes=2**29, seconds=5.0)
ENDLESS = 2**62
READ = 1024  # numbers in a file that `reading_model` reads


def rows(count: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, COLUMNS)).astype(np.float32)


def linear_model(seed: int = 0, *, columns: int = COLUMNS, extra_bytes: int = 0) -> bytes:
    """x W + b as logits; ``extra_bytes`` make the file heavier without changing what it says."""
    rng = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(rng.normal(size=(columns, CLASSES)).astype(np.float32), "W"),
        numpy_helper.from_array(rng.normal(size=CLASSES).astype(np.float32), "b"),
        numpy_helper.from_array(rng.integers(0, 256, extra_bytes).astype(np.uint8), "unused"),
    ]
    return _file([helper.make_node("Gemm", ["x", "W", "b"], ["logits"])], weights, columns=columns)


def heavy_model(seed: int, megabytes: int) -> bytes:
    """A table of so many megabytes, of which x chooses the row that it adds."""
    count = megabytes * 2**20 // (4 * CLASSES)
    weights = [
        numpy_helper.from_array(np.full((count, CLASSES), seed, np.float32), "table"),
        numpy_helper.from_array(np.ones((COLUMNS, CLASSES), np.float32), "W"),
        numpy_helper.from_array(np.zeros(1, np.float32), "zero"),
    ]
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0, 1], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["first"]),
        helper.make_node("Cast", ["first"], ["place"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "place"], ["chosen"], axis=0),
        helper.make_node("MatMul", ["x", "W"], ["sums"]),
        helper.make_node("Add", ["sums", "chosen"], ["logits"]),
    ]
    return _file(nodes, weights)


def endless_model() -> bytes:
    """A loop that goes on for ever when it is run."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [_value("i", TensorProto.INT64, []), _value("go", TensorProto.BOOL, []), _value("v", TensorProto.FLOAT, None)],
        [_value("go_on", TensorProto.BOOL, []), _value("w", TensorProto.FLOAT, None)],
    )
    weights = [numpy_helper.from_array(np.array(ENDLESS), "n"), numpy_helper.from_array(np.array(True), "yes")]
    nodes = [
        helper.make_node("Gather", ["x", "places"], ["some"], axis=1),
        helper.make_node("Loop", ["n", "yes", "some"], ["logits"], body=body),
    ]
    return _file(nodes, [*weights, numpy_helper.from_array(np.arange(CLASSES), "places")])


def big_model(values: int) -> bytes:
    """It makes a block of so many float32 values from a file of some hundred bytes, and says zero."""
    weights = [
        numpy_helper.from_array(np.array([1, values], np.int64), "wide"),
        numpy_helper.from_array(np.zeros((COLUMNS, CLASSES), np.float32), "W"),
    ]
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["one"], axes=[0, 1], keepdims=1),  # not known before it is run
        helper.make_node("Expand", ["one", "wide"], ["block"]),
        helper.make_node("ReduceMin", ["block"], ["least"], axes=[0, 1], keepdims=1),
        helper.make_node("MatMul", ["x", "W"], ["zero"]),
        helper.make_node("Mul", ["zero", "least"], ["logits"]),
    ]
    return _file(nodes, weights)


def reading_model(path: str) -> bytes:
    """It says what stands in a file of the machine that runs it: x times the first numbers in it."""
    tensor = TensorProto(name="B", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.dims.extend([COLUMNS, READ // COLUMNS])
    for key, value in (("location", path), ("offset", "0"), ("length", str(4 * READ))):
        tensor.external_data.add(key=key, value=value)
    nodes = [
        helper.make_node("MatMul", ["x", "B"], ["read"]),
        helper.make_node("Gather", ["read", "places"], ["logits"], axis=1),
    ]
    return _file(nodes, [tensor, numpy_helper.from_array(np.arange(CLASSES), "places")])


def doubling_model(depth: int = 40) -> bytes:
    """Local functions, each of which calls the next one twice: a file of two kilobytes that is 2^depth nodes."""
    functions = [
        _function(f"f{place}", ["x"], ["y"], [f"f{place + 1}", f"f{place + 1}"] if place < depth else ["Relu"])
        for place in range(depth + 1)
    ]
    weights = [numpy_helper.from_array(np.zeros((COLUMNS, CLASSES), np.float32), "W")]
    nodes = [helper.make_node("f0", ["x"], ["z"], domain="own"), helper.make_node("MatMul", ["z", "W"], ["logits"])]
    return _file(nodes, weights, functions=functions)


def long_model(nodes: int = 50_000) -> bytes:
    """A chain of so many nodes: a megabyte that takes minutes to be opened."""
    chain = [helper.make_node("Relu", [f"v{place}" if place else "x"], [f"v{place + 1}"]) for place in range(nodes)]
    weights = [numpy_helper.from_array(np.zeros((COLUMNS, CLASSES), np.float32), "W")]
    return _file([*chain, helper.make_node("MatMul", [f"v{nodes}", "W"], ["logits"])], weights)


def image_model(classes: int) -> bytes:
    """Images of 16 x 16, of which the first pixel chooses a row of a table of ten: it fails where that is not there."""
    weights = [
        numpy_helper.from_array(np.random.default_rng(0).normal(size=(10, classes)).astype(np.float32), "table"),
        numpy_helper.from_array(np.zeros(1, np.int64), "first"),
        numpy_helper.from_array(np.array([-1], np.int64), "flat"),
    ]
    nodes = [
        helper.make_node("Cast", ["x"], ["pixels"], to=TensorProto.INT64),
        helper.make_node("Flatten", ["pixels"], ["lines"]),
        helper.make_node("Gather", ["lines", "first"], ["column"], axis=1),
        helper.make_node("Reshape", ["column", "flat"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["logits"], axis=0),
    ]
    takes = _value("x", TensorProto.UINT8, [None, 1, 16, 16])
    gives = _value("logits", TensorProto.FLOAT, [None, classes])
    graph = helper.make_graph(nodes, "graph", [takes], [gives], initializer=weights)
    return bytes(helper.make_model(graph, opset_imports=_opsets(), ir_version=8).SerializeToString())


def text_model() -> bytes:
    """Names of classes in, numbers out."""
    node = helper.make_node(
        "LabelEncoder", ["x"], ["logits"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_floats=[0.0, 1.0]
    )
    takes, gives = (_value(name, kind, [None, 1]) for name, kind in (("x", TensorProto.STRING), ("logits", 1)))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "graph", [takes], [gives])
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def random_model() -> bytes:
    """It says something else every time."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"], dtype=TensorProto.FLOAT),
        helper.make_node("MatMul", ["noise", "W"], ["logits"]),
    ]
    return _file(nodes, [numpy_helper.from_array(np.ones((COLUMNS, CLASSES), np.float32), "W")])


def _function(name: str, takes: list[str], gives: list[str], calls: list[str]) -> FunctionProto:
    names = [takes[0], *(f"t{place}" for place in range(len(calls) - 1)), gives[0]]
    nodes = [
        helper.make_node(call, [before], [after], domain="" if call == "Relu" else "own")
        for call, before, after in zip(calls, names, names[1:], strict=False)
    ]
    return helper.make_function("own", name, takes, gives, nodes, _opsets())


def _opsets() -> list[Any]:
    return [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def _value(name: str, kind: int, shape: list[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _file(nodes: list[Any], weights: list[Any], *, columns: int = COLUMNS, functions: list[Any] | None = None) -> bytes:
    takes = [_value("x", TensorProto.FLOAT, [None, columns])]
    gives = [_value("logits", TensorProto.FLOAT, [None, CLASSES])]
    graph = helper.make_graph(nodes, "graph", takes, gives, initializer=weights)
    model = helper.make_model(graph, opset_imports=_opsets(), ir_version=8, functions=functions or [])
    return bytes(model.SerializeToString())
