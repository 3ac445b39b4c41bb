"""Every dynamic rule against the same rule written down one query and one model at a time, and what must hold of it."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_reference import RULES, SPACES, Reference, drawn, made, said
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from peerwise.checks import check_trust_learner
from peerwise.space.loops import nearest_euclidean
from peerwise.trust import learner_from_tree, learner_to_tree

every_rule = pytest.mark.parametrize(("name", "space"), SPACES)
shapes = st.tuples(st.integers(0, 2**31), st.integers(1, 24), st.integers(1, 6), st.integers(1, 7), st.integers(1, 4))
NO_TIES = ["KNORAE", "KNORAU", "DESP", "KNOP", "METADES"]  # who is selected never hangs on the order of the models


@every_rule
@settings(max_examples=40, deadline=None)
@given(shapes, st.integers(1, 30), st.booleans())
def test_the_rule_is_the_one_written_down_plainly(name, space, shape, k, at_home):
    logits, y, X, asked, asked_X = drawn(*shape)
    own = [shape[3] - 1] if at_home else []
    decision = made(name, space, k=k, own=own).fit_outputs(logits, y, X).decide_outputs(asked, asked_X)
    trust, fallback, margin = Reference(name, logits, y, X, k, space, own).decide(asked, asked_X)
    clear = margin > 1e-9
    np.testing.assert_allclose(decision.trust[clear], trust[clear], atol=1e-12)
    np.testing.assert_array_equal(decision.fallback[clear], fallback[clear])


@settings(max_examples=25, deadline=None)
@given(shapes, st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.sampled_from(["inputs", "decision"]))
def test_meta_des_learns_from_rows_without_consensus(shape, Kp, Hc, space):
    logits, y, X, asked, asked_X = drawn(*shape)
    learner = made("METADES", space, k=4, Kp=Kp, Hc=Hc).fit_outputs(logits, y, X)
    trust, _, margin = Reference("METADES", logits, y, X, 4, space, Kp=Kp, Hc=Hc).decide(asked, asked_X)
    clear = margin > 1e-9
    np.testing.assert_allclose(learner.trust_outputs(asked, asked_X)[clear], trust[clear], atol=1e-12)


@pytest.mark.parametrize("name", NO_TIES)
@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(1, 9))
def test_permuting_the_models_permutes_the_trust(name, shape, k):
    logits, y, X, asked, asked_X = drawn(*shape)
    order = np.random.default_rng(shape[0]).permutation(shape[3])
    plain = made(name, k=k).fit_outputs(logits, y, X).trust_outputs(asked, asked_X)
    turned = made(name, k=k).fit_outputs(logits[:, order], y, X).trust_outputs(asked[:, order], asked_X)
    np.testing.assert_allclose(turned, plain[:, order], atol=1e-12)


@pytest.mark.parametrize(("name", "space"), [pair for pair in SPACES if pair[0] != "METADES"])
@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(1, 9))
def test_every_row_twice_and_twice_the_neighbours_change_nothing(name, space, shape, k):
    logits, y, X, asked, asked_X = drawn(*shape)
    once = made(name, space, k=k).fit_outputs(logits, y, X).trust_outputs(asked, asked_X)
    twice = [np.repeat(values, 2, axis=0) for values in (logits, y, X)]
    np.testing.assert_allclose(
        made(name, space, k=2 * k).fit_outputs(*twice).trust_outputs(asked, asked_X), once, atol=1e-12
    )


@every_rule
@settings(max_examples=15, deadline=None)
@given(shapes)
def test_more_neighbours_than_rows_are_all_rows(name, space, shape):
    logits, y, X, asked, asked_X = drawn(*shape)
    all_rows, more = (made(name, space, k=k).fit_outputs(logits, y, X) for k in (len(y), len(y) + 50))
    np.testing.assert_array_equal(more.trust_outputs(asked, asked_X), all_rows.trust_outputs(asked, asked_X))


@every_rule
@pytest.mark.parametrize("vote", ["hard", "soft"])
def test_the_answer_is_the_mixture_that_trust_promises_and_is_kept(name, space, vote):
    logits, y, X, asked, asked_X = drawn(3, 40, 200, 6, 3)
    learner = made(name, space, vote=vote).fit_outputs(logits, y, X)
    assert learner.trust_is_exact
    trust, answers = learner.trust_outputs(asked, asked_X), learner.predict_proba_outputs(asked, asked_X)
    np.testing.assert_allclose(trust.sum(axis=1), 1)
    np.testing.assert_allclose(answers, np.einsum("nm,nmc->nc", trust, learner._votes(asked)), atol=1e-6)
    again = learner_from_tree(type(learner), learner_to_tree(learner))
    np.testing.assert_array_equal(again.predict_proba_outputs(asked, asked_X), answers)


@every_rule
def test_the_contract_of_a_trust_learner(name, space):
    check_trust_learner(made(name, space))


@every_rule
def test_outputs_that_never_change_are_answered_by_all(name, space):
    outputs = said(np.zeros((12, 5), int), 3)
    learner = made(name, space).fit_outputs(outputs, np.arange(12) % 3, np.arange(12.0)[:, None])
    decision = learner.decide_outputs(outputs[:4], np.arange(4.0)[:, None])
    np.testing.assert_allclose(decision.trust, 1 / 5)
    assert not decision.fallback.any()


@pytest.mark.parametrize("name", RULES)
def test_three_rows_and_fifty_models(name):
    logits, y, X, asked, asked_X = drawn(5, 3, 20, 50, 4)
    trust, _, margin = Reference(name, logits, y, X).decide(asked, asked_X)
    found = made(name).fit_outputs(logits, y, X).trust_outputs(asked, asked_X)
    np.testing.assert_allclose(found[margin > 1e-9], trust[margin > 1e-9], atol=1e-12)


@every_rule
def test_a_clone_learns_the_same(name, space):
    logits, y, X, asked, asked_X = drawn(4, 30, 20, 5, 3)
    learner = made(name, space, k=3, own=[2]).fit_outputs(logits, y, X)
    twin = clone(learner).fit_outputs(logits, y, X)
    assert twin.get_params() == learner.get_params()
    np.testing.assert_array_equal(twin.trust_outputs(asked, asked_X), learner.trust_outputs(asked, asked_X))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(0, 12), st.integers(1, 11), st.integers(1, 9))
def test_euclidean_neighbours_are_exact_with_ties_by_row(seed, rows, queries, width, k):
    rng = np.random.default_rng(seed)
    train, asked = (rng.integers(0, 4, (n, width)).astype(np.float32) for n in (rows, queries))
    out = rng.integers(-1, rows, queries)
    index, squared = nearest_euclidean(asked, np.ascontiguousarray(train.T), out, k)
    for q in range(queries):
        far = ((train - asked[q]) ** 2).sum(axis=1)
        order = [row for row in np.lexsort((np.arange(rows), far)) if row != out[q]][:k]
        assert index[q].tolist() == order + [-1] * (k - len(order))
        assert squared[q, : len(order)].tolist() == far[order].tolist()


def test_euclidean_neighbours_of_many_rows_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    train, asked = rng.normal(size=(5000, 13)), rng.normal(size=(300, 13))
    expected = NearestNeighbors(n_neighbors=9).fit(train).kneighbors(asked)
    columns = np.ascontiguousarray(train.T, dtype=np.float32)
    index, squared = nearest_euclidean(asked.astype(np.float32), columns, np.full(300, -1), 9)
    np.testing.assert_array_equal(index, expected[1])
    np.testing.assert_allclose(np.sqrt(squared), expected[0], rtol=1e-5)
