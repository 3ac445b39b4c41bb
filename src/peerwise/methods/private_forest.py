"""A differentially private forest: trees that nobody's row has shaped, with noisy counts in their leaves.

The trees are drawn from the columns' declared ranges and categories alone. Every row goes, by chance of its own, to one
tree, and there adds one to the count of its class in one leaf. Each count gets discrete Laplace noise of scale
1/epsilon: P(k) = (1 - a) / (1 + a) a^|k|, a = exp(-epsilon). To add or remove one row changes one count by one, so all
counts together are epsilon-differentially private; smoothing, averaging and export only look at the noisy counts.

That is so up to the precision of the sampler: numpy draws geometric numbers by floats of 53 bits, so what has a
probability below about 1e-16 may never be drawn, and no epsilon above 30 is taken, where no noise is nearly certain.

Assumed: ranges and categories are known without the rows, nobody else knows the noise, and which rows are train rows
does not depend on the others (a split drawn anew for one more row is not covered). A person with several rows is hidden
to epsilon times their number only; releases of the same rows with several epsilons add up to their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Feature, Inputs, Rows
from peerwise.errors import ConfigError
from peerwise.models.outputs import FLOOR

TREES, DEPTH = 20, 6
EPSILONS = (1e-6, 30.0)
PSEUDO_COUNT = 1.0  # of every class in every leaf, shared out among them: an empty leaf says nothing
LARGEST = float(np.finfo(np.float32).max)
Bounds = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Tree:
    """A full binary tree, its inner nodes row by row: the column asked, whether its code is (or its value is at most)
    the given value, and whether a missing value counts as yes."""

    column: NDArray[np.int64]
    equal: NDArray[np.bool_]
    value: NDArray[np.float32]
    missing: NDArray[np.bool_]

    def leaves(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        node = np.zeros(len(X), np.int64)
        for _ in range(len(self.column).bit_length()):
            values = X[np.arange(len(X)), self.column[node]]
            yes = np.where(self.equal[node], values == self.value[node], values <= self.value[node])
            yes = np.where(np.isnan(values), self.missing[node], yes)
            node = 2 * node + np.where(yes, 1, 2)
        return node - len(self.column)


def check_ranges(features: Sequence[Feature], ranges: Bounds, where: str) -> None:
    """Refuse a number without a range: to look for it in the rows would tell of them."""
    lacking = [feature.name for feature in features if not feature.is_category and feature.name not in ranges]
    if lacking:
        raise ConfigError(
            f"{where}: differential privacy needs the range of every number, and none is declared for "
            f"{', '.join(lacking[:5])}{' ...' if len(lacking) > 5 else ''}. Declare what is known without the rows, "
            f"e.g. ranges={{{lacking[0]!r}: [0, 100]}}, or give the federation public rows."
        )
    check_bounds(ranges, where)


def check_bounds(ranges: Any, where: str) -> None:
    if not isinstance(ranges, Mapping):
        raise ConfigError(
            f"{where}: ranges is {ranges!r}: expected [lowest, highest] by feature, e.g. {{'age': [0, 100]}}."
        )
    for name, bounds in ranges.items():
        if not _is_range(bounds):
            shown = list(bounds) if isinstance(bounds, tuple) else bounds
            raise ConfigError(f"{where}: ranges[{name!r}] is {shown!r}: expected [lowest, highest].")


def check_epsilon(epsilon: Any) -> None:
    least, most = EPSILONS
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not least <= float(epsilon) <= most:
        raise ConfigError(f"epsilon is {epsilon!r}: expected a finite number, at least {least:g} and at most {most:g}.")


def public_ranges(X: Inputs | None, features: Sequence[Feature]) -> dict[str, list[float]]:
    """The ranges of public rows, which are nobody's secret."""
    found: dict[str, list[float]] = {}
    for place, feature in enumerate(features if X is not None else ()):
        column = np.asarray(X)[:, place]
        if not feature.is_category and not np.isnan(column).all():
            found[feature.name] = [float(np.nanmin(column)), float(np.nanmax(column))]
    return found


def draw_tree(features: Sequence[Feature], ranges: Bounds, rng: np.random.Generator) -> Tree:
    """Each node asks a random feature: is it this category, or at most a value drawn from what is left of its range."""
    inner = 2**DEPTH - 1
    tree = Tree(*(np.zeros(inner, kind) for kind in (np.int64, np.bool_, np.float32, np.bool_)))
    whole: list[Any] = [
        frozenset(range(len(feature.categories))) if feature.is_category else tuple(ranges[feature.name])
        for feature in features
    ]
    left_at = {0: whole}
    for node in range(inner):
        left = left_at.pop(node)
        asked = [place for place, rest in enumerate(left) if not isinstance(rest, frozenset) or len(rest) > 1]
        column = int(rng.choice(asked or np.arange(len(features))))
        rest = left[column]
        yes: Any
        no: Any
        if isinstance(rest, frozenset):
            code = int(rng.choice(sorted(rest)))
            value, yes, no = float(code), frozenset({code}), rest - {code} or rest
        else:
            value = float(rng.uniform(*rest))
            yes, no = (rest[0], value), (value, rest[1])
        tree.column[node], tree.equal[node], tree.value[node] = column, isinstance(rest, frozenset), value
        tree.missing[node] = rng.random() < 0.5
        for child, remains in ((2 * node + 1, yes), (2 * node + 2, no)):
            left_at[child] = [remains if place == column else other for place, other in enumerate(left)]
    return tree


def discrete_laplace(epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """The difference of two geometric draws: whole numbers, so that no rounding of a noisy count can tell of it."""
    stop = -np.expm1(-epsilon)
    return np.asarray(rng.geometric(stop, shape) - rng.geometric(stop, shape), np.int64)


def private_forest(
    rows: Rows,
    features: Sequence[Feature],
    ranges: Bounds,
    *,
    classes: int,
    epsilon: float,
    rng: np.random.Generator,
    noise: np.random.Generator,
) -> bytes:
    """The forest as an ONNX file with an output "logits". ``rng`` draws the trees, ``noise`` what must stay secret:
    which tree a row goes to, and the noise of the counts."""
    X = np.asarray(rows.X, np.float32)
    trees = [draw_tree(features, ranges, rng) for _ in range(TREES)]
    home = noise.integers(TREES, size=len(rows))
    said = []
    for number, tree in enumerate(trees):
        here = home == number
        counts = np.zeros((2**DEPTH, classes))
        np.add.at(counts, (tree.leaves(X[here]), rows.y[here]), 1)
        counts += discrete_laplace(epsilon, counts.shape, noise)
        smooth = np.maximum(counts, 0) + PSEUDO_COUNT / classes
        said.append(smooth / smooth.sum(axis=1, keepdims=True))
    return _written(trees, np.stack(said) / TREES, X.shape[1])


def _is_range(bounds: Any) -> bool:
    if not isinstance(bounds, list | tuple | np.ndarray) or len(bounds) != 2:
        return False
    if any(isinstance(end, bool) or not isinstance(end, Real) for end in bounds):
        return False
    return bool(-LARGEST <= bounds[0] <= bounds[1] <= LARGEST)


def _written(trees: list[Tree], weights: NDArray[np.float64], width: int) -> bytes:
    """``weights`` (trees, leaves, classes): what a leaf adds to the probabilities."""
    from onnx import TensorProto, helper, numpy_helper

    from peerwise.models.onnx_graph import ML_OPSET, OPSET, finished

    attributes = {**_questions(trees), **_answers(weights)}
    steps = [
        helper.make_node("TreeEnsembleRegressor", ["x"], ["said"], domain="ai.onnx.ml", name="trees", **attributes),
        helper.make_node("Max", ["said", "floor"], ["clipped"], name="clip"),
        helper.make_node("Log", ["clipped"], ["logits"], name="log"),
    ]
    graph = helper.make_graph(
        steps,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", width])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", weights.shape[2]])],
        [numpy_helper.from_array(np.array([FLOOR], np.float32), "floor")],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    return finished(helper.make_model(graph, opset_imports=opsets))


def _questions(trees: list[Tree]) -> dict[str, Any]:
    """The nodes of all trees as ONNX has them: inner ones, then leaves, children of node i at 2 i + 1 and 2 i + 2."""
    inner, leaves, count = 2**DEPTH - 1, 2**DEPTH, len(trees)
    nodes = np.arange(inner + leaves)

    def of_each(name: str, kind: type) -> list[Any]:
        blank = np.zeros(leaves)
        return np.concatenate([[*getattr(tree, name), *blank] for tree in trees]).astype(kind).tolist()  # type: ignore[no-any-return]

    kinds = [np.where(tree.equal, "BRANCH_EQ", "BRANCH_LEQ").tolist() + ["LEAF"] * leaves for tree in trees]
    return {
        "nodes_treeids": np.repeat(np.arange(count), len(nodes)).tolist(),
        "nodes_nodeids": np.tile(nodes, count).tolist(),
        "nodes_featureids": of_each("column", np.int64),
        "nodes_values": of_each("value", np.float32),
        "nodes_modes": [kind for tree in kinds for kind in tree],
        "nodes_missing_value_tracks_true": of_each("missing", np.int64),
        "nodes_truenodeids": np.tile(np.where(nodes < inner, 2 * nodes + 1, 0), count).tolist(),
        "nodes_falsenodeids": np.tile(np.where(nodes < inner, 2 * nodes + 2, 0), count).tolist(),
    }


def _answers(weights: NDArray[np.float64]) -> dict[str, Any]:
    count, leaves, classes = weights.shape
    places = np.repeat(np.arange(leaves - 1, 2 * leaves - 1), classes)
    return {
        "n_targets": classes,
        "target_treeids": np.repeat(np.arange(count), leaves * classes).tolist(),
        "target_nodeids": np.tile(places, count).tolist(),
        "target_ids": np.tile(np.arange(classes), count * leaves).tolist(),
        "target_weights": weights.astype(np.float32).ravel().tolist(),
    }
