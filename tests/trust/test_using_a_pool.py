"""PeerwiseClassifier and its companions as scikit-learn classifiers over a pool of fitted models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from trust_cases import LEARNERS, TINY_GRAPH, iris, iris_models, outputs

from peerwise import BestSingle, FedDES, OwnOnly, PeerwiseClassifier, Pool, UniformAverage, wrap
from peerwise.data.rows import Sequences

X, Y = iris()
MODELS = iris_models()


@pytest.mark.parametrize(
    "pool",
    [MODELS, list(MODELS.values()), Pool(MODELS), [wrap(m) for m in MODELS.values()]],
    ids=["dict", "list", "Pool", "wrapped"],
)
def test_any_collection_of_fitted_models_is_a_pool(pool):
    learner = PeerwiseClassifier(pool).fit(X, Y)
    assert learner.trust(X[:7]).shape == learner.competence(X[:7]).shape == learner.select(X[:7]).shape == (7, 3)
    assert learner.predict_proba(X[:7]).shape == (7, 3)
    assert set(learner.predict(X)) <= set(learner.classes_) == {"setosa", "versicolor", "virginica"}
    assert learner.score(X, Y) > 0.6
    np.testing.assert_array_equal(learner.select(X), learner.trust(X) > 0)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_answers_with_the_labels_of_the_pool(name):
    learner = clone(LEARNERS[name]).set_params(pool=MODELS, own=["bayes"]).fit(X, Y, validation=(X[:30], Y[:30]))
    probabilities = learner.predict_proba(X)
    np.testing.assert_array_equal(learner.predict(X), learner.classes_[probabilities.argmax(axis=1)])
    assert learner.own_ == [1]
    assert learner.model_names_ == ["logistic", "bayes", "forest"]


def test_labels_may_come_in_any_container():
    expected = UniformAverage(MODELS).fit(X, Y).predict(X)
    for labels in (Y.tolist(), pd.Series(Y), Y.astype(object)):
        np.testing.assert_array_equal(UniformAverage(MODELS).fit(X, labels).predict(X), expected)
    np.testing.assert_array_equal(UniformAverage(MODELS).fit(X.tolist(), Y).predict(X.tolist()), expected)


def frame(rows=150):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(X[:rows].astype(float), columns=["a", "b", "c", "d"])
    table["colour"] = np.where(Y[:rows] == "setosa", "red", rng.choice(["green", "blue"], rows))
    table.loc[::5, "b"] = np.nan
    table.loc[::7, "colour"] = None
    return table


@pytest.mark.parametrize("features", ["decision", "input", "both"])
def test_data_frames_with_missing_values_and_odd_indices(features):
    table = frame()
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    table["colour"] = table["colour"].astype(object).where(table["colour"].notna(), np.nan)
    pool = {
        name: make_pipeline(make_column_transformer((numbers, list("abcd")), (words, ["colour"])), model).fit(table, Y)
        for name, model in {"lr": LogisticRegression(), "rf": RandomForestClassifier(5, random_state=0)}.items()
    }
    learner = FedDES(pool, features=features, **TINY_GRAPH).fit(table, Y, validation=(table[:20], Y[:20]))
    usual = learner.predict_proba(table)
    assert learner.score(table, Y) > 0.8
    for index in (np.arange(150) + 0.5, pd.date_range("2020", periods=150), [f"p{i}" for i in range(150)]):
        np.testing.assert_allclose(learner.predict_proba(table.set_index(pd.Index(index))), usual)
    many = pd.concat([table] * 3)  # more rows than are answered at a time, with an index that repeats
    np.testing.assert_allclose(learner.predict_proba(many), np.tile(usual, (3, 1)), atol=1e-6)
    assert learner.explain(table.iloc[3]).answer == learner.predict(table[3:4])[0]


def test_images_and_sequences_can_be_inputs():
    rng = np.random.default_rng(0)
    logits, y, _ = outputs(0, 40)
    images = rng.integers(0, 255, (40, 1, 4, 4)).astype(np.uint8)
    sequences = Sequences(rng.normal(size=(40, 2)).astype(np.float32), rng.normal(size=(40, 3, 2)).astype(np.float32))
    for rows in (images, sequences):
        learner = FedDES(features="both", **TINY_GRAPH).fit_outputs(logits, y, X=rows)
        assert learner.predict_proba_outputs(logits[:5], rows[:5]).shape == (5, 3)


def test_torch_models_and_functions_share_a_pool():
    net = torch.nn.Linear(4, 2)
    first = wrap(net, name="net", classes=["setosa", "virginica"])
    second = wrap(lambda rows: np.full((len(rows), 2), 0.5), name="coin", classes=["virginica", "versicolor"])
    learner = PeerwiseClassifier([first, second]).fit(X, Y)
    assert learner.predict_proba(X[:3]).shape == (3, 3)


def test_out_of_fold_outputs_of_own_models_change_what_is_learned():
    held_out = cross_val_predict(clone(MODELS["bayes"]), X, Y, method="predict_proba")[:, None]
    with_them = PeerwiseClassifier(MODELS, own=["bayes"]).fit(X, Y, own_outputs=held_out)
    without = PeerwiseClassifier(MODELS, own=["bayes"]).fit(X, Y)
    assert not np.array_equal(with_them.space_.correct[:, 1], without.space_.correct[:, 1])
    np.testing.assert_array_equal(with_them.space_.correct[:, 2], without.space_.correct[:, 2])


def test_grid_search_slices_out_of_fold_outputs_like_any_fit_parameter():
    held_out = cross_val_predict(clone(MODELS["bayes"]), X, Y, method="predict_proba")[:, None]
    search = GridSearchCV(PeerwiseClassifier(MODELS, own=["bayes"]), {"k": [1, 5]}, cv=3, error_score="raise")
    search.fit(X, Y, own_outputs=held_out)
    assert search.best_params_["k"] in (1, 5)
    assert search.best_estimator_.own_ == [1]
    assert search.predict(X[:2]).shape == (2,)


def test_cross_validation_over_a_pool():
    assert cross_val_score(UniformAverage(MODELS), X, Y, cv=3, error_score="raise").mean() > 0.6


@pytest.mark.parametrize("pool", [MODELS, list(MODELS.values()), Pool(MODELS)])
def test_clone_keeps_the_fitted_pool_and_nothing_that_was_learned(pool):
    learner = PeerwiseClassifier(pool, own=["bayes"] if isinstance(pool, dict) else [1], k=2).fit(X[:30], Y[:30])
    twin = clone(learner)
    assert twin.pool is pool
    assert twin.own == learner.own
    assert twin.own is not learner.own
    assert twin.k == 2
    assert not hasattr(twin, "classes_")
    assert twin.set_params(k=1).fit(X, Y).space_.k == 1


def test_clone_keeps_metadata_requests():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        learner = PeerwiseClassifier(MODELS).set_fit_request(own_outputs=True)
        assert clone(learner).get_metadata_routing().fit.requests["own_outputs"] is True


def test_without_a_pool_three_models_of_the_rows_are_made():
    rows = X.astype(float).copy()
    rows[::4, 1] = np.nan
    learner = PeerwiseClassifier().fit(rows, Y)
    assert learner.model_names_ == ["logistic", "forest", "bayes"]
    assert learner.own_ == [0, 1, 2]
    assert learner.score(rows, Y) > 0.9
    assert OwnOnly().fit(rows, Y).score(rows, Y) > 0.9


@pytest.mark.parametrize("learner", [PeerwiseClassifier(), BestSingle()])
@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_without_a_pool_few_rows_are_enough(learner, rows):
    learner = clone(learner).fit(X[:rows], Y[:rows])
    np.testing.assert_allclose(learner.predict_proba(X).sum(axis=1), 1)


def test_without_a_pool_inputs_that_say_nothing_are_enough():
    for rows in (np.ones((20, 3)), np.full((20, 3), np.nan)):
        learner = PeerwiseClassifier().fit(rows, np.arange(20) % 2)
        assert np.isfinite(learner.predict_proba(rows)).all()


def test_one_class_gives_that_class():
    learner = PeerwiseClassifier().fit(X[:10], ["only"] * 10)
    assert set(learner.predict(X)) == {"only"}


@pytest.mark.parametrize("features", ["decision", "both"])
def test_validation_given_absent_or_empty(features):
    make = {**TINY_GRAPH, "features": features, "epochs": 3, "fixed_epochs": 2}
    assert len(FedDES(MODELS, **make).fit(X, Y, validation=(X[:20], Y[:20])).training_.scores) == 3
    for nothing in (None, (X[:0], Y[:0])):
        assert FedDES(MODELS, **make).fit(X, Y, validation=nothing).training_.epochs == 2


def test_fitting_again_forgets_the_pool_of_before():
    learner = UniformAverage(MODELS).fit(X, Y)
    logits, y, _ = outputs(0, 20, models=5)
    learner.fit_outputs(logits, y)
    with pytest.raises(ValueError, match="without a pool"):
        learner.predict(X)
    learner.fit(X, Y)
    assert learner.predict(X[:1]).shape == (1,)


def test_what_was_learned_from_outputs_without_inputs_uses_the_decision_vector():
    logits, y, _ = outputs(0, 30)
    learner = FedDES(features="input", **TINY_GRAPH).fit_outputs(logits, y)
    plain = FedDES(features="decision", **TINY_GRAPH).fit_outputs(logits, y)
    np.testing.assert_array_equal(learner.predict_proba_outputs(logits), plain.predict_proba_outputs(logits))


def test_a_random_state_object_is_accepted():
    learner = FedDES(MODELS, **{**TINY_GRAPH, "random_state": np.random.RandomState(0)})
    assert learner.fit(X, Y).predict(X[:1]).shape == (1,)
