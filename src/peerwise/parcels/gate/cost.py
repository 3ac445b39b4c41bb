"""What running a model would cost a row, told from the shapes of all that it computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from peerwise.parcels.gate.graph import Graph
from peerwise.parcels.gate.indices import Shape, Step, check_indices
from peerwise.parcels.gate.limits import GateLimits, quoted, refused

_LARGER = "Ask the peer for a smaller model, or raise the limit."
_EACH_ELEMENT = 4  # operations for an element of whatever is not counted better


class Cost(NamedTuple):
    activation: int
    flops: int


def checked_cost(graph: Graph, shapes: Mapping[str, Shape], limits: GateLimits) -> Cost:
    """The largest activation and the operations of one row; `GateRefused` where they are too many."""
    known = {**shapes, **{name: tuple(tensor.dims) for name, tensor in graph.weights.items()}}
    fixed = {*graph.weights}
    largest = together = constants = flops = 0
    for place, (node, attributes) in enumerate(graph.nodes):
        ins, outs = ([known[name] for name in names if name] for names in (node.input, node.output))
        step = Step(node, attributes, ins, outs, graph.forests.get(place))
        check_indices(step, graph.weights)
        size = sum(map(math.prod, outs))
        if all(name in fixed for name in node.input if name):
            # Made once, whatever the rows, when the runtime opens the file: it counts as weights do.
            fixed.update(node.output)
            constants += 0 if node.op_type == "Constant" else size
            if graph.parameters + constants > limits.parameters:
                raise _too_much(step, f"at most {limits.parameters} constant values, weights included")
        largest, together = max(largest, -(-size // limits.rows)), together + size
        if largest > limits.activation:
            raise _too_much(step, f"at most {limits.activation} values a row")
        if together > limits.activations * limits.rows:
            raise _too_much(step, f"at most {limits.activations} values a row in all activations together")
        flops += _flops(step)
        if flops > limits.flops * limits.rows:
            raise refused(f"more than {limits.flops:.3g} operations a row", f"at most {limits.flops:.3g}", _LARGER)
    return Cost(largest, flops // limits.rows)


def _too_much(step: Step, expected: str) -> Exception:
    return refused(f"{step.node.op_type} makes {quoted([list(out) for out in step.outs])}", expected, _LARGER)


def _flops(step: Step) -> int:
    """Of a whole batch."""
    ins, attributes, op = step.ins, step.attributes, step.node.op_type
    made = sum(map(math.prod, step.outs))
    if op == "Conv":
        return 2 * made * math.prod(ins[1][1:])
    if op == "Gemm":
        return 2 * made * ins[0][0 if attributes.get("transA") else 1]
    if op == "MatMul":
        return 2 * made * (ins[0][-1] if ins[0] else 1)
    if op in ("LSTM", "GRU", "RNN"):
        return 2 * math.prod(ins[0][:2]) * (math.prod(ins[1]) + math.prod(ins[2]))
    if op in ("MaxPool", "AveragePool"):
        return int(made * math.prod(attributes["kernel_shape"]))
    if op in ("LinearClassifier", "LinearRegressor"):
        return 2 * ins[0][0] * len(attributes["coefficients"])
    if step.forest:
        return ins[0][0] * step.forest.steps
    if op in ("LabelEncoder", "OneHotEncoder", "TopK"):
        return 32 * (math.prod(ins[0]) + made)
    return _EACH_ELEMENT * (made + sum(map(math.prod, ins)))
