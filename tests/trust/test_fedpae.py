"""FedPAE: diversity by hand, the choice against a search through all subsets, and what it promises."""

from __future__ import annotations

import importlib
import itertools
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from trust_cases import iris, iris_models, outputs, probabilities

from peerwise.checks import check_trust_learner
from peerwise.errors import BadOutputs, ConfigError, PoolError
from peerwise.trust.fedpae import FedPAE, _correlation, _determinant, _double_fault, _pairwise
from peerwise.trust.genetic import pareto_front
from peerwise.trust.simple import OwnOnly

X, Y = iris()
MODELS = iris_models()


def chosen(learner):
    return np.flatnonzero(learner.weights_).tolist()


# ---- diversity, worked out by hand -----------------------------------------------------------------------------------


def test_the_determinant_is_one_at_right_angles_and_zero_where_models_say_the_same():
    y = np.array([0, 0])
    across = np.array([[0.5, 0.5, 0.0], [0.8, 0.0, 0.2], [0.2, 0.4, 0.4]])  # besides class 0: two axes, the diagonal
    p = np.stack([across, across]).astype(np.float32)
    assert _determinant(p, y)(np.array([0, 1])) == pytest.approx(1)
    # unit vectors (1, 0) and (1, 1) / sqrt 2: cosine 1 / sqrt 2, determinant 1 - 1/2
    assert _determinant(p, y)(np.array([0, 2])) == pytest.approx(0.5)
    p[1, 1] = p[1, 0]  # the same in one of two rows
    assert _determinant(p, y)(np.array([0, 1])) == pytest.approx(0.5)
    assert _determinant(p, y)(np.array([0, 1, 2])) == 0  # three vectors in a plane


def test_double_faults_and_correlation_by_hand():
    y = np.array([0, 0, 1, 1])
    answers = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]])  # wrong: row 0; rows 0, 1, 2; never
    p = np.eye(2, dtype=np.float32)[answers]
    both = _pairwise(_double_fault(p, y))
    assert both(np.array([0, 1])) == pytest.approx(1 - 1 / 4)
    assert both(np.array([0, 1, 2])) == pytest.approx((3 / 4 + 1 + 1) / 3)
    alike = _pairwise(_correlation(p))
    # answers 1 0 1 1 and 1 1 0 1, as +1 and -1 about their means of a half: cosine (1 - 1 - 1 + 1) / 4
    assert alike(np.array([0, 1])) == pytest.approx(1)
    assert _pairwise(_correlation(p[:, [0, 0]]))(np.array([0, 1])) == pytest.approx(0)
    assert _pairwise(_correlation(np.stack([p[:, 0], 1 - p[:, 0]], 1)))(np.array([0, 1])) == pytest.approx(2)


# ---- the choice ------------------------------------------------------------------------------------------------------


def exhaustive(logits, y, diversity, own):
    """The pick from the front of all subsets."""
    p, (models, classes) = probabilities(logits.astype(float)).astype(np.float32), logits.shape[1:]
    right = logits.argmax(axis=2) == y[:, None]
    measure = _determinant(p, y) if diversity == "determinant" else _pairwise(_correlation(p))
    most = classes - 1 if diversity == "determinant" else models
    subsets = [np.array(s) for size in range(1, most + 1) for s in itertools.combinations(range(models), size)]
    worth = [(round(right[:, s].mean(), 9), round(measure(s), 9) if len(s) > 1 else 0.0) for s in subsets]
    front = [
        (s, w[1])
        for s, w in zip(subsets, worth, strict=True)
        if not any((v[0] >= w[0] and v[1] >= w[1]) and v != w for v in worth)
    ]
    if own:
        front.append((np.array(own), measure(np.array(own)) if len(own) > 1 else 0.0))
    accuracy = [(p[:, s].astype(float).mean(axis=1).argmax(axis=1) == y).mean() for s, _ in front]
    best = max(range(len(front)), key=lambda i: (accuracy[i], -len(front[i][0]), front[i][1]))
    return front[best][0].tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("diversity", ["determinant", "correlation"])
@pytest.mark.parametrize("own", [(), (0,), (1, 3)])
def test_the_choice_is_that_of_a_search_through_all_subsets(seed, diversity, own):
    logits, y, _ = outputs(seed, 61, models=6, classes=4)
    learner = FedPAE(own=own, generations=30, diversity=diversity, random_state=seed).fit_outputs(logits, y)
    assert chosen(learner) == exhaustive(logits, y, diversity, own)


@pytest.mark.parametrize("vote", ["hard", "soft"])
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 8), st.integers(1, 4), st.data())
def test_never_worse_than_the_own_models_on_the_rows_it_is_chosen_on(vote, seed, rows, models, classes, data):
    logits, y, _ = outputs(seed % 1000, rows, models=max(models, 1), classes=classes)
    own = data.draw(st.lists(st.integers(0, models - 1), min_size=1, max_size=models, unique=True))
    learner = FedPAE(own=own, vote=vote, population=6, generations=3, random_state=seed % 100).fit_outputs(logits, y)
    mine = (learner.predict_proba_outputs(logits).argmax(axis=1) == y).mean()
    alone = OwnOnly(own=own, vote=vote).fit_outputs(logits, y)
    assert mine >= (alone.predict_proba_outputs(logits).argmax(axis=1) == y).mean()
    size = len(chosen(learner))
    assert 1 <= size <= max(len(own), classes - 1 if classes > 2 else models)
    np.testing.assert_allclose(learner.weights_[learner.weights_ > 0], 1 / size)


def test_hard_votes_are_judged_as_they_are_counted():
    worse = 0
    for seed in range(30):
        logits, y, _ = outputs(seed, 30, models=6, skill=1.0)
        settings = {"own": [0, 1, 2], "vote": "hard"}
        chosen = FedPAE(**settings, population=8, generations=4, random_state=0).fit_outputs(logits, y)
        answers = [
            learner.predict_proba_outputs(logits).argmax(axis=1)
            for learner in (chosen, OwnOnly(**settings).fit_outputs(logits, y))
        ]
        worse += (answers[0] == y).sum() < (answers[1] == y).sum()
    assert worse == 0


def test_validation_rows_decide_where_there_are_any():
    logits, y, _ = outputs(0, 60, models=3)
    good, bad = logits.copy(), logits.copy()
    good[:, 0] = bad[:, 1] = 9 * np.eye(3)[y]
    good[:, 1:] = bad[:, [0, 2]] = 9 * np.eye(3)[(y + 1) % 3][:, None]
    few = FedPAE(generations=5, random_state=0)
    assert chosen(clone(few).fit_outputs(good, y)) == [0]
    assert chosen(clone(few).fit_outputs(good, y, validation=(bad, y))) == [1]


def test_two_classes_can_have_more_than_one_model():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    logits = rng.normal(size=(300, 5, 2)).astype(np.float32)
    logits[np.arange(300), :, y] += 1.5  # five models, each right apart from the others
    learner = FedPAE(random_state=0).fit_outputs(logits, y)
    assert len(chosen(learner)) > 1
    right = (logits.argmax(axis=2) == y[:, None]).mean(axis=0)
    assert (learner.predict_proba_outputs(logits).argmax(axis=1) == y).mean() > right.max()


def test_a_seed_repeats_and_nobody_elses_chance_is_used():
    logits, y, _ = outputs(0, 80, models=20, classes=6)
    before, state = random.getstate(), np.random.get_state()  # noqa: NPY002
    weights = [FedPAE(generations=2, random_state=seed).fit_outputs(logits, y).weights_ for seed in (3, 3)]
    np.testing.assert_array_equal(*weights)
    assert random.getstate() == before
    np.testing.assert_equal(np.random.get_state(), state)  # noqa: NPY002


def test_the_front_holds_nothing_that_is_beaten_and_keeps_to_the_size():
    rng = np.random.default_rng(0)
    worth = rng.random(12)

    def fitness(subset):
        return float(worth[subset].mean()), float(subset.sum())

    front = pareto_front(fitness, np.zeros(12, bool), 20, 30, 5, rng)
    sizes = [int(subset.sum()) for subset in front]
    assert len(set(sizes)) == len(front)
    assert max(sizes) == 5
    best = np.argsort(-worth)
    # the larger, the weaker: the best subset of each size is the mean of its strongest members
    for subset in front:
        assert set(np.flatnonzero(subset)) == set(best[: subset.sum()])


# ---- in the house ----------------------------------------------------------------------------------------------------


def test_the_contract_of_a_trust_learner():
    check_trust_learner(FedPAE(population=8, generations=3, random_state=0))


def test_with_a_pool_in_a_grid_search_and_kept(tmp_path):
    base = FedPAE(MODELS, population=6, generations=2, random_state=0)
    search = GridSearchCV(base, {"diversity": ["auto", "correlation"]}, cv=3, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.8
    learner = clone(base).fit(X[:100], Y[:100])
    learner.save(tmp_path / "bundle")
    loaded = FedPAE.load(tmp_path / "bundle")
    np.testing.assert_allclose(loaded.predict_proba(X), learner.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(learner.select(X), np.tile(learner.weights_ > 0, (150, 1)))


def test_without_the_search_it_is_imported_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr("peerwise.trust.fedpae", sys.modules["peerwise.trust.fedpae"])  # put back afterwards
    for module in ("fedpae", "genetic"):
        monkeypatch.delitem(sys.modules, f"peerwise.trust.{module}")
    monkeypatch.setitem(sys.modules, "deap", None)  # as where it is not installed
    fresh = importlib.import_module("peerwise.trust.fedpae")
    logits, y, _ = outputs(0, 20)
    with pytest.raises(ConfigError, match=r"deap is not installed.*pip install 'peerwise\[fedpae\]'"):
        fresh.FedPAE().fit_outputs(logits, y)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"population": 1}, "population=1: expected a whole number, at least 2"),
        ({"population": 4.0}, r"population=4\.0: expected a whole number"),
        ({"generations": -1}, "generations=-1: expected a whole number, at least 0"),
        ({"diversity": "angle"}, "diversity='angle': expected 'auto', 'determinant'"),
        ({"vote": "most"}, "vote='most'"),
        ({"random_state": "x"}, "random_state='x'"),
    ],
    ids=str,
)
def test_settings_that_cannot_work(setting, message):
    logits, y, _ = outputs(0, 20)
    with pytest.raises(ConfigError, match=message):
        FedPAE(**setting).fit_outputs(logits, y)


def test_what_else_is_refused():
    logits, y, _ = outputs(0, 20, classes=2)
    with pytest.raises(ConfigError, match=r"diversity='determinant' with 2 classes.*Use diversity='auto'"):
        FedPAE(diversity="determinant").fit_outputs(logits, y)
    with pytest.raises(PoolError, match="pool is empty"):
        FedPAE([]).fit(X, Y)
    logits[3, 1, 0] = np.inf
    with pytest.raises(BadOutputs, match="model 1 gives inf at row 3"):
        FedPAE().fit_outputs(logits, y)


def test_constant_models_and_more_models_than_rows_are_lived_with():
    flat = FedPAE(own=[1], population=6, generations=2, random_state=0).fit_outputs(
        np.zeros((9, 4, 3)), np.arange(9) % 3
    )
    assert flat.weights_.sum() == pytest.approx(1)
    logits, y, _ = outputs(0, 3, models=30)
    many = FedPAE(population=6, generations=2, random_state=0).fit_outputs(logits, y)
    assert 1 <= len(chosen(many)) <= 2
