"""One answer opened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from trust_cases import iris, iris_models, outputs

from peerwise import PeerwiseClassifier
from peerwise.errors import DataError, PoolError
from peerwise.trust.explanation import SHOWN, Explanation, ModelSay

X, Y = iris()


@pytest.fixture(scope="module")
def learner():
    return PeerwiseClassifier(iris_models(), own=["bayes"]).fit(X, Y)


@pytest.mark.parametrize("row", [0, 1, 50, 149])
def test_an_explanation_is_the_answer_it_explains(learner, row):
    told = learner.explain(X[row])
    assert told.answer == learner.predict(X[[row]])[0]
    assert list(told.probabilities.values()) == pytest.approx(learner.predict_proba(X[[row]])[0], abs=1e-6)
    trust = dict(zip(learner.model_names_, learner.trust(X[[row]])[0], strict=True))
    competence = dict(zip(learner.model_names_, learner.competence(X[[row]])[0], strict=True))
    assert {say.name: say.trust for say in told.models} == pytest.approx(trust, abs=1e-6)
    assert {say.name: say.competence for say in told.models} == pytest.approx(competence, abs=1e-6)
    assert sum(say.trust for say in told.models) == pytest.approx(1)
    assert [say.trust for say in told.models] == sorted((say.trust for say in told.models), reverse=True)


def test_neighbours_are_train_rows_with_their_labels_and_weights(learner):
    told = learner.explain(X[3])
    assert sum(case.weight for case in told.neighbours) == pytest.approx(1, abs=1e-5)
    assert [case.label for case in told.neighbours] == [Y[case.row] for case in told.neighbours]
    assert len({case.row for case in told.neighbours}) == len(told.neighbours) == 15
    weights = [case.weight for case in told.neighbours]
    assert weights == sorted(weights, reverse=True)
    assert any(case.row == 3 and case.distance == 0 for case in told.neighbours)


def test_only_near_cases_count_as_near(learner):
    sizes = set()
    for row in (3, 77, 83, 133):
        told = learner.explain(X[row])
        nearby = [case for case in told.neighbours[:7] if case.weight >= 0.005]
        for say in told.models:
            column = learner.model_names_.index(say.name)
            assert say.right_nearby == sum(learner.space_.correct[case.row, column] for case in nearby)
            assert say.of_nearby == len(nearby) > 0
        assert str(told).count("row ") == len(nearby)
        assert "0.00" not in str(told).partition("nearest known cases")[2]
        sizes.add(len(nearby))
    assert len(sizes) > 1


def test_each_model_says_what_it_answers_and_own_models_are_marked(learner):
    models = iris_models()
    told = learner.explain(X[60])
    assert {say.name: say.answer for say in told.models} == {n: m.predict(X[[60]])[0] for n, m in models.items()}
    assert [say.name for say in told.models if say.own] == ["bayes"]
    disputed = replace(told, models=(replace(told.models[0], answer="other"), *told.models[1:]))
    assert "bayes (own)" in str(disputed)


def test_a_row_may_come_alone_or_as_a_batch_of_one(learner):
    assert learner.explain(X[5]) == learner.explain(X[5:6])
    assert learner.explain(X[5].tolist()).answer == learner.explain(X[5]).answer


def test_the_text_names_answer_models_and_cases(learner):
    found = learner.explain(X[0])
    told = replace(found, models=(*found.models[:-1], replace(found.models[-1], answer="other")))
    text = str(told)
    assert text.startswith(f"answer: {told.answer} (p = ")
    assert "; 1 of 3 models say otherwise" in text.splitlines()[0]
    assert f"own models alone: {told.own} (p = " in text.splitlines()[1]
    for say in told.models:
        assert say.name in text
    assert f"row {told.neighbours[0].row} ({told.neighbours[0].label}" in text


def test_a_fallback_is_told_and_a_long_pool_is_cut():
    says = tuple(ModelSay(f"m{i}", False, "ab"[i % 2], 0.5, 0.1, 0.1, 0, 5) for i in range(10))
    text = str(Explanation("a", {"a": 0.6, "b": 0.4}, True, says, ()))
    assert "no model is reliable here" in text
    assert f"... and {10 - SHOWN} more models" in text


def test_a_very_flat_calibration_does_not_change_what_a_model_says():
    rng = np.random.default_rng(0)
    wrong = rng.normal(0, 1e-3, (30, 4))

    def model(rows):
        return np.exp(wrong[: len(rows)]) / np.exp(wrong[: len(rows)]).sum(axis=1, keepdims=True)

    from peerwise import wrap

    labels = np.argmin(wrong, axis=1)  # always wrong: the temperature runs to its bound
    learner = PeerwiseClassifier([wrap(model, name="flat", classes=range(4))]).fit(np.zeros((30, 1)), labels)
    assert learner.explain(np.zeros(1)).models[0].answer == wrong[0].argmax()


def test_what_cannot_be_explained_is_refused(learner):
    with pytest.raises(DataError, match="one row, got 2"):
        learner.explain(X[:2])
    with pytest.raises(NotFittedError):
        PeerwiseClassifier().explain(X[0])
    logits, y, _ = outputs(0, 20)
    with pytest.raises(PoolError, match="without a pool"):
        PeerwiseClassifier().fit_outputs(logits, y).explain(X[0])


def test_an_answer_can_be_opened_from_what_the_pool_says(learner):
    said = learner.pool_.outputs(X[:4])
    assert learner.explain_outputs(said[3:4], X[3:4]) == learner.explain(X[3])
    with pytest.raises(DataError, match="takes one row, got 4"):
        learner.explain_outputs(said, X[:4])


def test_an_answer_that_all_models_give_is_told_in_one_line():
    logits = np.zeros((30, 3, 2), dtype=np.float32)
    y = np.arange(30) % 2
    logits[np.arange(30), :, y] = 3.0
    learner = PeerwiseClassifier(own=[0]).fit_outputs(logits, y)
    text = str(learner.explain_outputs(logits[:1]))
    assert "all 3 models say 0" in text
    assert "competence" not in text, "a table of equal numbers says nothing"


def test_where_models_disagree_it_says_who_pulled_the_answer_where():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    logits = rng.normal(0, 0.5, (200, 3, 2)).astype(np.float32)
    logits[np.arange(200), 2, y] += 3.0
    learner = PeerwiseClassifier(own=[0]).fit_outputs(logits, y)
    row = int(np.flatnonzero(logits[:, 0].argmax(axis=1) != y)[0])
    opened = learner.explain_outputs(logits[row : row + 1])
    assert set(opened.influence) == set(learner.sites_)
    assert max(opened.influence, key=opened.influence.get) == "model-2"
    text = str(opened)
    assert f"own models alone: {1 - y[row]}" in text
    assert "pulled by: model-2 for it (+" in text
