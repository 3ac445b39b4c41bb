"""Out-of-fold predictions: honest columns for a site's own models."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_rows import cancer_with_gaps, wine

from peerwise.data.rows import Rows
from peerwise.models import find_recipe, out_of_fold
from peerwise.models.folds import fold_rows, inner_validation
from peerwise.models.recipe import Fitted, Recipe

labels = st.lists(st.integers(0, 3), min_size=2, max_size=60).map(lambda y: np.array(y, dtype=np.int64))


@settings(max_examples=100, deadline=None)
@given(y=labels, folds=st.integers(2, 7), seed=st.integers(0, 5))
def test_every_row_is_held_out_exactly_once(y, folds, seed):
    parts = fold_rows(y, folds, seed)
    assert sorted(np.concatenate([held for _, held in parts])) == list(range(len(y)))
    for fitting, held in parts:
        assert sorted([*fitting, *held]) == list(range(len(y)))
        assert len(fitting)


@settings(max_examples=100, deadline=None)
@given(y=labels, seed=st.integers(0, 5))
def test_inner_validation_takes_a_fifth_and_keeps_the_rest(y, seed):
    kept, inner = inner_validation(y, seed)
    assert sorted([*kept, *inner]) == list(range(len(y)))
    assert len(inner) == max(1, round(0.2 * len(y)))
    assert len(kept)


def test_folds_are_stratified_where_possible():
    y = np.array([0] * 40 + [1] * 10)
    assert [int(y[held].sum()) for _, held in fold_rows(y, 5, 0)] == [2] * 5
    assert len(fold_rows(np.array([0] * 40 + [1] * 3), 5, 0)) == 5


def test_a_rows_own_label_never_reaches_its_prediction():
    rows, features = cancer_with_gaps()
    y = rows.y[:80].copy()
    y[0] = 2  # a class of one row: plain folds, which do not depend on the labels
    first = out_of_fold(find_recipe("logistic"), Rows(rows.X[:80], y), classes=3, features=features, seed=0)
    _, held = fold_rows(y, 5, 0)[1]
    other = y.copy()
    other[held] = 1 - other[held].clip(0, 1)
    second = out_of_fold(find_recipe("logistic"), Rows(rows.X[:80], other), classes=3, features=features, seed=0)
    np.testing.assert_array_equal(first.logits[held], second.logits[held])
    rest = np.setdiff1d(np.arange(80), held)
    assert not np.array_equal(first.logits[rest], second.logits[rest])
    assert (first.logits.argmax(1) == y).mean() > 0.85


class _Spy(Fitted):
    best_epoch = 3

    def predict_logits(self, X):
        return np.zeros((len(X), 2), dtype=np.float32)

    def to_onnx(self):
        return b""


def test_the_held_out_fold_never_stops_training():
    X = np.arange(50, dtype=np.float32)[:, None]
    y = np.arange(50) % 2
    calls = []

    def fit(train, val, **options):
        calls.append((set(train.X[:, 0]), set(val.X[:, 0]), options["seed"]))
        return _Spy()

    result = out_of_fold(Recipe("spy", "table", "", fit, by_epochs=True), Rows(X, y), classes=2, seed=4)
    for (train, val, _), (_, held) in zip(calls, fold_rows(y, 5, 4), strict=True):
        assert not (train | val) & set(X[held, 0])
        assert not train & val
        assert len(train) == 32
        assert len(val) == 8
    assert result.best_epochs == [3] * 5
    assert result.max_epochs == 3
    assert len({seed for *_, seed in calls}) == 5


def test_models_without_epochs_use_all_fitting_rows():
    sizes = []

    def fit(train, val, **_):
        sizes.append((len(train), val))
        return _Spy()

    out_of_fold(Recipe("spy", "table", "", fit), Rows(np.zeros((10, 1)), np.arange(10) % 2), classes=2, seed=0)
    assert sizes == [(8, None)] * 5


@pytest.mark.parametrize("name", ["logistic", "mlp"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_fewer_rows_than_folds_work(name, n):
    rows = wine().take(np.arange(n) * 60 % 178)
    recipe = find_recipe(name)
    fast = replace(recipe, fit=lambda *a, **k: recipe.fit(*a, **{**k, "max_epochs": 2}))
    result = out_of_fold(fast, rows, classes=3, seed=0)
    assert result.logits.shape == (n, 3)
    assert np.isfinite(result.logits).all()
    assert result.max_epochs is None if n == 1 or name == "logistic" else result.max_epochs >= 1


def test_nets_report_their_best_epochs_and_seeds_repeat():
    rows = wine().take(slice(0, 178, 3))
    first, second = (out_of_fold(find_recipe("mlp"), rows, classes=3, folds=3, seed=1) for _ in range(2))
    assert len(first.best_epochs) == 3
    assert min(first.best_epochs) >= 1
    np.testing.assert_array_equal(first.logits, second.logits)


def patients(rng: np.random.Generator, count: int = 40, each: int = 5) -> Rows:
    """Near-identical rows of each patient, whose label is pure chance: nothing can be learned about a new patient."""
    group = np.repeat(np.arange(count), each)
    centre = rng.normal(size=(count, 4))
    X = (centre[group] + 0.01 * rng.normal(size=(len(group), 4))).astype(np.float32)
    return Rows(X, rng.integers(0, 2, count)[group], group)


def test_a_patient_is_never_in_a_fold_and_outside_it() -> None:
    rows = patients(np.random.default_rng(0))
    held = np.zeros(len(rows), int)
    for rest, fold in fold_rows(rows.y, 5, 0, rows.group):
        assert not set(rows.group[rest]) & set(rows.group[fold])
        held[fold] += 1
    assert (held == 1).all()
    kept, inner = inner_validation(rows.y, 0, rows.group)
    assert len(inner)
    assert not set(rows.group[kept]) & set(rows.group[inner])


def test_out_of_fold_answers_do_not_recognise_a_patient() -> None:
    rows = patients(np.random.default_rng(1), count=120)
    seen = out_of_fold(find_recipe("boosting"), Rows(rows.X, rows.y), classes=2, seed=0).logits.argmax(axis=1)
    unseen = out_of_fold(find_recipe("boosting"), rows, classes=2, seed=0).logits.argmax(axis=1)
    assert np.mean(seen == rows.y) > 0.9
    assert np.mean(unseen == rows.y) < 0.65


def test_one_patient_has_no_folds() -> None:
    rows = patients(np.random.default_rng(2), count=1)
    assert fold_rows(rows.y, 5, 0, rows.group) == []
    assert len(inner_validation(rows.y, 0, rows.group)[1]) == 0


def test_folds_of_a_known_length_use_all_their_rows_for_as_many_steps() -> None:
    X = np.arange(60, dtype=np.float32)[:, None]
    calls = []

    def fit(train, val, **options):
        calls.append((set(train.X[:, 0]), val, options["max_epochs"]))
        return _Spy()

    spy = Recipe("spy", "table", "", fit, by_epochs=True)
    out_of_fold(spy, Rows(X, np.arange(60) % 2), classes=2, folds=3, seed=4, max_epochs=50, epochs=8)
    for (train, val, longest), (fitting, held) in zip(calls, fold_rows(np.arange(60) % 2, 3, 4), strict=True):
        assert train == set(X[fitting, 0])
        assert not train & set(X[held, 0])
        assert val is None
        assert longest == 12
