"""What holds for every trust learner, whatever the pool."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from trust_cases import LEARNERS, TINY, TINY_GRAPH, outputs, probabilities

from peerwise import DecisionMLP, FedDES, PeerwiseClassifier
from peerwise.trust import learner_from_tree, learner_to_tree

every_learner = pytest.mark.parametrize("name", LEARNERS)


@pytest.fixture(scope="module")
def fitted():
    logits, y, X = outputs(0, 60)
    val = outputs(1, 20)
    return {name: clone(learner).fit_outputs(logits, y, X, validation=val) for name, learner in LEARNERS.items()}


@pytest.fixture(scope="module")
def asked():
    logits, _, X = outputs(2, 600)
    return logits, X


@every_learner
def test_trust_and_probabilities_sum_to_one(fitted, asked, name):
    decision = fitted[name].decide_outputs(*asked)
    np.testing.assert_allclose(decision.trust.sum(axis=1), 1)
    assert (decision.trust >= 0).all()
    np.testing.assert_allclose(fitted[name].predict_proba_outputs(*asked).sum(axis=1), 1)
    if decision.competence is not None:
        assert ((decision.competence >= 0) & (decision.competence <= 1)).all()


@every_learner
@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 599), min_size=1, max_size=40))
def test_an_answer_does_not_depend_on_the_other_queries(fitted, asked, name, rows):
    logits, X = asked
    together = fitted[name].decide_outputs(logits, X)
    some = fitted[name].decide_outputs(logits[rows], X[rows])
    if together.competence is not None:
        np.testing.assert_allclose(some.competence, together.competence[rows], atol=1e-6, rtol=0)
    answers = fitted[name].predict_proba_outputs(logits, X).argmax(axis=1)
    np.testing.assert_array_equal(
        fitted[name].predict_proba_outputs(logits[rows], X[rows]).argmax(axis=1), answers[rows]
    )


@every_learner
def test_one_query_at_a_time_gives_the_same_answers(fitted, asked, name):
    logits, X = asked[0][:40], asked[1][:40]
    alone = np.concatenate([fitted[name].predict_proba_outputs(logits[[i]], X[[i]]) for i in range(40)])
    np.testing.assert_allclose(alone, fitted[name].predict_proba_outputs(logits, X), atol=2e-6)


@every_learner
def test_no_queries_give_no_answers(fitted, name):
    none, X = np.zeros((0, 4, 3)), np.zeros((0, 5))
    assert fitted[name].trust_outputs(none, X).shape == (0, 4)
    assert fitted[name].predict_proba_outputs(none, X).shape == (0, 3)


@pytest.mark.parametrize("kind", [FedDES, DecisionMLP])
def test_a_seed_repeats_and_another_seed_differs(kind, asked):
    logits, y, _ = outputs(0, 60)
    settings = TINY_GRAPH if kind is FedDES else TINY
    found = [
        kind(**{**settings, "random_state": seed}).fit_outputs(logits, y).decide_outputs(asked[0]).competence
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


@every_learner
def test_the_callers_random_state_is_left_alone(asked, name):
    logits, y, X = outputs(0, 40)
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    numpy_before, torch_before = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    for state in (0, None):
        learner = clone(LEARNERS[name])
        if "random_state" in learner.get_params():
            learner.set_params(random_state=state)
        learner.fit_outputs(logits, y, X).predict_proba_outputs(*asked)
        learner_from_tree(type(learner), learner_to_tree(learner))
    clone(LEARNERS[name]).fit(X, y).predict_proba(X)
    np.testing.assert_equal(np.random.get_state(), numpy_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


@pytest.mark.parametrize("name", ["neighbourhood", "best", "uniform", "own"])
def test_permuting_the_models_permutes_the_trust(name, asked):
    logits, y, _ = outputs(0, 60)
    order = np.array([2, 0, 3, 1])
    plain = clone(LEARNERS[name]).set_params(own=[0]).fit_outputs(logits, y)
    turned = clone(LEARNERS[name]).set_params(own=[int(np.argmax(order == 0))]).fit_outputs(logits[:, order], y)
    np.testing.assert_allclose(
        turned.trust_outputs(asked[0][:, order]), plain.trust_outputs(asked[0])[:, order], atol=1e-5
    )


@every_learner
def test_logits_and_probabilities_give_nearly_the_same(asked, name):
    logits, y, X = outputs(0, 60)
    queries, query_X = asked[0][:100], asked[1][:100]
    by_logits = clone(LEARNERS[name]).fit_outputs(logits, y, X)
    by_probabilities = clone(LEARNERS[name]).fit_outputs(probabilities(logits), y, X, kind="probabilities")
    mine = by_logits.predict_proba_outputs(queries, query_X)
    theirs = by_probabilities.predict_proba_outputs(probabilities(queries), query_X)
    assert (np.abs(mine - theirs).max(axis=1) < 1e-3).mean() > 0.97
    assert (mine.argmax(1) == theirs.argmax(1)).mean() > 0.97


@every_learner
def test_soft_votes_are_the_mixture_that_trust_promises(fitted, asked, name):
    learner = fitted[name]
    if not learner.trust_is_exact:
        assert isinstance(learner, PeerwiseClassifier), "all others are weighted votes"
        return
    logits, X = asked
    trust = learner.trust_outputs(logits, X)
    mixed = np.einsum("nm,nmc->nc", trust, learner._votes(logits))
    np.testing.assert_allclose(learner.predict_proba_outputs(logits, X), mixed, atol=1e-6)


@every_learner
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_one_two_and_three_rows_are_enough(name, rows):
    logits, y, X = outputs(5, rows)
    learner = clone(LEARNERS[name]).fit_outputs(logits, y, X)
    assert np.isfinite(learner.predict_proba_outputs(logits, X)).all()


@every_learner
def test_rows_of_one_class_are_enough(name):
    logits, y, X = outputs(5, 20)
    learner = clone(LEARNERS[name]).fit_outputs(logits, np.zeros_like(y), X)
    assert np.isfinite(learner.predict_proba_outputs(logits, X)).all()
    one = clone(LEARNERS[name]).fit_outputs(logits[:, :, :1], np.zeros_like(y), X)
    np.testing.assert_array_equal(one.predict_proba_outputs(logits[:, :, :1], X), 1)


def test_training_helps_on_a_pool_with_specialists():
    logits, y, _ = outputs(0, 400, models=6, skill=5)
    asked, truth, _ = outputs(1, 400, models=6, skill=5)
    learner = FedDES(hidden=16, heads=2, fixed_epochs=30, lr=5e-3, batch_size=32, random_state=0).fit_outputs(logits, y)
    right = (asked.argmax(2) == truth[:, None]).astype(float)
    competence = learner.decide_outputs(asked).competence
    assert np.corrcoef(competence.ravel(), right.ravel())[0, 1] > 0.4
    uniform = np.eye(3)[asked.argmax(2)].mean(axis=1).argmax(1)
    mine = learner.predict_proba_outputs(asked).argmax(1)
    assert (mine == truth).mean() > (uniform == truth).mean()
