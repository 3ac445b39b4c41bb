"""The competence graph: who sends to whom, with what weight."""

from __future__ import annotations

import numpy as np
import pytest
import space_reference as reference

from peerwise.space import DecisionSpace, query_edges, train_graph


def edges(incoming):
    """{(destination, source): weight}; an edge that is there twice would be lost, so their number is checked too."""
    found = {}
    for j in range(len(incoming.start) - 1):
        for e in range(incoming.start[j], incoming.start[j + 1]):
            found[j, int(incoming.source[e])] = float(incoming.weight[e])
    assert len(found) == len(incoming.source)
    return found


@pytest.fixture(scope="module")
def space():
    rng = np.random.default_rng(0)
    return DecisionSpace.fit(reference.random_logits(rng, 40, 4, 3), rng.integers(0, 3, 40), k=3)


def test_train_rows_are_linked_both_ways_and_weights_of_a_pair_add_up(space):
    near = space.around()
    expected = {}
    for j, (index, weight) in enumerate(zip(near.index, near.weight, strict=True)):
        for i, w in zip(index, weight, strict=True):
            if i >= 0:
                expected[j, int(i)] = expected.get((j, int(i)), 0) + float(w)
                expected[int(i), j] = expected.get((int(i), j), 0) + float(w)
    assert edges(train_graph(space, 2).samples) == pytest.approx(expected, abs=1e-6)


def test_models_hear_back_from_the_rows_that_chose_them(space):
    graph = train_graph(space, 2)
    forward = edges(graph.classifiers)
    assert len(forward) == 40 * 2
    assert edges(graph.back) == {(m, j): w for (j, m), w in forward.items()}


def test_queries_only_receive_from_train_rows_and_models(space):
    logits = reference.random_logits(np.random.default_rng(1), 7, 4, 3)
    found = query_edges(space, logits, 3)
    near = space.around(space.project(logits))
    expected = {
        (j, int(i)): float(w) for j in range(7) for i, w in zip(near.index[j], near.weight[j], strict=True) if i >= 0
    }
    assert edges(found.samples) == pytest.approx(expected)
    assert len(edges(found.classifiers)) == 7 * 3


def test_edges_whose_weight_underflows_are_kept():
    logits = np.zeros((10, 1, 2), np.float32)
    logits[4:, 0, 0] = 50  # far from the first four, which are the same: their share of the weight is exp(-1e8)
    space = DecisionSpace.fit(logits, np.zeros(10, np.int64), k=5, calibrated=False)
    found = edges(train_graph(space, 1).samples)
    among_four, among_six, across = 4 * 3, 6 * 5, 2 * 4 * 2
    assert len(found) == among_four + among_six + across
    assert sum(w == 0 for w in found.values()) == across


def test_no_queries_give_no_edges(space):
    found = query_edges(space, np.zeros((0, 4, 3), np.float32), 3)
    assert found.samples.start.tolist() == found.classifiers.start.tolist() == [0]


def test_a_space_survives_its_tree(space):
    twin = DecisionSpace.from_tree(space.to_tree())
    logits = reference.random_logits(np.random.default_rng(2), 5, 4, 3)
    np.testing.assert_array_equal(twin.around(twin.project(logits)).weight, space.around(space.project(logits)).weight)


def test_the_decision_vector_is_model_major(space):
    assert space.probabilities.shape == (40, 4, 3)
    np.testing.assert_allclose(space.probabilities.sum(axis=2), 1, atol=1e-5)


def test_min_positives_is_a_switch_of_the_space():
    rng = np.random.default_rng(5)
    logits, y = reference.random_logits(rng, 60, 4, 5), rng.integers(0, 5, 60)
    assert (DecisionSpace.fit(logits, y).correct.sum(axis=1) == 0).any()
    assert (DecisionSpace.fit(logits, y, min_positives=2).correct.sum(axis=1) >= 2).all()
