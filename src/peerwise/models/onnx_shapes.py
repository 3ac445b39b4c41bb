"""The shape of everything an ONNX file computes, for a fixed number of rows, told without running it.

onnx's own inference is C++ and can end its process on a hostile file, so this belongs into a process that may die.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, numpy_helper, shape_inference

from peerwise.errors import ModelError
from peerwise.models.onnx_values import MOST_ELEMENTS, Pair, folded, in_step

_FOLLOWED = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
_SAME_SHAPE = ("Normalizer", "Scaler", "Imputer", "Binarizer", "LabelEncoder")


def inferred(data: bytes, rows: int) -> dict[str, list[int]]:
    """Name of every input and of every node's output -> its shape for so many rows; `ModelError` if onnx's checker
    refuses the file, if one shape cannot be told, or if it does not stay the same or grow in step with the rows."""
    try:
        onnx.checker.check_model(data)
        return _Graph(onnx.load_from_string(data), rows).shapes()
    except ModelError:
        raise
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0][:200]
        raise ModelError(
            f"onnx refuses the file ({type(error).__name__}: {said}): expected a valid graph. Export it again."
        ) from error


class _Graph:
    """Inference node by node at two numbers of rows at once: what differs between them depends on the rows."""

    def __init__(self, model: onnx.ModelProto, rows: int) -> None:
        self.graph, self.rows = model.graph, (rows, rows + 1)
        self.opsets = {item.domain: item.version for item in model.opset_import}
        self.imports, self.ir_version = list(model.opset_import), model.ir_version
        self.types: tuple[dict[str, TypeProto], dict[str, TypeProto]] = ({}, {})
        self.values: dict[str, Pair] = {}

    def shapes(self) -> dict[str, list[int]]:
        for given in self.graph.input:
            for lane, rows in enumerate(self.rows):
                self.types[lane][given.name] = _at(given.type, rows)
        for tensor in self.graph.initializer:
            self._keep_tensor(tensor.name, tensor)
        made = [given.name for given in self.graph.input]
        for node in self.graph.node:
            self._infer(node)
            made += [name for name in node.output if name]
        self._check_outputs()
        return {name: _dims(self.types[0][name]) or [] for name in made}

    def _infer(self, node: NodeProto) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = self.opsets.get(domain, self.opsets.get("ai.onnx", 1))
        schema = onnx.defs.get_schema(node.op_type, version, domain)
        for lane in (0, 1):
            known = {name: self.types[lane][name] for name in node.input if name}
            data = {name: numpy_helper.from_array(self.values[name][lane]) for name in known if name in self.values}
            found = shape_inference.infer_node_outputs(
                schema, node, known, data, opset_imports=self.imports, ir_version=self.ir_version
            )
            if domain == "ai.onnx.ml":
                self._learned_shape(node, known, found)
            self.types[lane].update(found)
        for name in node.output:
            if name:
                self._check(node, name)
        self._fold(node)

    def _check(self, node: NodeProto, name: str) -> None:
        pair = [_dims(lane[name]) if name in lane else None for lane in self.types]
        if pair[0] is None or pair[1] is None:
            raise ModelError(
                f"the shape of {name[:80]!r}, made by {node.op_type}, depends on values: expected one that can be "
                f"told beforehand. Export the model with fixed shapes, all but the number of rows."
            )
        if not in_step(pair[0], pair[1], self.rows):
            raise ModelError(
                f"{name[:80]!r}, made by {node.op_type}, has shape {pair[0]} for {self.rows[0]} rows and {pair[1]} for "
                f"{self.rows[1]}: expected each side to be fixed or in step with the rows. Treat every row alone."
            )
        if _product(pair[1]) * self.rows[0] > _product(pair[0]) * self.rows[1]:
            raise ModelError(
                f"{name[:80]!r}, made by {node.op_type}, has shape {pair[0]} for {self.rows[0]} rows and {pair[1]} for "
                f"{self.rows[1]}: expected it to grow no faster than the rows. Treat every row alone."
            )

    def _fold(self, node: NodeProto) -> None:
        if len(node.output) != 1:
            return
        name, attributes = node.output[0], _attributes(node)
        if node.op_type == "Constant":
            if "value" in attributes:
                self._keep(name, attributes["value"], attributes["value"])
            elif "value_int" in attributes or "value_ints" in attributes:
                value = np.asarray(attributes.get("value_int", attributes.get("value_ints")), np.int64)
                self._keep(name, value, value)
        elif node.op_type == "Shape":
            part = slice(attributes.get("start", 0), attributes.get("end"))
            both = [np.asarray(_dims(lane[node.input[0]]) or [], np.int64)[part] for lane in self.types]
            self._keep(name, both[0], both[1])
        else:
            made = folded(node.op_type, [self.values.get(given) for given in node.input], attributes, self.rows)
            if made is not None:
                self._keep(name, *made)

    def _keep(self, name: str, first: Any, second: Any) -> None:
        if first.dtype in (np.int64, np.int32, np.bool_) and first.size <= MOST_ELEMENTS:
            self.values[name] = (first, second)

    def _keep_tensor(self, name: str, tensor: TensorProto) -> None:
        kind = onnx.helper.make_tensor_type_proto(tensor.data_type, tuple(tensor.dims))
        for lane in self.types:
            lane[name] = kind
        if tensor.data_type in _FOLLOWED and _product(list(tensor.dims)) <= MOST_ELEMENTS:
            value = numpy_helper.to_array(tensor)
            self._keep(name, value, value)

    def _learned_shape(self, node: NodeProto, known: dict[str, TypeProto], found: dict[str, TypeProto]) -> None:
        """Where onnx has no inference for an operator of ai.onnx.ml."""
        given = _dims(known[node.input[0]]) or []
        attributes = _attributes(node)
        shapes: list[list[int]] = []
        if node.op_type in _SAME_SHAPE:
            shapes = [given]
        elif node.op_type == "TreeEnsembleClassifier":
            labels = attributes.get("classlabels_int64s") or attributes.get("classlabels_strings") or ()
            shapes = [given[:1], [*given[:1], len(labels)]]
        elif node.op_type == "TreeEnsembleRegressor":
            shapes = [[*given[:1], attributes["n_targets"]]]
        elif node.op_type == "ArrayFeatureExtractor":
            shapes = [[*(given[:-1] or [1]), _product(_dims(known[node.input[1]]) or [])]]
        for name, shape in zip(node.output, shapes, strict=False):
            if name:
                found[name] = onnx.helper.make_tensor_type_proto(found[name].tensor_type.elem_type, shape)

    def _check_outputs(self) -> None:
        for said in self.graph.output:
            kind = self.types[0][said.name].tensor_type.elem_type
            if kind != said.type.tensor_type.elem_type:
                raise ModelError(
                    f"output {said.name[:80]!r} is said to be of type {said.type.tensor_type.elem_type} and is of type "
                    f"{kind}: expected both alike. Export the model again."
                )
            sides = [(_dims(lane[said.name]) or [0])[0] for lane in self.types]
            if sides != list(self.rows):
                raise ModelError(
                    f"output {said.name[:80]!r} has {sides} answers for {list(self.rows)} rows: expected as many as "
                    f"rows. Export the model for any number of rows."
                )


def _at(kind: TypeProto, rows: int) -> TypeProto:
    """The type with so many rows where the first side is open."""
    fixed = TypeProto()
    fixed.CopyFrom(kind)
    sides = fixed.tensor_type.shape.dim
    if len(sides) and not sides[0].HasField("dim_value"):
        sides[0].dim_value = rows
    return fixed


def _dims(kind: TypeProto) -> list[int] | None:
    if not kind.tensor_type.HasField("shape"):
        return None
    sides = kind.tensor_type.shape.dim
    return [side.dim_value for side in sides] if all(side.HasField("dim_value") for side in sides) else None


def _product(sides: list[int]) -> int:
    total = 1
    for side in sides:
        total *= side
    return total


def _attributes(node: NodeProto) -> dict[str, Any]:
    values = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    return {k: numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for k, v in values.items()}
