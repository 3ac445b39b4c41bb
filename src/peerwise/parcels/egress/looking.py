"""What a model file holds of the rows it was trained on, and whether it may leave with that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from peerwise.data.rows import Inputs, Rows, Sequences
from peerwise.errors import MayNotLeave
from peerwise.parcels.egress import graph
from peerwise.parcels.egress.clean import strings
from peerwise.parcels.egress.leaves import smallest_leaf
from peerwise.parcels.egress.search import Canaries, whole_rows

MIN_LEAF = 10
SAMPLE = 500  # rows whose values on their way through the graph are looked for; a model that keeps those keeps many
LOOSE = 1e-5  # they are computed anew, so their last digits differ
SWITCH = "Publish another kind of model, such as logistic, forest, boosting or mlp."


@dataclass(frozen=True)
class Findings:
    """What is in the file. ``rows_held`` of ``rows`` training rows are in it, in what is named ``held_in``; ``kernel``
    says what makes it a kernel or neighbour model; ``foreign`` names an operator that is not of ONNX itself;
    ``smallest_leaf`` is None where no tree splits; ``strings`` are texts that it holds apart from names of its parts.
    """

    operators: dict[str, int]
    parameters: int
    rows: int
    rows_held: int
    held_in: str | None
    kernel: str | None
    foreign: str | None
    smallest_leaf: int | None
    leaves: int
    strings: tuple[str, ...]
    notes: tuple[str, ...]


def inspect(data: bytes, train: Rows, *, min_leaf: int = MIN_LEAF) -> Findings:
    """What is in the file, or `MayNotLeave`.

    Refused are: kernel and neighbour models; a file that holds a training row, as it was or as the graph itself makes
    it on its way (scaled, imputed, embedded), see `Canaries` for what counts as one; and trees with a leaf of fewer
    than ``min_leaf`` training rows, see `leaves` for how they are counted. ``min_leaf=1`` lets all trees leave that
    were fitted on these rows; ``min_leaf=0`` is for trees whose leaves are noised by differential privacy. ``train``
    must be the rows that the model was trained on, in the form that it takes.
    """
    found = look(data, train)
    if found.kernel is not None:
        raise MayNotLeave(
            f"the model has {found.kernel}: kernel and neighbour models keep their training rows, and no row may "
            f"leave. {SWITCH}"
        )
    if found.rows_held:
        raise MayNotLeave(
            f"{found.rows_held} of {found.rows} training rows are in the file (in {found.held_in!r}): expected none. "
            f"{SWITCH}"
        )
    if found.foreign is not None:
        raise MayNotLeave(
            f"the model uses {found.foreign}: expected operators of ONNX itself, which peers let in and which can be "
            f"looked at. {SWITCH}"
        )
    if found.smallest_leaf is not None and found.smallest_leaf < min_leaf:
        raise MayNotLeave(
            f"a leaf of its trees holds {found.smallest_leaf} of {found.rows} training rows: expected at least "
            f"{min_leaf}, as a leaf of few rows tells of them alone. Train with min_samples_leaf={min_leaf} "
            f"(scikit-learn) or min_child_weight={min_leaf / 2:g} (xgboost, lightgbm), or lower min_leaf if your "
            "privacy officer agrees. No row at all means that these are not the rows that it was trained on."
        )
    return found


def look(data: bytes, train: Rows) -> Findings:
    """What is in the file, whether or not it may leave with that."""
    model = graph.opened(data)
    if not len(train):
        raise MayNotLeave("there are no training rows to look for: expected those that the model was trained on.")
    foreign = next((node for node in graph.nodes(model) if node.domain not in graph.STANDARD), None)
    held, where = _held(model, train.X, runs=foreign is None)
    leaf, leaves = smallest_leaf(model, train.X) if foreign is None else (None, 0)
    grouped = train.group is not None and leaf is not None
    return Findings(
        operators=dict(sorted(Counter(node.op_type for node in graph.nodes(model)).items())),
        parameters=graph.parameters(model),
        rows=len(train),
        rows_held=int(held.sum()),
        held_in=where,
        kernel=_kernel(model, len(train)),
        foreign=foreign and f"{foreign.op_type} of {foreign.domain}",
        smallest_leaf=leaf,
        leaves=leaves,
        strings=strings(model),
        notes=("leaves are counted in rows, and several rows may be of one person",) if grouped else (),
    )


def _kernel(model: ModelProto, rows: int) -> str | None:
    """What makes it a kernel or neighbour model, by its operators."""
    tables = {name for name, tensor in graph.tensors(model) if len(tensor.dims) == 2 and min(tensor.dims) > 1}
    full = {name for name, tensor in graph.tensors(model) if len(tensor.dims) == 2 and rows in tensor.dims}
    for node in graph.nodes(model):
        if node.op_type in ("SVMClassifier", "SVMRegressor") and _floats(node, "support_vectors"):
            return f"support vectors ({node.op_type})"
        if node.op_type in ("Scan", "CDist") and tables & set(node.input):
            return f"distances to stored rows ({node.op_type})"
        if node.op_type == "TopK" and full & _before(model, node):
            return f"the nearest of {rows} stored rows (TopK)"
    return None


def _floats(node: NodeProto, name: str) -> int:
    return sum(len(item.floats) for item in node.attribute if item.name == name)


def _before(model: ModelProto, node: NodeProto) -> set[str]:
    """Names of all values that this node's inputs are made of."""
    maker = {name: other for other in model.graph.node for name in other.output}
    names, open_names = set[str](), list(node.input)
    while open_names:
        name = open_names.pop()
        if name not in names:
            names.add(name)
            open_names.extend(maker[name].input if name in maker else ())
    return names


def _held(model: ModelProto, X: Inputs, runs: bool) -> tuple[NDArray[np.bool_], str | None]:
    """Which rows are in the file, and where most of them are."""
    held, found = np.zeros(len(X), dtype=np.bool_), Counter[str]()
    widths = [int(np.prod(part.shape[1:])) for part in _parts(X)]
    stored = [(name, values) for name, values in graph.numbers(model) if values.size > 1]
    some = np.unique(np.linspace(0, len(X) - 1, min(len(X), SAMPLE)).round().astype(np.int64))
    for rows, every, precision in _sources(model, X, some if runs else some[:0]):
        canaries = Canaries.of(rows, precision)
        for name, values in stored:
            if values.ndim > 2 and rows.shape[1] not in widths:
                continue  # filters, not rows: embedded rows are kept as a table
            there = _in_table(canaries, rows, values)
            found[name] += int(there.sum())
            held[every[there]] = True
    return held, (found.most_common(1)[0][0] if held.any() else None)


def _sources(
    model: ModelProto, X: Inputs, some: NDArray[np.int64]
) -> list[tuple[NDArray[Any], NDArray[np.int64], float]]:
    """The rows as they are, and some of them as the graph makes them on its way."""
    raw = [(part.reshape(len(X), -1), np.arange(len(X)), 1e-6) for part in _parts(X) if part.size]
    names = graph.row_values(model, X) if len(some) else []
    made = graph.run(model, names, X[some]) if names else []
    return raw + [(values.reshape(len(some), -1), some, LOOSE) for values in made]


def _parts(X: Inputs) -> list[NDArray[Any]]:
    return [X.static, X.series] if isinstance(X, Sequences) else [np.asarray(X)]


def _in_table(canaries: Canaries, rows: NDArray[Any], values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind not in "fiu":
        return np.zeros(len(rows), dtype=np.bool_)
    there = canaries.held_by(values)
    if values.ndim == 2 and min(values.shape) > 1:
        there |= canaries.held_by(values.T) | whole_rows(values, rows) | whole_rows(values.T, rows)
    return there
