"""Stacking over a pool: as scikit-learn stacks, how much each model counts, and what is kept without pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from peerwise.checks import check_trust_learner
from peerwise.checks.trust_learner import made_pool
from peerwise.errors import BadOutputs, ConfigError, DataError, ModelError, PoolError
from peerwise.models.folds import fold_rows
from peerwise.space import Pool
from peerwise.trust.base import Labelled
from peerwise.trust.stacking import FOLDS, Stacking, columns_of, permuted

SMALL = DecisionTreeClassifier(max_depth=3)


def real_pool(classes: int) -> tuple[dict[str, Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Three models fitted on the first half of real rows; the other half, and its labels."""
    X, y = load_breast_cancer(return_X_y=True) if classes == 2 else load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    half = len(y) // 2
    # None of them is surer than float32 logits can tell.
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.01)),
        "neighbours": KNeighborsClassifier(9),
        "tree": DecisionTreeClassifier(max_depth=2, min_samples_leaf=9, random_state=0),
    }
    return {name: model.fit(X[:half], y[:half]) for name, model in models.items()}, X[half:], y[half:], X[:half]


@pytest.mark.parametrize("classes", [2, 3])
def test_columns_and_answers_are_those_of_scikit_learns_stacking(classes: int) -> None:
    models, X, y, new = real_pool(classes)
    forest = RandomForestClassifier(30, random_state=5)
    ours = Stacking(models, meta=forest).fit(X, y)
    theirs = StackingClassifier(list(models.items()), forest, cv="prefit", stack_method="predict_proba").fit(X, y)
    columns = columns_of(np.log(np.maximum(ours.pool_.outputs(new), 1e-7)))
    assert np.allclose(columns, theirs.transform(new), atol=1e-6)
    apart = np.abs(ours.predict_proba(new) - theirs.predict_proba(new)).max(axis=1)
    # Our columns went through float32 logits: a value on the very edge of a split may fall to its other side.
    assert (apart < 1e-5).mean() > 0.97
    assert (ours.predict(new) == theirs.predict(new)).mean() > 0.99


@pytest.mark.parametrize("classes", [2, 3])
def test_impurity_shares_are_those_of_the_very_forest_summed_by_model(classes: int) -> None:
    models, X, y, _ = real_pool(classes)
    ours = Stacking(models, meta=RandomForestClassifier(30, random_state=5)).fit(X, y)
    columns = columns_of(np.log(np.maximum(ours.pool_.outputs(X), 1e-7).astype(np.float32)))
    twin = RandomForestClassifier(30, random_state=5).fit(columns, y)
    width = 1 if classes == 2 else classes
    expected = [twin.feature_importances_[m * width : (m + 1) * width].sum() for m in range(3)]
    assert np.allclose(ours.importances_, expected, atol=0.02)
    assert ours.importances_ is not None
    assert np.isclose(ours.importances_.sum(), 1)
    assert np.allclose(ours.trust(X), ours.importances_)


def test_permutation_importance_is_scikit_learns_for_one_column_a_model() -> None:
    models, X, y, _ = real_pool(2)
    pool = Pool(models)
    logits = np.log(np.maximum(pool.outputs(X), 1e-7)).astype(np.float32)
    meta = RandomForestClassifier(20, random_state=0).fit(columns_of(logits), y)
    ours = np.mean([permuted(meta, Labelled(logits, y), seed) for seed in range(6)], axis=0)
    theirs = permutation_importance(
        meta, columns_of(logits), y, scoring="balanced_accuracy", n_repeats=30, random_state=0
    )
    assert np.allclose(ours, theirs.importances_mean, atol=0.02)
    assert ours.argmax() == theirs.importances_mean.argmax()


def test_a_model_that_knows_the_answer_has_all_the_importance_and_noise_has_none() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    said = rng.dirichlet([1, 1], (300, 4))
    said[:, 2] = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    every_split_sees_all = RandomForestClassifier(20, max_features=None)
    learner = Stacking(own=[0], meta=every_split_sees_all, random_state=0).fit_outputs(said, y, kind="probabilities")
    assert learner.importances_ is not None
    assert learner.permutation_ is not None
    assert learner.importances_.tolist() == [0, 0, 1, 0]
    assert learner.permutation_[2] == pytest.approx(0.5, abs=0.08)  # a shuffled answer is a guess
    assert np.abs(np.delete(learner.permutation_, 2)).max() == 0


def test_without_validation_rows_permutation_is_measured_on_rows_the_meta_model_has_not_seen() -> None:
    """Noise alone: a forest knows its own rows by heart, so in-sample shuffling would look like a great loss."""
    rng = np.random.default_rng(1)
    said, y = rng.dirichlet([1, 1], (400, 3)).astype(np.float32), rng.integers(0, 2, 400)
    learner = Stacking(meta=RandomForestClassifier(20), random_state=0).fit_outputs(said, y, kind="probabilities")
    assert learner.permutation_ is not None
    assert np.abs(learner.permutation_).max() < 0.06
    in_sample = RandomForestClassifier(20, random_state=0).fit(said[:, :, 1], y)
    assert permuted(in_sample, Labelled(np.log(said), y), 0).min() > 0.1


def test_permutation_holds_out_whole_groups_so_that_a_known_patient_is_no_importance() -> None:
    """Models that say noise, but the same noise of all six rows of a patient: who is on both sides is recognised."""
    rng = np.random.default_rng(0)
    y, patient = np.repeat(rng.integers(0, 2, 60), 6), np.repeat(np.arange(60), 6)
    apart = np.repeat(rng.normal(size=(60, 3)), 6, axis=0) + 0.02 * rng.normal(size=(360, 3))
    logits = np.stack([-apart / 2, apart / 2], axis=2).astype(np.float32)
    told = Stacking(random_state=0).fit_outputs(logits, y, group=patient).permutation_
    split = Stacking(random_state=0).fit_outputs(logits, y).permutation_
    assert told is not None
    assert split is not None
    assert split.min() > 0.1
    assert told.max() < 0.06


def test_groups_that_are_not_one_a_row_are_refused() -> None:
    outputs, y = made_pool(30)
    for wrong in (np.zeros(29), np.zeros((30, 1)), 3):
        with pytest.raises(DataError, match=r"group has shape .*: expected \(30,\), one a row of the outputs"):
            Stacking(meta=SMALL, random_state=0).fit_outputs(outputs, y, group=wrong)


def test_with_validation_rows_permutation_is_measured_on_these() -> None:
    outputs, y = made_pool(60)
    other, other_y = made_pool(30, seed=9)
    learner = Stacking(meta=SMALL, random_state=3).fit_outputs(outputs, y, validation=(other, other_y))
    seed = learner._seed()
    meta = clone(SMALL).set_params(random_state=seed).fit(columns_of(outputs), y)
    assert learner.permutation_ is not None
    assert np.allclose(learner.permutation_, permuted(meta, Labelled(other, other_y), seed))


@pytest.mark.parametrize("meta", ["logistic", "boosting", LogisticRegression()])
def test_a_meta_model_without_impurity_has_permutation_importance_alone(meta: Any) -> None:
    outputs, y = made_pool(90)
    learner = Stacking(meta=meta, random_state=0).fit_outputs(outputs, y)
    assert learner.importances_ is None
    assert learner.permutation_ is not None
    positive = np.maximum(learner.permutation_, 0)
    assert np.allclose(learner.trust_outputs(outputs)[0], positive / positive.sum())


METAS = [SMALL, "logistic", ExtraTreesClassifier(5), GradientBoostingClassifier(n_estimators=3)]


@pytest.mark.parametrize("meta", METAS, ids=str)
def test_it_keeps_the_promises_of_a_trust_learner(meta: Any) -> None:
    check_trust_learner(Stacking(meta=meta, random_state=0))


@pytest.mark.slow
@pytest.mark.parametrize("meta", [None, "boosting"])
def test_the_usual_meta_models_keep_the_promises_too(meta: Any) -> None:
    check_trust_learner(Stacking(meta=meta, random_state=0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_scikit_learn_expects_of_an_estimator_is_there() -> None:
    found = check_estimator(Stacking(meta="logistic", random_state=0), on_skip=None, on_fail=None)
    assert {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"} == {}
    assert len(found) > 40


def test_rows_of_one_class_leave_the_own_models_to_answer_and_it_says_so() -> None:
    outputs, _ = made_pool(20)
    learner = Stacking(own=[1, 3]).fit_outputs(outputs, np.full(20, 2))
    assert learner.reason_ == "the rows hold one class only: the own models answer, all alike"
    votes = np.exp(outputs) / np.exp(outputs).sum(axis=2, keepdims=True)
    assert np.allclose(learner.predict_proba_outputs(outputs), votes[:, [1, 3]].mean(axis=1), atol=1e-6)
    decision = learner.decide_outputs(outputs)
    assert decision.fallback.all()
    assert decision.trust[0].tolist() == [0, 0.5, 0, 0.5]
    assert learner.importances_ is None
    assert not Stacking(own=[1], meta=SMALL).fit_outputs(*made_pool(20)).reason_


def test_a_class_without_rows_has_no_probability() -> None:
    outputs, y = made_pool(40)
    learner = Stacking(meta=SMALL, random_state=0).fit_outputs(outputs, np.where(y == 1, 0, y))
    found = learner.predict_proba_outputs(outputs)
    assert (found[:, 1] == 0).all()
    assert np.allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize(("rows", "models"), [(6, 40), (2, 3), (3, 1)])
def test_more_models_than_rows_and_a_pool_of_one_are_stacked(rows: int, models: int) -> None:
    outputs, y = made_pool(rows, models)
    learner = Stacking(meta=RandomForestClassifier(5), random_state=0).fit_outputs(outputs, y)
    assert learner.predict_proba_outputs(outputs).shape == (rows, 3)
    assert np.isclose(learner.trust_outputs(outputs)[0].sum(), 1)


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(PoolError):
        Stacking([]).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    with pytest.raises(BadOutputs, match="at least one of each"):
        Stacking().fit_outputs(np.zeros((4, 0, 2)), [0, 1, 0, 1])


def test_nothing_fitted_is_kept_but_an_onnx_file_and_it_answers_the_same(tmp_path: Path) -> None:
    models, X, y, new = real_pool(2)
    learner = Stacking(models, meta=RandomForestClassifier(7, random_state=0)).fit(X, y)
    learner.save(tmp_path)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"sklearn" not in data
            assert not data.startswith((b"\x80\x04", b"\x80\x05"))
    assert json.loads((tmp_path / "bundle.json").read_text())
    again = Stacking.load(tmp_path)
    assert np.array_equal(again.predict_proba(new), learner.predict_proba(new))
    assert np.array_equal(again.importances_, learner.importances_)
    assert np.array_equal(again.permutation_, learner.permutation_)


def test_the_meta_model_can_be_tuned_by_grid_search() -> None:
    models, X, y, _ = real_pool(2)
    search = GridSearchCV(Stacking(Pool(models), meta=DecisionTreeClassifier()), {"meta__max_depth": [1, 2]}, cv=2)
    search.fit(X, y)
    assert search.best_params_["meta__max_depth"] in (1, 2)


def test_one_random_state_gives_one_forest_and_another_gives_another() -> None:
    outputs, y = made_pool(60)
    one, two, other = (
        Stacking(meta=RandomForestClassifier(5), random_state=seed).fit_outputs(outputs, y) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.predict_proba_outputs(outputs), two.predict_proba_outputs(outputs))
    assert not np.array_equal(one.predict_proba_outputs(outputs), other.predict_proba_outputs(outputs))


def test_what_cannot_be_a_meta_model_is_refused_by_name() -> None:
    outputs, y = made_pool(20)
    with pytest.raises(ConfigError, match="unknown meta-model 'forrest': did you mean 'forest'"):
        Stacking(meta="forrest").fit_outputs(outputs, y)
    with pytest.raises(ConfigError, match="meta=3: expected one of forest, logistic, boosting, or a scikit-learn"):
        Stacking(meta=3).fit_outputs(outputs, y)
    with pytest.raises(ModelError, match="RidgeClassifier has no predict_proba"):
        Stacking(meta=RidgeClassifier()).fit_outputs(outputs, y)

    class Home(VotingClassifier):
        """No library has a converter of it."""

    with pytest.raises(ModelError, match="Home cannot be written as ONNX"):
        Stacking(meta=Home([("tree", SMALL)], voting="soft")).fit_outputs(outputs, y)


def test_folds_that_lack_a_second_class_are_no_rows_to_measure_on() -> None:
    outputs, _ = made_pool(2)
    learner = Stacking(meta=SMALL, random_state=0).fit_outputs(outputs, [0, 1])
    assert all(len(rest) == 1 for rest, _ in fold_rows(np.array([0, 1]), FOLDS, 0))
    assert learner.permutation_ is None
    assert learner.importances_ is not None
