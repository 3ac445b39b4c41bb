"""Bad input and bad settings are refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from trust_cases import LEARNERS, TINY_GRAPH, iris, iris_models, outputs, probabilities

from peerwise import (
    BestSingle,
    DecisionMLP,
    FedDES,
    NeighbourhoodAccuracy,
    OwnOnly,
    PeerwiseClassifier,
    UniformAverage,
    wrap,
)
from peerwise.errors import BadOutputs, ConfigError, DataError, ModelError, PoolError

X, Y = iris()
MODELS = iris_models()
LOGITS, CODES, INPUTS = outputs(0, 30)
every_learner = pytest.mark.parametrize("name", LEARNERS)


@every_learner
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_outputs(name, value):
    bad = LOGITS.copy()
    bad[7, 2, 1] = value
    with pytest.raises(BadOutputs, match=f"model 2 gives {value} at row 7"):
        clone(LEARNERS[name]).fit_outputs(bad, CODES, INPUTS)
    learner = clone(LEARNERS[name]).fit_outputs(LOGITS, CODES, INPUTS)
    with pytest.raises(BadOutputs, match="model 2"):
        learner.trust_outputs(bad, INPUTS)
    with pytest.raises(BadOutputs, match="validation outputs: model 2"):
        clone(LEARNERS[name]).fit_outputs(LOGITS, CODES, INPUTS, validation=(bad, CODES, INPUTS))


@pytest.mark.parametrize("shape", [(30, 3), (30, 3, 3), (30, 4, 2), (30, 4, 3, 1)])
def test_outputs_of_another_shape_than_in_fit(shape):
    learner = UniformAverage().fit_outputs(LOGITS, CODES)
    for ask in (learner.trust_outputs, learner.predict_proba_outputs, learner.decide_outputs):
        with pytest.raises(BadOutputs, match="shape"):
            ask(np.zeros(shape))


@pytest.mark.parametrize(
    ("labels", "message"), [(-1, "label -1 at row 3"), (3, "label 3 at row 3"), (0.5, "0.5 at row 3")]
)
def test_negative_unknown_and_odd_labels_of_outputs(labels, message):
    y = CODES.astype(float if labels == 0.5 else int)
    y[3] = labels
    with pytest.raises(DataError, match=message):
        FedDES(**TINY_GRAPH).fit_outputs(LOGITS, y)
    with pytest.raises(DataError, match=f"validation y .*{message}"):
        FedDES(**TINY_GRAPH).fit_outputs(LOGITS, CODES, validation=(LOGITS, y))


def test_an_unknown_label_of_a_pool():
    y = Y.astype(object).copy()
    y[9] = "daisy"
    with pytest.raises(DataError, match="'daisy' at row 9"):
        PeerwiseClassifier(MODELS).fit(X, y)
    with pytest.raises(DataError, match="validation y holds 'daisy'"):
        PeerwiseClassifier(MODELS).fit(X, Y, validation=(X, y))


def test_numbers_of_rows_that_do_not_match():
    with pytest.raises(DataError, match=r"y has shape \(149,\): expected \(150,\)"):
        PeerwiseClassifier(MODELS).fit(X, Y[1:])
    with pytest.raises(DataError, match=r"y has shape \(29,\)"):
        PeerwiseClassifier().fit_outputs(LOGITS, CODES[1:])
    with pytest.raises(DataError, match="X has 29 rows: expected 30"):
        FedDES(features="both").fit_outputs(LOGITS, CODES, X=INPUTS[1:])
    with pytest.raises(DataError, match="validation X has 29 rows"):
        FedDES(features="both").fit_outputs(LOGITS, CODES, X=INPUTS, validation=(LOGITS, CODES, INPUTS[1:]))
    learner = FedDES(features="both", **TINY_GRAPH).fit_outputs(LOGITS, CODES, X=INPUTS)
    with pytest.raises(DataError, match="X has 29 rows"):
        learner.trust_outputs(LOGITS, INPUTS[1:])


def test_no_rows():
    with pytest.raises(DataError, match="y is empty"):
        PeerwiseClassifier().fit_outputs(LOGITS[:0], CODES[:0])
    with pytest.raises(ValueError):
        PeerwiseClassifier(MODELS).fit(X[:0], Y[:0])


@pytest.mark.parametrize("nothing", [[], {}])
@every_learner
def test_an_empty_pool(name, nothing):
    with pytest.raises(PoolError, match="pool is empty"):
        clone(LEARNERS[name]).set_params(pool=nothing).fit(X, Y)


def test_an_unfitted_model():
    with pytest.raises(ModelError, match="'new' is not fitted"):
        PeerwiseClassifier({"new": GaussianNB()}).fit(X, Y)


def test_a_model_that_gives_nan():
    broken = wrap(lambda rows: np.full((len(rows), 2), np.nan), name="broken", classes=["setosa", "virginica"])
    with pytest.raises(BadOutputs, match="broken"):
        PeerwiseClassifier([wrap(MODELS["bayes"]), broken]).fit(X, Y)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (["byes"], "did you mean 'bayes'"),
        ([3], "from 0 to 2"),
        ([-4], "from 0 to 2"),
        ("bayes", r"own=\['bayes'\]"),
        (0, r"own=\[0\]"),
        (["bayes", 1], "once"),
    ],
)
def test_unknown_and_odd_own_models(own, message):
    with pytest.raises(PoolError, match=message):
        PeerwiseClassifier(MODELS, own=own).fit(X, Y)


def test_own_models_of_outputs():
    for own in ([4], ["bayes"], [0, 0], 1):
        with pytest.raises(PoolError, match="own"):
            UniformAverage(own=own).fit_outputs(LOGITS, CODES)
    with pytest.raises(PoolError, match="at least one own model"):
        OwnOnly().fit_outputs(LOGITS, CODES)


def test_out_of_fold_outputs_of_the_wrong_shape():
    good = np.full((150, 1, 3), 1 / 3)
    for bad in (good[1:], good[:, 0], good[:, :, :2] * 1.5, np.repeat(good, 2, axis=1)):
        with pytest.raises(BadOutputs, match="own_outputs have shape"):
            PeerwiseClassifier(MODELS, own=["bayes"]).fit(X, Y, own_outputs=bad)
    with pytest.raises(BadOutputs, match="Name the own models"):
        PeerwiseClassifier(MODELS).fit(X, Y, own_outputs=good)
    with pytest.raises(BadOutputs, match="own_outputs: model 0"):
        PeerwiseClassifier(MODELS, own=["bayes"]).fit(X, Y, own_outputs=good * 2)
    with pytest.raises(PoolError, match="without a pool"):
        PeerwiseClassifier().fit(X, Y, own_outputs=good)


@pytest.mark.parametrize(
    "setting",
    [
        {"k": 0},
        {"k": 2.5},
        {"k": True},
        {"classifiers": 0},
        {"features": "x"},
        {"membership": "hard"},
        {"min_positives": -1},
        {"vote": "weighted"},
        {"weights": "softmax"},
        {"hidden": 0},
        {"heads": 0},
        {"dropout": 1},
        {"dropout": -0.1},
        {"lr": 0},
        {"epochs": 0},
        {"patience": 0},
        {"fixed_epochs": 0},
        {"batch_size": 0},
        {"random_state": -1},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_settings_of_feddes(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=f"{name}="):
        FedDES(**setting).fit_outputs(LOGITS, CODES)
    with pytest.raises(ConfigError, match=f"{name}="):
        FedDES(MODELS, **setting).fit(X, Y)


def test_settings_of_the_others():
    for learner in (NeighbourhoodAccuracy(k=0), DecisionMLP(epochs=0), DecisionMLP(lr=-1), BestSingle(vote="x")):
        with pytest.raises(ConfigError, match="expected"):
            learner.fit_outputs(LOGITS, CODES)


def test_an_unknown_kind():
    with pytest.raises(BadOutputs, match="kind='odds'"):
        PeerwiseClassifier().fit_outputs(LOGITS, CODES, kind="odds")
    with pytest.raises(BadOutputs, match="Pass kind='logits'"):
        PeerwiseClassifier().fit_outputs(LOGITS, CODES, kind="probabilities")


@pytest.mark.parametrize("validation", [LOGITS, (LOGITS,), (LOGITS, CODES, INPUTS, CODES, 1), "rows"])
def test_validation_that_is_no_pair(validation):
    with pytest.raises(DataError, match="expected a tuple"):
        PeerwiseClassifier().fit_outputs(LOGITS, CODES, validation=validation)


def test_validation_of_fit_that_is_no_pair():
    with pytest.raises(DataError, match=r"expected a tuple \(X, y\)"):
        PeerwiseClassifier(MODELS).fit(X, Y, validation=(X, Y, X))


def test_inputs_that_are_missing_at_the_question():
    learner = FedDES(features="input", **TINY_GRAPH).fit_outputs(LOGITS, CODES, X=INPUTS)
    with pytest.raises(DataError, match="X is missing"):
        learner.trust_outputs(LOGITS)
    with pytest.raises(DataError, match="X is missing"):
        FedDES(features="input", **TINY_GRAPH).fit_outputs(LOGITS, CODES, X=INPUTS, validation=(LOGITS, CODES))


@every_learner
def test_questions_before_learning(name):
    learner = clone(LEARNERS[name])
    for ask in (learner.predict, learner.predict_proba, learner.trust, learner.select):
        with pytest.raises(NotFittedError):
            ask(X)
    with pytest.raises(NotFittedError):
        learner.trust_outputs(LOGITS)
    with pytest.raises(NotFittedError):
        learner.save("nowhere")


@every_learner
def test_a_learner_of_outputs_has_no_pool_to_ask(name):
    learner = clone(LEARNERS[name]).fit_outputs(probabilities(LOGITS), CODES, INPUTS, kind="probabilities")
    for ask in (learner.predict, learner.predict_proba, learner.trust, learner.select):
        with pytest.raises(PoolError, match=r"fitted on outputs, without a pool: use predict_proba_outputs"):
            ask(INPUTS)
