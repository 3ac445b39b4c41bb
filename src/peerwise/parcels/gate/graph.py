"""The graph as it is written: known versions and operators, every name made once and before it is used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from peerwise.parcels.gate.limits import GateLimits, quoted, refused
from peerwise.parcels.gate.operators import DOMAINS, IR_VERSIONS, OPERATORS, OPSETS, TREES
from peerwise.parcels.gate.tensors import checked_attributes, checked_tensor
from peerwise.parcels.gate.trees import Forest, checked_trees


@dataclass
class Graph:
    """What was found: each node with its attributes, the weights by name, and what the trees ask for."""

    nodes: list[tuple[NodeProto, dict[str, Any]]] = field(default_factory=list)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    forests: dict[int, Forest] = field(default_factory=dict)
    parameters: int = 0

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(sorted({node.op_type for node, _ in self.nodes}))


def checked_graph(model: ModelProto, limits: GateLimits) -> Graph:
    _check_versions(model)
    _check_texts(model, limits.texts)
    found = Graph()
    _add_weights(model.graph, found, limits.parameters)
    defined = set(found.weights)
    for given in model.graph.input:
        if given.name in defined:
            raise refused(f"input {quoted(given.name)} is there twice, or is also a weight", "inputs and weights apart")
        defined.add(given.name)
    for node in model.graph.node:
        _check_node(node, defined)
        attributes, numbers = checked_attributes(node, limits.parameters)
        _count(found, numbers, limits.parameters)
        if node.op_type in TREES:
            found.forests[len(found.nodes)] = checked_trees(node.op_type, attributes, limits.tree_depth)
        found.nodes.append((node, attributes))
    return found


def domain_of(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


def _check_versions(model: ModelProto) -> None:
    low, high = IR_VERSIONS
    if not low <= model.ir_version <= high:
        raise refused(f"IR version {model.ir_version}", f"{low} to {high}")
    if not len(model.opset_import):
        raise refused("a file that names no operator set", "at least one")
    versions: Counter[str] = Counter()
    for item in model.opset_import:
        if item.domain not in DOMAINS:
            raise refused(f"operators of the domain {quoted(item.domain)}", "those of ai.onnx and ai.onnx.ml", _PLAIN)
        domain = "" if item.domain == "ai.onnx" else item.domain
        versions[domain] += 1
        low, high = OPSETS[domain]
        if not low <= item.version <= high or versions[domain] > 1:
            found = f"operator set {domain or 'ai.onnx'} {item.version}{', a second one' * (versions[domain] > 1)}"
            raise refused(found, f"one of version {low} to {high}")


_PLAIN = "Ask the peer to export the model with standard operators, for example with peerwise.models.export."


def _check_texts(model: ModelProto, most: int) -> None:
    graph = model.graph
    total = sum(len(text) for text in (model.producer_name, model.producer_version, model.domain, model.doc_string))
    total += len(graph.name) + len(graph.doc_string) + sum(len(tensor.doc_string) for tensor in graph.initializer)
    for node in graph.node:
        total += len(node.doc_string) + len(node.name) + sum(map(len, node.input)) + sum(map(len, node.output))
        for attribute in node.attribute:
            total += len(attribute.doc_string) + len(attribute.name) + len(attribute.s)
            if attribute.name != "nodes_modes":
                total += sum(map(len, attribute.strings))
            total += sum(map(len, attribute.t.string_data))
    for tensor in graph.initializer:
        total += len(tensor.name) + sum(map(len, tensor.string_data))
    if total > most:
        raise refused(f"{total} bytes of names, labels and notes", f"at most {most}", "Ask for a file without notes.")


def _add_weights(graph: GraphProto, found: Graph, most: int) -> None:
    for tensor in graph.initializer:
        if not tensor.name or tensor.name in found.weights:
            raise refused(f"weights called {quoted(tensor.name)}, without a name or twice", "each name once")
        _count(found, checked_tensor(tensor, most), most)
        found.weights[tensor.name] = tensor


def _count(found: Graph, numbers: int, most: int) -> None:
    found.parameters += numbers
    if found.parameters > most:
        raise refused(
            f"more than {most} parameters", f"at most {most}", "Ask the peer for a smaller model, or raise the limit."
        )


def _check_node(node: NodeProto, defined: set[str]) -> None:
    domain = domain_of(node)
    if node.op_type not in OPERATORS.get(domain, ()):
        known = f"one of the {sum(map(len, OPERATORS.values()))} operators that models of sklearn and torch need"
        raise refused(f"operator {quoted(node.op_type)} of the domain {quoted(node.domain)}", known, _PLAIN)
    if node.op_type == "Dropout" and len(node.input) > 2:
        raise refused("Dropout that can be switched to training", "a model that only answers")
    for name in node.input:
        if name and name not in defined:
            raise refused(f"{node.op_type} uses {quoted(name)}, which nothing before it makes", "nodes in order")
    if not any(node.output):
        raise refused(f"{node.op_type} with no output", "at least one")
    for name in node.output:
        if name in defined:
            raise refused(f"{quoted(name)} is made twice", "each name once")
        if name:
            defined.add(name)
