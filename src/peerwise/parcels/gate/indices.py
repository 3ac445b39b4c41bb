"""Lists that the runtime indexes without looking: as long as the width of their input wants them, and within it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onnx import NodeProto, TensorProto, numpy_helper

from peerwise.parcels.gate.limits import quoted, refused
from peerwise.parcels.gate.trees import Forest

Shape = Sequence[int]


class Step(NamedTuple):
    """A node, with the shapes of what it takes and makes."""

    node: NodeProto
    attributes: Mapping[str, Any]
    ins: Sequence[Shape]
    outs: Sequence[Shape]
    forest: Forest | None


def check_indices(step: Step, weights: Mapping[str, TensorProto]) -> None:
    op, ins = step.node.op_type, step.ins
    width = ins[0][-1] if ins and ins[0] else 1
    if step.forest and (len(ins[0]) != 2 or step.forest.features >= width):
        found = f"{op} asks for feature {step.forest.features} of an input {quoted(list(ins[0]))}"
        raise refused(found, f"features 0 to {width - 1}")
    if op in ("LinearClassifier", "LinearRegressor"):
        _check_lines(step, width)
    if op in ("Scaler", "Imputer"):
        for name in ("offset", "scale", "imputed_value_floats", "imputed_value_int64s"):
            if len(step.attributes.get(name, (0,))) not in (1, width):
                raise refused(f"{op} with {len(step.attributes[name])} of {name} for {width} columns", f"1 or {width}")
    if op == "LabelEncoder":
        _check_pairs(step.attributes)
    if op in ("Gather", "ArrayFeatureExtractor") and step.node.input[1] in weights:
        side = ins[0][step.attributes.get("axis", 0)] if op == "Gather" else width
        _check_index(op, weights[step.node.input[1]], side)


def _check_lines(step: Step, width: int) -> None:
    """One line of coefficients a class, or one for two classes."""
    op, attributes = step.node.op_type, step.attributes
    held = len(attributes.get("coefficients", ()))
    lines = len(attributes.get("intercepts", ())) or held // max(1, width)
    labels = len(attributes.get("classlabels_ints", ())) + len(attributes.get("classlabels_strings", ()))
    wanted = labels if op == "LinearClassifier" else attributes.get("targets", 1)
    fits = lines == wanted or (op == "LinearClassifier" and lines == 1 and labels == 2)
    if len(step.ins[0]) != 2 or held != lines * width or not fits or not lines:
        found = f"{op} with {held} coefficients and {lines} intercepts for {width} columns and {wanted} answers"
        raise refused(found, "as many coefficients as columns times answers")


def _check_pairs(attributes: Mapping[str, Any]) -> None:
    pairs = [
        sum(len(value) for name, value in attributes.items() if name.startswith(f"{side}_") and "tensor" not in name)
        for side in ("keys", "values")
    ]
    if pairs[0] != pairs[1] or not pairs[0]:
        raise refused(f"LabelEncoder with {pairs[0]} keys and {pairs[1]} values", "as many of each, in lists")


def _check_index(op: str, tensor: TensorProto, side: int) -> None:
    if tensor.data_type not in (TensorProto.INT64, TensorProto.INT32):
        raise refused(f"{op} with indices {quoted(tensor.name)} that are no whole numbers", "whole numbers")
    values = numpy_helper.to_array(tensor)
    if values.size and (values.min() < -side or values.max() >= side):
        worst = values.min() if values.min() < -side else values.max()
        raise refused(f"{op} takes place {worst} of {side}", f"{-side} to {side - 1}")
