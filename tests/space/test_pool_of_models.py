"""A pool: models by name over one label set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from peerwise import Pool, wrap
from peerwise.errors import BadOutputs, ClassMismatch, DataError, ModelError, PoolError

X, CODES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
Y = NAMES[CODES]
FRAME = pd.DataFrame(X, columns=["sepal length", "sepal width", "petal length", "petal width"])


@pytest.fixture(scope="module")
def models():
    first_two = CODES < 2
    return {
        "all": GaussianNB().fit(X, Y),
        "two": LogisticRegression(max_iter=500).fit(X[first_two], Y[first_two]),
    }


def test_classes_are_matched_by_name_and_a_missing_one_gets_zero(models):
    last_two = GaussianNB().fit(X[CODES > 0], Y[CODES > 0])
    pool = Pool({**models, "last": last_two})
    assert pool.classes.tolist() == NAMES.tolist()
    outputs = pool.outputs(X)
    assert outputs.shape == (150, 3, 3)
    np.testing.assert_allclose(outputs[:, 0], models["all"].predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(outputs[:, 2, 1:], last_two.predict_proba(X), atol=1e-6)
    assert (outputs[:, 1, 2] == 0).all()
    assert (outputs[:, 2, 0] == 0).all()


def test_the_order_of_classes_given_is_the_order_of_the_outputs(models):
    backwards = Pool(models, classes=NAMES[::-1])
    np.testing.assert_array_equal(backwards.outputs(X)[:, :, ::-1], Pool(models).outputs(X))


def test_a_missing_class_is_an_error_on_request(models):
    with pytest.raises(ClassMismatch, match=r"'two' predicts 2 classes, this site has 3 \(missing: 'virginica'\)"):
        Pool(models, missing="error")


def test_a_class_from_elsewhere_is_refused(models):
    with pytest.raises(ClassMismatch, match="'all' predicts 'virginica'"):
        Pool(models, classes=["setosa", "versicolor"])


def test_numbers_and_words_do_not_mix():
    with pytest.raises(ClassMismatch, match="different types"):
        Pool({"words": GaussianNB().fit(X, Y), "numbers": GaussianNB().fit(X, CODES)})


def test_two_models_of_one_name_are_refused(models):
    with pytest.raises(PoolError, match="two models are called 'mine'"):
        Pool([wrap(models["all"], name="mine"), wrap(models["two"], name="mine")])


@pytest.mark.parametrize("nothing", [[], {}, ()])
def test_an_empty_pool_is_refused(nothing):
    with pytest.raises(PoolError, match="empty"):
        Pool(nothing)


@pytest.mark.parametrize("odd", [3, "model.onnx", None])
def test_something_that_is_no_collection_is_refused(odd):
    with pytest.raises(PoolError, match="a list or a mapping"):
        Pool(odd)


def test_an_unfitted_model_is_refused_by_name():
    with pytest.raises(ModelError, match="'fresh' is not fitted"):
        Pool({"fresh": GaussianNB()})


def test_a_list_gets_names_and_a_wrapped_model_keeps_its_own(models):
    pool = Pool([models["all"], wrap(models["two"], name="mine"), models["all"]])
    assert pool.names == ["gaussiannb-0", "mine", "gaussiannb-2"]


def test_own_models_are_found_by_name_or_number(models):
    pool = Pool(models)
    assert [pool.column(own) for own in ("two", 1, -1, np.int64(0))] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("own", "message"), [("tow", "did you mean 'two'"), (2, "from 0 to 1"), (-3, "from 0"), (0.5, "0.5")]
)
def test_an_unknown_own_model_is_refused(models, own, message):
    with pytest.raises(PoolError, match=message):
        Pool(models).column(own)


def test_a_model_that_gives_nan_is_named():
    broken = wrap(lambda X: np.full((len(X), 2), np.nan), name="broken", classes=[0, 1])
    with pytest.raises(BadOutputs, match="broken"):
        Pool([broken]).outputs(X)


def test_a_model_that_gives_the_wrong_shape_is_named():
    broken = wrap(lambda X: np.full((len(X) + 1, 2), 0.5), name="broken", classes=[0, 1])
    with pytest.raises(BadOutputs, match="broken"):
        Pool([broken]).outputs(X)


def test_a_pool_of_a_pool_keeps_its_classes(models):
    pool = Pool(models, classes=[*NAMES, "unseen"])
    assert Pool(pool).classes.tolist() == pool.classes.tolist()


def test_a_class_given_twice_and_an_unknown_rule_are_refused(models):
    with pytest.raises(PoolError, match="every class once"):
        Pool(models, classes=[*NAMES, "setosa"])
    with pytest.raises(PoolError, match="missing='ignore'"):
        Pool(models, missing="ignore")


def test_clone_keeps_a_pool(models):
    pool = Pool(models)
    assert clone(pool) is pool


def test_a_pool_shows_its_models(models):
    assert "all" in repr(Pool(models))
    assert len(Pool(models)) == len(list(Pool(models))) == 2


@pytest.mark.parametrize("labels", [np.array([3, 5, 9]), np.array(["a", "b", "c"])], ids=["numbers", "names"])
@pytest.mark.parametrize(
    "ensemble",
    [
        BaggingClassifier(n_estimators=4, random_state=0),
        BaggingClassifier(n_estimators=4, max_features=2, random_state=0),
        RandomForestClassifier(4, random_state=0),
        ExtraTreesClassifier(4, random_state=0),
    ],
    ids=["bagging", "bagging over columns", "forest", "extra trees"],
)
def test_a_fitted_ensemble_is_a_pool_of_its_estimators(ensemble, labels):
    fitted = clone(ensemble).fit(X, labels[CODES])
    pool = Pool(fitted)
    assert len(pool) == 4
    assert pool.classes.tolist() == labels.tolist()
    np.testing.assert_allclose(pool.outputs(X).mean(axis=1), fitted.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("labels", [np.array([3, 5, 9]), np.array(["a", "b", "c"])], ids=["numbers", "names"])
@pytest.mark.parametrize(
    "ensemble",
    [
        VotingClassifier(
            [("bayes", GaussianNB()), ("gone", "drop"), ("tree", DecisionTreeClassifier())], voting="soft"
        ),
        StackingClassifier([("bayes", GaussianNB()), ("tree", DecisionTreeClassifier())]),
    ],
    ids=["voting", "stacking"],
)
@pytest.mark.filterwarnings("error")
def test_voting_and_stacking_are_pools_of_their_models(ensemble, labels):
    for rows in (X, FRAME):
        fitted = clone(ensemble).fit(rows, labels[CODES])
        pool = Pool(fitted)
        assert pool.names == ["bayes", "tree"]
        assert pool.classes.tolist() == labels.tolist()
        np.testing.assert_allclose(pool.outputs(rows)[:, 0], GaussianNB().fit(X, CODES).predict_proba(X), atol=1e-6)
        if isinstance(fitted, VotingClassifier):
            np.testing.assert_allclose(pool.outputs(rows).mean(axis=1), fitted.predict_proba(rows), atol=1e-6)


def test_models_that_were_fitted_before_stacking_keep_their_labels():
    ready = [("bayes", GaussianNB().fit(X, Y)), ("tree", DecisionTreeClassifier().fit(X, Y))]
    pool = Pool(StackingClassifier(ready, cv="prefit").fit(X, Y))
    assert [member.classes for member in pool] == [tuple(NAMES)] * 2


def test_one_model_is_told_to_go_into_a_list():
    with pytest.raises(PoolError, match=r"got GaussianNB. If it is a model, put it into a list: Pool\(\[model\]\)"):
        Pool(GaussianNB().fit(X, Y))
    with pytest.raises(PoolError, match="VotingClassifier holds no fitted classifiers"):
        Pool(VotingClassifier([("bayes", GaussianNB())]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "ensemble",
    [
        BaggingClassifier(n_estimators=3, random_state=0),
        BaggingClassifier(n_estimators=3, max_features=2, random_state=0),
        RandomForestClassifier(3, random_state=0),
        ExtraTreesClassifier(3, random_state=0),
        AdaBoostClassifier(n_estimators=3),
    ],
    ids=["bagging", "bagging over columns", "forest", "extra trees", "boosting"],
)
def test_an_ensemble_fitted_on_a_frame_is_asked_without_a_warning(ensemble):
    pool = Pool(clone(ensemble).fit(FRAME, Y))
    np.testing.assert_array_equal(pool.outputs(FRAME), pool.outputs(X))
    np.testing.assert_array_equal(pool.outputs(FRAME[FRAME.columns[::-1]]), pool.outputs(X))  # by name
    with pytest.raises(DataError, match="X lacks the column 'sepal length'"):
        pool.outputs(FRAME.rename(columns=str.upper))


def test_a_model_that_cannot_answer_is_named():
    pool = Pool({"narrow": GaussianNB().fit(X[:, :2], Y)})
    with pytest.raises(
        ModelError, match=r"'narrow' cannot answer these rows \(ValueError: X has 4 features.*leave the model"
    ):
        pool.outputs(X)
    assert pool.outputs(X[:0]).shape == (0, 1, 3)


def test_the_estimators_of_boosting_answer_with_its_labels():
    fitted = AdaBoostClassifier(n_estimators=3).fit(X, Y)
    assert [member.classes for member in Pool(fitted)] == [tuple(NAMES)] * 3


@pytest.mark.parametrize("ensemble", [BaggingClassifier(), GradientBoostingClassifier(n_estimators=2)])
def test_an_ensemble_without_fitted_classifiers_is_refused(ensemble):
    if isinstance(ensemble, GradientBoostingClassifier):
        ensemble.fit(X, Y)
    with pytest.raises(PoolError, match="holds no fitted classifiers: expected a fitted ensemble"):
        Pool(ensemble)
