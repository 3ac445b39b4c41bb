"""The gate: whether a peer's ONNX file may be run at all, decided before any runtime sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import onnx
from onnx import ModelProto, helper

from peerwise.errors import GateRefused, reason
from peerwise.parcels.gate.borders import check_inputs, check_output, check_width, read_metadata
from peerwise.parcels.gate.cost import checked_cost
from peerwise.parcels.gate.graph import Graph, checked_graph
from peerwise.parcels.gate.limits import GateLimits, ModelFacts, quoted, refused
from peerwise.parcels.gate.operators import TREES
from peerwise.parcels.gate.wire import looked_over

Inputs = Mapping[str, tuple[int, ...]]
MOST_SENT = 1024  # elements of weights whose values may matter to shapes
_ONLY_FOR_RUNNING = ("nodes_", "class_", "target_")  # lists of tree ensembles, which say nothing of shapes


class Shaper(Protocol):
    """Tells the shapes of a file in a process that may die of it, as `peerwise.models.worker.Worker` does."""

    def shapes(self, data: bytes, rows: int) -> dict[str, list[int]]: ...


class Gate:
    """``check`` lets a file in, or raises `GateRefused` with what was found, what was expected and what to do.

    Bytes, then the graph as it is written, then shapes (from ``worker``), then what running it would cost. Whatever
    goes wrong on the way is a refusal too.
    """

    def __init__(self, worker: Shaper, limits: GateLimits | None = None) -> None:
        self.worker, self.limits = worker, limits or GateLimits()

    def check(self, data: bytes, *, inputs: Inputs, classes: int) -> ModelFacts:
        """``inputs``: what the task's rows look like without the row axis, such as ``{"x": (13,)}``."""
        try:
            return self._checked(data, inputs, classes)
        except GateRefused:
            raise
        except Exception as error:
            raise refused(f"the file could not be looked at ({reason(error)})", "a plain ONNX model") from error

    def _checked(self, data: bytes, inputs: Inputs, classes: int) -> ModelFacts:
        limits = self.limits
        if not isinstance(data, bytes):
            raise refused(f"a {type(data).__name__}", "the bytes of an ONNX file")
        if not 0 < len(data) <= limits.bytes:
            raise refused(f"a file of {len(data)} bytes", f"1 to {limits.bytes}", "Ask the peer for a smaller model.")
        looked_over(data, limits)
        model = onnx.ModelProto.FromString(data)
        metadata = read_metadata(model, inputs)
        check_inputs(model.graph, inputs)
        check_output(model.graph)
        graph = checked_graph(model, limits)
        shapes = self._shapes(skeleton(model, graph))
        for name in (name for node, _ in graph.nodes for name in node.output if name):
            if name not in shapes or any(not isinstance(side, int) or side < 0 for side in shapes[name]):
                raise refused(f"{quoted(name)} has shape {quoted(shapes.get(name))}", "one of everything it computes")
        shapes |= {name: [limits.rows, *shape] for name, shape in inputs.items()}
        width = check_width(model.graph, shapes["logits"], limits.rows, classes, metadata["classes"])
        cost = checked_cost(graph, shapes, limits)
        return ModelFacts(
            bytes=len(data),
            nodes=len(graph.nodes),
            parameters=graph.parameters,
            operators=graph.operators,
            activation=cost.activation,
            flops=cost.flops,
            outputs=width,
            classes=metadata["classes"],
            features=metadata["features"],
        )

    def _shapes(self, data: bytes) -> dict[str, list[int]]:
        try:
            return self.worker.shapes(data, self.limits.rows)
        except Exception as error:
            raise refused(
                f"the shapes of the file cannot be told ({reason(error)})",
                "a shape for everything it computes",
                "Ask the peer to export the model again, with fixed shapes for all but the number of rows.",
            ) from error


def skeleton(model: ModelProto, graph: Graph) -> bytes:
    """The model without what says nothing of shapes: large weights become inputs of their shape, trees are left out."""
    bare = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    bare.graph.name = "skeleton"
    bare.graph.input.extend(model.graph.input)
    bare.graph.output.extend(model.graph.output)
    large = []
    for name, tensor in graph.weights.items():
        if math.prod(tensor.dims) > MOST_SENT:
            large.append((name, tensor))
        else:
            bare.graph.initializer.append(tensor)
    for node, _ in graph.nodes:
        if node.op_type in TREES:
            kept = bare.graph.node.add(op_type=node.op_type, domain=node.domain, input=node.input, output=node.output)
            kept.attribute.extend(a for a in node.attribute if not a.name.startswith(_ONLY_FOR_RUNNING))
        else:
            bare.graph.node.append(node)
    bare.graph.input.extend(helper.make_tensor_value_info(n, t.data_type, tuple(t.dims)) for n, t in large)
    return bytes(bare.SerializeToString())
