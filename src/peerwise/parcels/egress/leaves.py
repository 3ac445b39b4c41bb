"""How many training rows share the smallest leaf of a model's trees.

Every training row goes down every tree of the file, and a leaf counts the rows that end in it. A tree that was fitted
on a bootstrap sample saw only some of them: scikit-learn's ``min_samples_leaf`` counts the different rows of that
sample, so a forest that keeps to it has no leaf with fewer rows here. A leaf that one row made alone counts one here,
unless rows outside the sample fall into it too; the file does not say which sample a tree saw, and among hundreds of
such leaves some have no other row. A leaf without any row says that these are not the rows that the trees were fitted
on. A tree that does not split tells no rows apart, and is not counted.

LightGBM's ``min_child_samples`` is kept by an estimate only, and its leaves may hold a single row; a sum of second
derivatives (``min_child_weight``, there and in XGBoost) bounds the rows, as no row adds more than 1/2.

The count bounds what one leaf tells, not what hundreds of trees tell together: that is measured by the attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper

from peerwise.data.rows import Inputs
from peerwise.errors import MayNotLeave
from peerwise.parcels.egress.graph import array, feed, run

KNOWN = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
CELLS = 4_000_000
COMPARE = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees in one list; ``yes`` and ``no`` are where to go on, ``roots`` where to begin."""

    feature: NDArray[np.int64]
    mode: NDArray[Any]
    value: NDArray[Any]
    yes: NDArray[np.int64]
    no: NDArray[np.int64]
    missing_is_yes: NDArray[np.bool_]
    roots: NDArray[np.int64]

    def occupancy(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Rows in each leaf of every tree that splits."""
        count = np.zeros(len(self.mode), dtype=np.int64)
        step = max(1, CELLS // max(1, len(self.roots)))
        for begin in range(0, len(X), step):
            count += np.bincount(self._ends(X[begin : begin + step]).ravel(), minlength=len(count))
        leaf = self.mode == "LEAF"
        leaf[self.roots] = False
        return np.asarray(count[leaf])

    def _ends(self, X: NDArray[Any]) -> NDArray[np.int64]:
        at = np.tile(self.roots, (len(X), 1))
        row = np.arange(len(X))[:, None]
        for _ in range(len(self.mode)):
            inner = self.mode[at] != "LEAF"
            if not inner.any():
                return at
            x = X[row, self.feature[at]]
            value, yes = self.value[at], np.zeros(at.shape, dtype=np.bool_)
            for mode, compare in COMPARE.items():
                here = self.mode[at] == mode
                yes[here] = compare(x[here], value[here])
            yes |= np.isnan(x) & self.missing_is_yes[at]
            at = np.where(inner, np.where(yes, self.yes[at], self.no[at]), at)
        raise MayNotLeave("a tree of the file goes in circles: expected trees. Export the model again.")


def tree_nodes(model: ModelProto) -> list[NodeProto]:
    """The operators that are trees; those that cannot be counted are refused."""
    found = [node for node in model.graph.node if node.op_type.startswith("TreeEnsemble")]
    for node in found:
        if node.op_type not in KNOWN:
            raise MayNotLeave(
                f"operator {node.op_type} holds trees whose leaves cannot be counted: expected {' or '.join(KNOWN)}. "
                "Export the model with ai.onnx.ml opset 3."
            )
    return found


def read_trees(node: NodeProto) -> Trees:
    given: dict[str, Any] = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    tree, number = (np.array(given[f"nodes_{name}"], dtype=np.int64) for name in ("treeids", "nodeids"))
    place = {pair: at for at, pair in enumerate(zip(tree.tolist(), number.tolist(), strict=True))}
    mode = np.array([mode.decode() for mode in given["nodes_modes"]])
    strange = set(mode) - set(COMPARE) - {"LEAF"}
    if strange:
        raise MayNotLeave(f"a tree asks {sorted(strange)}: expected {', '.join(COMPARE)}. Export the model again.")
    yes, no = (
        np.array([place.get((t, int(n)), 0) for t, n in zip(tree.tolist(), given[f"nodes_{way}nodeids"], strict=True)])
        for way in ("true", "false")
    )
    targets = {int(at) for way in (yes, no) for at in way[mode != "LEAF"]}
    missing = given.get("nodes_missing_value_tracks_true") or np.zeros(len(mode))
    values = given.get("nodes_values")
    if values is None:
        values = array(given["nodes_values_as_tensor"])
    return Trees(
        feature=np.array(given["nodes_featureids"], dtype=np.int64),
        mode=mode,
        value=np.asarray(values, dtype=np.float32 if "nodes_values" in given else np.float64),
        yes=yes,
        no=no,
        missing_is_yes=np.array(missing, dtype=np.bool_),
        roots=np.array([at for at in range(len(mode)) if at not in targets], dtype=np.int64),
    )


def smallest_leaf(model: ModelProto, X: Inputs) -> tuple[int | None, int]:
    """The fewest rows in any leaf, None without trees that split; and how many leaves there are."""
    found = tree_nodes(model)
    if not found:
        return None, 0
    inputs = dict.fromkeys(node.input[0] for node in found)
    values = feed(model, X)
    if inner := [name for name in inputs if name not in values]:
        values.update(zip(inner, run(model, inner, X), strict=True))
    counts = [read_trees(node).occupancy(values[node.input[0]]) for node in found]
    every = np.concatenate(counts)
    return (int(every.min()) if len(every) else None), len(every)
