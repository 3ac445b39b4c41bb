"""Every dynamic rule and FedPAE over pools that do not fit: an answer, or a refusal that names the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from dynamic_reference import RULES
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from trust_cases import iris

from peerwise import wrap
from peerwise.errors import BadOutputs, ClassMismatch, DataError, ModelError, PoolError
from peerwise.trust.fedpae import FedPAE

X, Y = iris()
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
FRAME = pd.DataFrame(X, columns=NAMES)
KNOWN, ASKED = slice(50, 110), slice(110, 150)
GOOD = {"bayes": GaussianNB().fit(X[:50], Y[:50]), "tree": DecisionTreeClassifier(max_depth=2).fit(X[:50], Y[:50])}
FRAMED = {name: type(model)().fit(FRAME[:50], Y[:50]) for name, model in GOOD.items()}
LEARNERS = {**RULES, "FedPAE": lambda pool: FedPAE(pool, population=4, generations=2, random_state=0)}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def fitted(name, pool, rows=X):
    return LEARNERS[name](pool).fit(rows[KNOWN], Y[KNOWN])


@every_learner
def test_a_model_of_other_classes(name):
    lilies = LogisticRegression(max_iter=500).fit(X[:50], np.where(Y[:50] == "setosa", "lily", Y[:50]))
    learner = fitted(name, {**GOOD, "lilies": lilies})
    assert learner.classes_.tolist() == ["lily", "setosa", "versicolor", "virginica"]
    assert learner.score(X[ASKED], Y[ASKED]) > 0.8
    numbers = GaussianNB().fit(X[:50], np.unique(Y[:50], return_inverse=True)[1])
    with pytest.raises(ClassMismatch, match="of different types"):
        fitted(name, {**GOOD, "numbers": numbers})
    only_lilies = {"lilies": LogisticRegression().fit(X[:50], np.where(Y[:50] == "setosa", "lily", "rose"))}
    with pytest.raises(DataError, match="which no model of the pool knows"):
        fitted(name, only_lilies)


@every_learner
def test_features_of_another_number_name_or_type(name):
    narrow = GaussianNB().fit(X[:50, :2], Y[:50])
    with pytest.raises(
        ModelError, match=r"model 'narrow' cannot answer these rows \(ValueError.*X has 4 .*Pass X with"
    ):
        fitted(name, {**GOOD, "narrow": narrow})
    learner = fitted(name, FRAMED, FRAME)
    renamed = FRAME.rename(columns=str.upper)
    for rows, said in (
        (renamed, "feature names should match"),
        (FRAME.astype(object).assign(a="text"), "feature names"),
    ):
        with pytest.raises(ModelError, match=rf"model 'bayes' cannot answer these rows \(ValueError.*{said}"):
            learner.predict(rows)
    with pytest.raises(ModelError, match=r"model 'bayes' cannot answer these rows \(ValueError.*could not convert"):
        learner.predict(FRAME.assign(**{NAMES[0]: "text"}))


@every_learner
def test_a_model_that_always_says_the_same_is_no_hindrance(name):
    constant = wrap(lambda rows: np.tile([0.2, 0.3, 0.5], (len(rows), 1)), name="constant", classes=sorted(set(Y)))
    learner = fitted(name, [*(wrap(model, name=each) for each, model in GOOD.items()), constant])
    assert learner.score(X[ASKED], Y[ASKED]) > 0.8


@every_learner
def test_a_model_that_gives_no_numbers(name):
    broken = wrap(lambda rows: np.full((len(rows), 2), np.nan), name="broken", classes=["setosa", "virginica"])
    with pytest.raises(BadOutputs, match="'broken' returned a non-finite value in 60 of 60 rows"):
        fitted(name, [wrap(GOOD["bayes"], name="bayes"), broken])


@every_learner
def test_a_pool_of_one_and_of_none(name):
    learner = fitted(name, {"bayes": GOOD["bayes"]})
    np.testing.assert_array_equal(learner.trust(X[ASKED]), 1)
    np.testing.assert_array_equal(learner.predict(X[ASKED]), GOOD["bayes"].predict(X[ASKED]))
    with pytest.raises(PoolError, match="pool is empty: expected at least one fitted model"):
        fitted(name, [])


@every_learner
def test_more_models_than_rows(name):
    rng = np.random.default_rng(0)
    draws = [rng.choice(50, 30) for _ in range(20)]
    trees = [DecisionTreeClassifier(max_depth=2).fit(X[rows], Y[rows]) for rows in draws]
    learner = LEARNERS[name](trees).fit(X[50:53], Y[50:53])
    assert learner.trust(X[ASKED]).shape == (40, 20)
    assert learner.score(X[ASKED], Y[ASKED]) > 0.6


@every_learner
@pytest.mark.parametrize("rows", [X, FRAME], ids=["array", "frame"])
def test_no_rows(name, rows):
    pool = GOOD if rows is X else FRAMED
    with pytest.raises(DataError, match="y is empty: expected at least one labelled row"):
        LEARNERS[name](pool).fit(rows[:0], Y[:0])
    learner = fitted(name, pool, rows)
    assert learner.predict(rows[:0]).shape == (0,)
    assert learner.predict_proba(rows[:0]).shape == (0, 3)
