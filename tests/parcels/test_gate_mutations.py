"""Nothing that is done to a file's bytes gets more out of the gate than a refusal or an answer."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_parts import CLASSES, INPUTS, file, node, tensor
from hostile_trees import tree_file
from hypothesis import given, settings
from hypothesis import strategies as st
from real_exports import EXPORTS

from peerwise.errors import GateRefused
from peerwise.models.onnx_shapes import inferred
from peerwise.parcels.gate import Gate, GateLimits
from peerwise.parcels.gate.wire import looked_over


class InProcess:
    """As the worker's child does it, without the child: thousands of files would each cost a new one."""

    def shapes(self, data: bytes, rows: int) -> dict[str, list[int]]:
        return inferred(data, rows)


NAMES = (
    "zoo lenet5 28",
    "zoo forest",
    "zoo lstm",
    "zoo mlp",
    "sklearn imputer, xgboost",
    "sklearn columns and one-hot",
)


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bytes_are_refused_or_make_no_difference_to_the_rules(name: str) -> None:
    export, chance = EXPORTS[name], np.random.default_rng(0)
    data, gate, refusals = export.make(), Gate(InProcess()), 0
    # Most of a file is weights, where any byte will do: the ends of it hold the names, the nodes and the shapes.
    edges = np.r_[0 : min(4000, len(data)), max(0, len(data) - 2000) : len(data)]
    for _ in range(350):
        changed = bytearray(data)
        for place in chance.choice(edges, chance.integers(1, 4)):
            changed[place] ^= int(chance.integers(1, 256))
        try:
            gate.check(bytes(changed), inputs=export.inputs, classes=export.classes)
        except GateRefused:
            refusals += 1
    assert refusals > 70


@pytest.mark.parametrize("name", NAMES[1:4])
def test_cut_files_are_refused(name: str) -> None:
    export, data = EXPORTS[name], EXPORTS[name].make()
    for size in np.linspace(0, len(data) - 1, 60).astype(int):
        with pytest.raises(GateRefused):
            Gate(InProcess()).check(data[:size], inputs=export.inputs, classes=export.classes)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(GateRefused):
        Gate(InProcess()).check(data, inputs=INPUTS, classes=CLASSES)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=32), max_size=60), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60))
def test_long_lists_of_numbers_are_read_over_whatever_they_are(floats: list[float], ints: list[int]) -> None:
    """The first look skips them in great steps, and must end where they end."""
    labels = ["LEAF", "BRANCH_LEQ", "x" * len(ints)] * 2
    data = file(node("Neg", ["x"], a=floats or [0.0], b=ints or [1], c=labels, d=3))
    looked_over(data, GateLimits())
    with pytest.raises(GateRefused):
        looked_over(data[:-1], GateLimits())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_tree_with_one_wrong_branch_is_no_tree(data: st.DataObject) -> None:
    """Any tree passes; when one of its branches leads to any other of its nodes, it does not."""
    left, right, leaves = {}, {}, [0]
    for number in range(1, data.draw(st.integers(3, 41)), 2):
        split = leaves.pop(data.draw(st.integers(0, len(leaves) - 1)))
        left[split], right[split] = number, number + 1
        leaves += [number, number + 1]
    count = 2 * len(left) + 1

    def written(true: dict[int, int]) -> bytes:
        return tree_file(
            nodes_treeids=[0] * count,
            nodes_nodeids=list(range(count)),
            nodes_featureids=[0] * count,
            nodes_modes=["BRANCH_LEQ" if number in left else "LEAF" for number in range(count)],
            nodes_values=[0.0] * count,
            nodes_truenodeids=[true.get(number, 0) for number in range(count)],
            nodes_falsenodeids=[right.get(number, 0) for number in range(count)],
            class_treeids=[0] * len(leaves),
            class_nodeids=leaves,
            class_ids=[0] * len(leaves),
            class_weights=[1.0] * len(leaves),
        )

    gate = Gate(InProcess())
    assert gate.check(written(left), inputs=INPUTS, classes=CLASSES).nodes == 1
    branch = data.draw(st.sampled_from(sorted(left)))
    wrong = data.draw(st.integers(0, count - 1).filter(lambda number: number != left[branch]))
    with pytest.raises(GateRefused, match=r"below two others|two roots|cycle"):
        gate.check(written({**left, branch: wrong}), inputs=INPUTS, classes=CLASSES)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4))
def test_no_shape_written_in_a_file_gets_more_memory_than_allowed(sides: list[int]) -> None:
    data = file(node("Expand", ["x", "s"]), weights=[tensor("s", sides, np.int64)])
    limits = GateLimits(activation=1000)
    try:
        facts = Gate(InProcess(), limits).check(data, inputs=INPUTS, classes=CLASSES)
    except GateRefused:
        return
    assert facts.activation <= 1000
