"""Tree ensembles that are no trees: name -> (how the file is made, what the gate's refusal says)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper


def tree_file(op: str = "TreeEnsembleClassifier", **changes: Any) -> bytes:
    """Two trees with one question each, over four features and three classes; and with these attributes instead."""
    vote = "class" if op == "TreeEnsembleClassifier" else "target"
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2],
        "nodes_featureids": [1, 0, 0, 3, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        "nodes_values": [0.5, 0.0, 0.0] * 2,
        "nodes_truenodeids": [1, 0, 0] * 2,
        "nodes_falsenodeids": [2, 0, 0] * 2,
        f"{vote}_treeids": [0, 0, 1, 1],
        f"{vote}_nodeids": [1, 2, 1, 2],
        f"{vote}_ids": [0, 1, 2, 0],
        f"{vote}_weights": [1.0] * 4,
    }
    attributes |= {"classlabels_int64s": [0, 1, 2]} if vote == "class" else {"n_targets": 3}
    attributes = {name: value for name, value in (attributes | changes).items() if value is not None}
    outputs = ["label", "logits"] if vote == "class" else ["logits"]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return bytes(helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString())


def _circle() -> bytes:
    """A tree of three nodes, and beside it two questions that ask each other."""
    return tree_file(
        nodes_treeids=[0] * 7,
        nodes_nodeids=list(range(7)),
        nodes_featureids=[0] * 7,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.0] * 7,
        nodes_truenodeids=[1, 0, 0, 4, 3, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 5, 6, 0, 0],
        class_treeids=[0, 0, 0, 0],
    )


def _chain(length: int) -> bytes:
    """One tree, each question below the one before."""
    inner, nodes = length, 2 * length + 1
    return tree_file(
        nodes_treeids=[0] * nodes,
        nodes_nodeids=list(range(nodes)),
        nodes_featureids=[0] * nodes,
        nodes_modes=["BRANCH_LEQ"] * inner + ["LEAF"] * (inner + 1),
        nodes_values=[0.0] * nodes,
        nodes_truenodeids=[*range(1, inner), nodes - 1, *[0] * (inner + 1)],
        nodes_falsenodeids=[*range(inner, 2 * inner), *[0] * (inner + 1)],
        class_treeids=[0],
        class_nodeids=[nodes - 1],
        class_ids=[0],
        class_weights=[1.0],
    )


HOSTILE_TREES: dict[str, tuple[Callable[[], bytes], str]] = {
    name: (partial(tree_file, **changes), says)
    for name, says, changes in (
        ("tree that asks itself", "below two others|cycle", {"nodes_truenodeids": [0, 0, 0, 1, 0, 0]}),
        ("a leaf below two nodes", "below two others", {"nodes_falsenodeids": [1, 0, 0, 2, 0, 0]}),
        ("a node that is not there", "not there", {"nodes_falsenodeids": [99, 0, 0, 2, 0, 0]}),
        ("a node far away", "out of range", {"nodes_falsenodeids": [-5, 0, 0, 2, 0, 0]}),
        ("a node twice", "two nodes of one number", {"nodes_nodeids": [0, 1, 1, 0, 1, 2]}),
        ("a negative tree", "with tree -1", {"nodes_treeids": [-1, -1, -1, 1, 1, 1]}),
        ("lists of different length", "6 nodes and 3 of nodes_values", {"nodes_values": [0.0] * 3}),
        ("a list too little", "6 nodes and 0 of nodes_featureids", {"nodes_featureids": None}),
        ("a mode of its own", "of mode b'BRANCH_EXEC'", {"nodes_modes": ["BRANCH_EXEC", "LEAF", "LEAF"] * 2}),
        ("a threshold that is no number", "threshold", {"nodes_values": [float("nan"), 0.0, 0.0] * 2}),
        ("a vote that is no number", "a vote that is no number", {"class_weights": [float("inf")] * 4}),
        ("a vote for a class that is not there", "a vote for 9: expected 0 to 2", {"class_ids": [0, 1, 2, 9]}),
        ("a vote for a negative class", "a vote for -1", {"class_ids": [0, 1, 2, -1]}),
        ("a vote at a question", "no leaf", {"class_nodeids": [0, 2, 1, 2]}),
        ("a vote in another tree", "not there", {"class_treeids": [0, 0, 1, 7]}),
        ("votes of different length", "as many of each", {"class_weights": [1.0]}),
        ("a feature that is not there", "asks for feature 4 of an input", {"nodes_featureids": [4, 0, 0, 0, 0, 0]}),
        ("a feature below zero", "with feature -3", {"nodes_featureids": [-3, 0, 0, 0, 0, 0]}),
        ("no labels", "labels", {"classlabels_int64s": None}),
        ("base values of another length", "7 base values", {"base_values": [0.0] * 7}),
    )
}
HOSTILE_TREES |= {
    "trees in a circle": (_circle, "a cycle: 4 nodes hang on no root"),
    "a tree 5,000 deep": (partial(_chain, 5000), "deeper than 512"),
    "targets without end": (
        partial(tree_file, "TreeEnsembleRegressor", n_targets=2**40),
        "'n_targets' of TreeEnsembleRegressor",
    ),
    "trees in double precision": (
        partial(tree_file, nodes_values_as_tensor=helper.make_tensor("t", TensorProto.DOUBLE, [6], np.zeros(6))),
        "single precision",
    ),
}
