"""Tree ensembles that are trees: every node reached once from one root, every vote at a leaf, no index out of range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerwise.parcels.gate.limits import refused

Ints = NDArray[np.int64]
MODES = (b"LEAF", b"BRANCH_LEQ", b"BRANCH_LT", b"BRANCH_GTE", b"BRANCH_GT", b"BRANCH_EQ", b"BRANCH_NEQ")
_NODE_LISTS = ("nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_truenodeids", "nodes_falsenodeids")
_MAYBE = ("nodes_hitrates", "nodes_missing_value_tracks_true")
_COMMON = ("post_transform", "base_values", "nodes_treeids", "nodes_modes", *_NODE_LISTS, *_MAYBE)
_VOTES = ("treeids", "nodeids", "ids", "weights")


class Forest(NamedTuple):
    """What the runtime will need: the highest feature that is asked for, and the steps a row takes at most."""

    features: int
    steps: int


def checked_trees(op: str, attributes: Mapping[str, Any], most_depth: int) -> Forest:
    """`GateRefused` unless the attributes of this TreeEnsembleClassifier or -Regressor describe trees."""
    vote = "class" if op == "TreeEnsembleClassifier" else "target"
    own = ("classlabels_int64s", "classlabels_strings") if vote == "class" else ("n_targets", "aggregate_function")
    known = {*_COMMON, *own, *(f"{vote}_{name}" for name in _VOTES)}
    if set(attributes) - known:
        raise refused(f"{op} with {sorted(set(attributes) - known)[:3]}", "trees in single precision")
    trees = _ints(attributes, "nodes_treeids")
    for name in (*_NODE_LISTS, "nodes_modes", *(name for name in _MAYBE if len(attributes.get(name, ())))):
        if len(attributes.get(name, ())) != len(trees):
            raise refused(
                f"{op} with {len(trees)} nodes and {len(attributes.get(name, ()))} of {name}", "as many as nodes"
            )
    if not len(trees):
        raise refused(f"{op} without nodes", "one tree at least")
    leaf = _leaves(op, attributes)
    places = _Places(op, trees, _ints(attributes, "nodes_nodeids"))
    depth = _walked(op, attributes, trees, leaf, places, most_depth)
    if np.isnan(np.asarray(attributes["nodes_values"], np.float32)).any():
        raise refused(f"{op} with a threshold that is no number", "numbers")
    most_votes = _check_votes(op, vote, attributes, places, leaf)
    features = np.where(leaf, 0, _ints(attributes, "nodes_featureids"))
    if features.min() < 0:
        raise refused(f"{op} with feature {features.min()}", "none below zero")
    return Forest(int(features.max()), len(np.unique(trees)) * (depth + most_votes))


def _leaves(op: str, attributes: Mapping[str, Any]) -> NDArray[np.bool_]:
    modes = attributes["nodes_modes"]
    strange = sorted(set(iter(modes)) - set(MODES))
    if strange:
        raise refused(f"{op} with nodes of mode {strange[0][:40]!r}", f"one of {b', '.join(MODES).decode()}")
    return np.fromiter((mode == b"LEAF" for mode in modes), bool, len(modes))


class _Places:
    """Where the node of this tree and this number is in the lists."""

    def __init__(self, op: str, trees: Ints, nodes: Ints) -> None:
        self._op = op
        for name, ids in (("tree", trees), ("node", nodes)):
            if ids.min() < 0 or ids.max() >= 2**31:
                raise refused(f"{op} with {name} {ids.min() if ids.min() < 0 else ids.max()}", "0 to 2147483647")
        keys = (trees << 31) | nodes
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        if (self._keys[1:] == self._keys[:-1]).any():
            raise refused(f"{op} with two nodes of one number in one tree", "each once")

    def __call__(self, trees: Ints, nodes: Ints) -> Ints:
        if len(nodes) and (min(nodes.min(), trees.min()) < 0 or max(nodes.max(), trees.max()) >= 2**31):
            raise refused(f"{self._op} that points to a node out of range", "nodes of its own trees")
        wanted = (trees << 31) | nodes
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        if (self._keys[at] != wanted).any():
            raise refused(f"{self._op} that points to a node that is not there", "nodes of its own trees")
        return np.asarray(self._order[at], np.int64)


def _walked(
    op: str, attributes: Mapping[str, Any], trees: Ints, leaf: NDArray[np.bool_], places: _Places, most: int
) -> int:
    """The depth of the deepest tree; every node is reached exactly once."""
    inner = np.flatnonzero(~leaf)
    below = np.full((len(trees), 2), -1, np.int64)
    for side, name in enumerate(("nodes_truenodeids", "nodes_falsenodeids")):
        below[inner, side] = places(trees[inner], _ints(attributes, name)[inner])
    parents = np.bincount(below[inner].ravel(), minlength=len(trees))
    roots = np.flatnonzero(parents == 0)
    if parents.max(initial=0) > 1 or len(roots) != len(np.unique(trees[roots])):
        raise refused(f"{op} with a node below two others, or two roots in a tree", "trees")
    level, reached, depth = roots, len(roots), 0
    while len(level := level[~leaf[level]]):
        level = below[level].ravel()
        reached, depth = reached + len(level), depth + 1
        if depth > most:
            raise refused(f"{op} with a tree deeper than {most}", f"at most {most}", "Ask for a shallower tree.")
    if reached != len(trees):
        raise refused(f"{op} with a cycle: {len(trees) - reached} nodes hang on no root", "trees")
    return depth


def _check_votes(op: str, vote: str, attributes: Mapping[str, Any], places: _Places, leaf: NDArray[np.bool_]) -> int:
    """How many votes the fullest leaf has."""
    trees, nodes, ids = (_ints(attributes, f"{vote}_{name}") for name in _VOTES[:3])
    weights = np.asarray(attributes.get(f"{vote}_weights", ()), np.float32)
    if len({len(trees), len(nodes), len(ids), len(weights)}) > 1 or not len(ids):
        raise refused(
            f"{op} with votes of {len(trees)}, {len(nodes)}, {len(ids)}, {len(weights)} parts", "as many of each"
        )
    labels = [len(attributes.get(name, ())) for name in ("classlabels_int64s", "classlabels_strings")]
    outputs = attributes.get("n_targets", 0) if vote == "target" else sum(labels)
    if not outputs or (vote == "class" and all(labels)):
        raise refused(f"{op} with labels {labels}", "one list of class labels")
    if ids.min() < 0 or ids.max() >= outputs:
        raise refused(f"{op} with a vote for {ids.max() if ids.min() >= 0 else ids.min()}", f"0 to {outputs - 1}")
    if not np.isfinite(weights).all():
        raise refused(f"{op} with a vote that is no number", "finite numbers")
    if len(attributes.get("base_values", ())) not in (0, 1, outputs):
        raise refused(f"{op} with {len(attributes['base_values'])} base values", f"none, 1 or {outputs}")
    at = places(trees, nodes)
    if not leaf[at].all():
        raise refused(f"{op} with a vote at a node that is no leaf", "votes at leaves")
    return int(np.bincount(at).max())


def _ints(attributes: Mapping[str, Any], name: str) -> Ints:
    return np.asarray(attributes.get(name, ()), np.int64)
