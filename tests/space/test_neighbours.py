"""Class-aware neighbours and cumulative mean distance weights, against scikit-learn and naive loops."""

from __future__ import annotations

import numpy as np
import pytest
import space_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.space.neighbours import neighbourhood, soft_membership

shapes = st.tuples(
    st.integers(0, 2**31),
    st.integers(1, 30),
    st.integers(0, 20),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 6),
)


def case(shape):
    """Train rows, labels as codes of the classes present, and queries, half of them twins of train rows."""
    seed, rows, queries, width, classes, k = shape
    rng = np.random.default_rng(seed)
    train = reference.grid_rows(rng, rows, width)
    labels = np.unique(rng.integers(0, classes, rows), return_inverse=True)[1]
    asked = reference.grid_rows(rng, queries, width)
    twins = rng.integers(0, rows, queries // 2)
    asked[: queries // 2] = train[twins]
    return train, labels, asked, k


def as_dict(near, query, k):
    pairs = {}
    for slot, row in enumerate(near.index[query]):
        if row >= 0:
            pairs.setdefault(slot // k, []).append((int(row), float(near.distance[query, slot])))
    return pairs


@settings(max_examples=40, deadline=None)
@given(shapes)
def test_neighbours_are_those_of_scikit_learn_with_ties_by_row(shape):
    train, labels, queries, k = case(shape)
    near = neighbourhood(queries, train, labels, k)
    for q, expected in enumerate(reference.neighbours(queries, train, labels, k)):
        assert as_dict(near, q, k) == expected


@settings(max_examples=40, deadline=None)
@given(shapes)
def test_a_train_row_is_never_its_own_neighbour(shape):
    train, labels, _, k = case(shape)
    near = neighbourhood(train, train, labels, k, leave_out_self=True)
    for q, expected in enumerate(reference.neighbours(train, train, labels, k, leave_out_self=True)):
        assert as_dict(near, q, k) == expected
        assert q not in near.index[q]


@settings(max_examples=40, deadline=None)
@given(shapes, st.booleans())
def test_weights_are_those_of_the_definition_and_sum_to_one(shape, soft):
    train, labels, queries, k = case(shape)
    member = np.random.default_rng(1).uniform(0.1, 1, len(train)) if soft else None
    near = neighbourhood(queries, train, labels, k, membership=member)
    for q, pairs in enumerate(reference.neighbours(queries, train, labels, k)):
        expected = reference.weights(queries[q], train, pairs, member)
        found = {int(row): w for row, w in zip(near.index[q], near.weight[q], strict=True) if row >= 0}
        assert found.keys() == expected.keys()
        assert found == pytest.approx(expected, abs=2e-6)
        assert near.weight[q].sum() == pytest.approx(1, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_soft_membership_is_the_share_of_same_label_rows_among_seven(shape):
    train, labels, _, _ = case(shape)
    assert soft_membership(train, labels) == pytest.approx(reference.membership(train, labels))


def test_weights_sum_to_one_where_no_neighbour_is_a_member_of_its_class():
    train = np.array([[0.0], [0.25], [1.0]], np.float32)
    near = neighbourhood(train, train, np.array([0, 1, 0]), 2, membership=np.zeros(3))
    plain = neighbourhood(train, train, np.array([0, 1, 0]), 2)
    np.testing.assert_array_equal(near.weight, plain.weight)
    mixed = neighbourhood(train, train, np.array([0, 1, 0]), 2, membership=np.array([1.0, 0.0, 1.0]))
    assert (mixed.weight[:, 2:] == 0).all()


def test_no_queries_give_empty_neighbourhoods():
    near = neighbourhood(np.zeros((0, 3), np.float32), np.zeros((4, 3), np.float32), np.array([0, 0, 1, 1]), 2)
    assert near.index.shape == near.distance.shape == near.weight.shape == (0, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("codes", [np.int32, np.int64])
def test_types_of_numbers_do_not_change_the_neighbours(dtype, codes):
    rng = np.random.default_rng(0)
    train, labels = reference.grid_rows(rng, 20, 4), rng.integers(0, 2, 20)
    queries = reference.grid_rows(rng, 5, 4)
    found = neighbourhood(queries.astype(dtype), train.astype(dtype), labels.astype(codes), 3)
    usual = neighbourhood(queries, train, labels, 3)
    np.testing.assert_array_equal(found.index, usual.index)
    np.testing.assert_allclose(found.weight, usual.weight, atol=1e-6)


def test_neighbours_do_not_depend_on_the_other_queries():
    rng = np.random.default_rng(3)
    train, labels = rng.random((60, 33)).astype(np.float32), rng.integers(0, 3, 60)
    queries = rng.random((40, 33)).astype(np.float32)
    together = neighbourhood(queries, train, labels, 5)
    for q in range(0, 40, 7):
        alone = neighbourhood(queries[q : q + 1], train, labels, 5)
        np.testing.assert_array_equal(alone.index[0], together.index[q])
        np.testing.assert_array_equal(alone.weight[0], together.weight[q])


def test_real_values_agree_with_scikit_learn():
    rng = np.random.default_rng(4)
    train, labels = rng.dirichlet(np.ones(10), 200).astype(np.float32), rng.integers(0, 4, 200)
    queries = rng.dirichlet(np.ones(10), 50).astype(np.float32)
    near = neighbourhood(queries, train, labels, 5)
    for q, expected in enumerate(reference.neighbours(queries, train, labels, 5)):
        found = as_dict(near, q, 5)
        for label, pairs in expected.items():
            assert [row for row, _ in found[label]] == [row for row, _ in pairs]
            assert [d for _, d in found[label]] == pytest.approx([d for _, d in pairs], rel=1e-5)
