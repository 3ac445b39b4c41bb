"""The method's edge cases, each with its rule."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold
from trust_cases import TINY_GRAPH, iris, iris_models, outputs, probabilities

from peerwise import FedDES, NeighbourhoodAccuracy
from peerwise.models.folds import fold_rows
from peerwise.space import DecisionSpace, query_edges, train_graph
from peerwise.trust.competence import select_by_competence


def test_client_lacks_a_class():
    logits, y, _ = outputs(0, 40)
    y = np.where(y == 1, 2, y)
    learner = FedDES(**TINY_GRAPH).fit_outputs(logits, y)
    assert set(y[learner.space_.around().index.ravel()]) == {0, 2}
    assert train_graph(learner.space_, 3).classifier_features.shape == (4, 3 * 2 + 2)
    assert learner.predict_proba_outputs(logits).shape == (40, 3)


def test_class_with_fewer_than_k_rows():
    logits, _, _ = outputs(0, 20)
    y = np.array([0] * 18 + [1] * 2)
    near = DecisionSpace.fit(logits, y, k=5).around(probabilities(logits[:3]).astype(np.float32))
    assert (near.index >= 0).sum(axis=1).tolist() == [7, 7, 7]
    assert set(near.index[0, 5:7]) == {18, 19}
    np.testing.assert_allclose(near.weight.sum(axis=1), 1, atol=1e-5)


def test_only_member_of_its_class():
    logits, _, _ = outputs(0, 12)
    y = np.array([0] * 11 + [1])
    near = DecisionSpace.fit(logits, y, k=3).around()
    assert (near.index[11, 3:] == -1).all()  # nothing of its own class
    assert near.index[0, 3] == 11  # others still see it
    np.testing.assert_allclose(near.weight.sum(axis=1), 1, atol=1e-5)


def test_class_with_fewer_rows_than_folds():
    X, y = np.zeros((30, 2)), np.array([0] * 27 + [1] * 3)
    held_out = [fold for _, fold in fold_rows(y, 5, 0)]
    unstratified = [fold for _, fold in KFold(5, shuffle=True, random_state=0).split(X)]
    assert all(map(np.array_equal, held_out, unstratified))
    y = np.array([0] * 25 + [1] * 5)
    stratified = [fold for _, fold in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)]
    assert all(map(np.array_equal, [fold for _, fold in fold_rows(y, 5, 0)], stratified))
    rng = np.random.default_rng(0)
    learner = FedDES(**TINY_GRAPH).fit(rng.normal(size=(30, 2)), np.array([0] * 28 + [1] * 2))
    assert learner.predict_proba(rng.normal(size=(4, 2))).shape == (4, 2)


def test_duplicate_rows_distance_zero():
    logits = np.zeros((8, 2, 2), np.float32)
    logits[6:, :, 0] = 3  # two rows far away
    y = np.zeros(8, np.int64)
    near = DecisionSpace.fit(logits, y, k=5, calibrated=False).around()
    assert near.weight[0] == pytest.approx([0.2] * 5)
    near = DecisionSpace.fit(logits, y, k=7, calibrated=False).around()
    assert near.weight[0] == pytest.approx([0.2] * 5 + [0, 0])
    learner = FedDES(**TINY_GRAPH).fit_outputs(np.zeros((10, 3, 2)), np.arange(10) % 2)
    assert np.isfinite(learner.predict_proba_outputs(np.zeros((2, 3, 2)))).all()


def test_all_models_equally_good_locally():
    y = np.arange(12) % 2
    logits = np.zeros((12, 4, 2), np.float32)
    confidence = np.array([1.0, 3.0, 2.0, 4.0], np.float32)
    logits[np.arange(12), :, y] = confidence
    space = DecisionSpace.fit(logits, y, calibrated=False)
    edges = query_edges(space, logits[:2], 3)
    assert np.abs(edges.local.gain).max() < 1e-6
    assert edges.classifiers.source.reshape(2, 3).tolist() == [[3, 1, 2]] * 2  # the lowest log-loss first
    assert (edges.classifiers.weight == 1).all()


def test_no_model_right_on_a_row():
    logits, y, _ = outputs(0, 30)
    logits[4, :, y[4]] = -50
    learner = FedDES(**TINY_GRAPH).fit_outputs(logits, y)
    assert not learner.space_.correct[4].any()
    forced = FedDES(min_positives=2, **TINY_GRAPH).fit_outputs(logits, y)
    assert forced.space_.correct[4].sum() == 2


def test_no_score_above_a_half():
    decision = select_by_competence(np.array([[0.5, 0.2, 0.5, 0.1]]))
    assert decision.trust.tolist() == [[0.25] * 4]
    assert decision.fallback.tolist() == [True]


@pytest.mark.parametrize("models", [2, 6, 10, 14, 30])
def test_vote_tie_falls_to_the_lowest_class(models):
    logits, y, _ = outputs(0, 30, models=models, classes=4)
    learner = NeighbourhoodAccuracy().fit_outputs(logits, y)
    rng = np.random.default_rng(models)
    for _ in range(20):
        answers = np.array([1, 3] * (models // 2))
        rng.shuffle(answers)
        split = np.eye(4, dtype=np.float32)[answers][None] * 5
        mixed = learner._mix(np.full((1, models), 1 / models), split)
        assert mixed[0].tolist() == [0, 0.5, 0, 0.5]
        assert mixed.argmax() == 1


def test_one_model():
    logits, y, _ = outputs(0, 25, models=1)
    for skill in (1, -1):  # a good model and a hopeless one
        learner = FedDES(**TINY_GRAPH).fit_outputs(logits * skill, y)
        np.testing.assert_array_equal(learner.trust_outputs(logits), np.ones((25, 1)))
        np.testing.assert_array_equal(learner.predict_proba_outputs(logits).argmax(1), logits[:, 0].argmax(1))


def test_client_without_validation_rows():
    logits, y, X = outputs(0, 30)
    settings = {**TINY_GRAPH, "epochs": 50, "fixed_epochs": 7}
    for nothing in (None, (logits[:0], y[:0]), (logits[:0], y[:0], X[:0])):
        learner = FedDES(**settings).fit_outputs(logits, y, validation=nothing)
        assert learner.training_.epochs == learner.training_.best_epoch == 7
        assert learner.training_.scores == []
    stopped = FedDES(**settings, patience=2, lr=0.1).fit_outputs(logits, y, validation=(logits, (y + 1) % 3))
    assert len(stopped.training_.scores) == stopped.training_.best_epoch + 2 < 50


def test_query_equals_a_train_row():
    logits, y, _ = outputs(0, 30)
    space = DecisionSpace.fit(logits, y)
    near = space.around(space.project(logits[[4]]))
    nearest = np.flatnonzero(near.index[0] == 4)
    assert near.distance[0, nearest].tolist() == [0]
    assert 4 not in space.around().index[4]


def test_train_and_query_columns_of_own_models_differ():
    X, y = iris()
    models = iris_models()
    held_out = np.full((150, 1, 3), 1 / 3)
    learner = FedDES(models, own=["bayes"], calibrate=False, **TINY_GRAPH).fit(X, y, own_outputs=held_out)
    np.testing.assert_allclose(learner.space_.probabilities[:, 1], 1 / 3, atol=1e-6)
    np.testing.assert_allclose(learner.space_.probabilities[:, 2], models["forest"].predict_proba(X), atol=1e-5)
    asked = learner.explain(X[0])
    said = next(say for say in asked.models if say.name == "bayes")
    assert said.confidence == pytest.approx(models["bayes"].predict_proba(X[:1]).max(), abs=1e-5)


def test_vote_tie_that_only_rounding_breaks_falls_to_the_lowest_class():
    logits, y, _ = outputs(0, 30, models=5, classes=4)
    learner = NeighbourhoodAccuracy().fit_outputs(logits, y)
    said = np.eye(4, dtype=np.float32)[[1, 3, 3, 0, 2]][None]
    mixed = learner._mix(np.array([[0.3, 0.1, 0.2, 0.2, 0.2]]), said)  # 0.1 + 0.2 > 0.3 in binary
    assert mixed.argmax() == 1
