"""The dynamic rules in use: with a pool, in a grid search, saved and loaded, on inputs of every kind, and refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from dynamic_reference import RULES, SPACES, drawn, made, pool, said
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from trust_cases import iris, iris_models

from peerwise.data.rows import Sequences
from peerwise.errors import BadOutputs, ConfigError, DataError, ParcelError, PoolError
from peerwise.trust import learner_from_tree, learner_to_tree
from peerwise.trust.dynamic import DESKNN, KNORAE, KNORAU, LCA, METADES, OLA

X, Y = iris()
MODELS = iris_models()
LOGITS, CODES, INPUTS, ASKED, ASKED_INPUTS = drawn(0, 40, 30, 4, 3)
SPACES_OF_META = ("inputs", "decision")
every_rule = pytest.mark.parametrize(("name", "space"), SPACES)


def test_pool_and_k_come_first_as_in_deslib():
    learner = KNORAE(MODELS, 5).fit(X[:100], Y[:100])
    assert learner.k == 5
    assert learner.score(X[100:], Y[100:]) > 0.8
    meta = METADES(MODELS, None, 6, 3, 0.9, 0.6).fit(X[:100], Y[:100]).get_params()
    assert (meta["k"], meta["Kp"], meta["Hc"], meta["selection_threshold"]) == (6, 3, 0.9, 0.6)


@pytest.mark.parametrize("name", RULES)
def test_the_selected_classifiers_are_shown(name):
    learner = made(name).set_params(pool=MODELS).fit(X[:100], Y[:100])
    selected = learner.select(X[100:])
    assert selected.shape == (50, 3)
    assert selected.any(axis=1).all()
    np.testing.assert_array_equal(selected, learner.trust(X[100:]) > 0)
    if name in ("OLA", "LCA"):
        answers = np.stack([model.predict(X[100:]) for model in MODELS.values()], axis=1)
        disputed = (answers != answers[:, :1]).any(axis=1)
        one = selected[disputed].sum(axis=1) == 1
        assert (one | selected[disputed].all(axis=1)).all()
        np.testing.assert_array_equal(
            learner.predict(X[100:])[disputed][one], answers[disputed][one][selected[disputed][one]]
        )


@pytest.mark.parametrize("name", RULES)
def test_a_grid_search_over_k(name):
    grid = {"k": [1, 3, 9]} if name == "KNOP" else {"k": [1, 3, 9], "space": ["inputs", "decision"]}
    search = GridSearchCV(made(name).set_params(pool=MODELS), grid, cv=3, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["params"]) == (3 if name == "KNOP" else 6)
    assert search.best_score_ > 0.8
    assert search.best_estimator_.predict(X).shape == (150,)


@every_rule
def test_a_bundle_answers_the_same(name, space, tmp_path):
    learner = made(name, space, k=5).set_params(pool=MODELS, own=["bayes"])
    with pytest.warns(UserWarning, match="own models"):
        learner.fit(X[:100], Y[:100], validation=(X[100:120], Y[100:120]))
    learner.save(tmp_path / "bundle")
    loaded = type(learner).load(tmp_path / "bundle")
    np.testing.assert_allclose(loaded.predict_proba(X), learner.predict_proba(X), atol=1e-6)
    assert loaded.get_params()["k"] == 5


@every_rule
def test_an_answer_is_explained_by_its_neighbours(name, space):
    learner = made(name, space, k=5).set_params(pool=MODELS).fit(X[:100], Y[:100])
    disputed = np.flatnonzero(~learner.select(X[100:]).all(axis=1))[0] + 100
    found = learner.explain(X[disputed])
    assert found.answer == learner.predict(X[[disputed]])[0]
    assert {say.name: say.trust for say in found.models} == pytest.approx(
        dict(zip(MODELS, learner.trust(X[[disputed]])[0], strict=True))
    )
    assert len(found.neighbours) == 5
    distances = [case.distance for case in found.neighbours]
    assert distances == sorted(distances)
    for say in found.models:
        answers = MODELS[say.name].predict(X[[case.row for case in found.neighbours]])
        right = sum(answers == [case.label for case in found.neighbours])
        assert (say.right_nearby, say.of_nearby) == (right, 5)
        assert say.competence == pytest.approx(right / 5)


def test_out_of_fold_columns_are_what_own_models_are_judged_by():
    wrong = np.tile([0.0, 0.0, 1.0], (100, 1, 1))
    wrong[Y[:100] == "virginica"] = [1.0, 0.0, 0.0]
    blamed = OLA(MODELS, own=["bayes"]).fit(X[:100], Y[:100], own_outputs=wrong)
    with pytest.warns(UserWarning, match="judged by what they say of these rows now"):
        praised = OLA(MODELS, own=["bayes"]).fit(X[:100], Y[:100])
    disputed = ~praised.select(X[100:]).all(axis=1)
    assert praised.trust(X[100:])[disputed, 1].mean() > blamed.trust(X[100:])[disputed, 1].mean() == 0


KINDS = {
    "images": (lambda values: values.reshape(-1, 1, 3, 1)),
    "frames": (lambda values: pd.DataFrame(values, columns=["a", "b", "c"])),
    "sequences": (lambda values: Sequences(values[:, :1], values[:, 1:].reshape(-1, 2, 1))),
    "lists": (lambda values: values.tolist()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_every_kind_are_laid_flat(kind):
    plain = KNORAU().fit_outputs(LOGITS, CODES, INPUTS).trust_outputs(ASKED, ASKED_INPUTS)
    shaped = KNORAU().fit_outputs(LOGITS, CODES, KINDS[kind](INPUTS))
    np.testing.assert_array_equal(shaped.trust_outputs(ASKED, KINDS[kind](ASKED_INPUTS)), plain)


def test_scale_and_missing_values_of_inputs_do_no_harm():
    plain = KNORAU().fit_outputs(LOGITS, CODES, INPUTS).trust_outputs(ASKED, ASKED_INPUTS)
    scale = np.array([1000.0, 1.0, 0.001])
    scaled = KNORAU().fit_outputs(LOGITS, CODES, INPUTS * scale).trust_outputs(ASKED, ASKED_INPUTS * scale)
    np.testing.assert_allclose(scaled, plain)
    holes, centre = ASKED_INPUTS.copy(), ASKED_INPUTS.copy()
    holes[:, 1], centre[:, 1] = np.nan, INPUTS[:, 1].mean()
    learner = KNORAU().fit_outputs(LOGITS, CODES, INPUTS)
    np.testing.assert_allclose(learner.trust_outputs(ASKED, holes), learner.trust_outputs(ASKED, centre))


def test_categories_count_as_places():
    frame = pd.DataFrame({"ward": ["a", "a", "b", "b"]})
    y = [0, 0, 0, 0]
    learner = OLA(k=2).fit_outputs(pool([[1, 0], [1, 0], [0, 1], [0, 1]], y, 2), y, frame)
    query = pd.DataFrame({"ward": ["b", "a"]})
    assert learner.trust_outputs(said([[0, 1], [0, 1]], 2), query).tolist() == [[0, 1], [1, 0]]


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_inputs_that_are_missing():
    with pytest.raises(DataError, match=r"X is missing.*Pass X, or space='decision'"):
        KNORAE().fit_outputs(LOGITS, CODES)
    with pytest.raises(DataError, match=r"X is missing.*Pass X, or space='decision'"):
        KNORAE().fit_outputs(LOGITS, CODES, INPUTS, validation=(LOGITS, CODES))
    learner = KNORAE().fit_outputs(LOGITS, CODES, INPUTS)
    with pytest.raises(DataError, match=r"X is missing.*space='decision'"):
        learner.trust_outputs(ASKED)
    made("KNORAE", "decision").fit_outputs(LOGITS, CODES).trust_outputs(ASKED)


def test_inputs_that_are_no_numbers_or_others_than_in_fit():
    texts = np.array(["some text"] * 40)
    with pytest.raises(DataError, match=r"no number.*use space='decision'"):
        KNORAE().fit_outputs(LOGITS, CODES, texts)
    with pytest.raises(DataError, match=r"no column of numbers.*Use space='decision'"):
        KNORAE().fit_outputs(np.tile(LOGITS, (2, 1, 1)), np.tile(CODES, 2), pd.DataFrame({"t": map(str, range(80))}))
    learner = KNORAE().fit_outputs(LOGITS, CODES, INPUTS)
    with pytest.raises(DataError, match="X has 2 input values a row: expected 3"):
        learner.trust_outputs(ASKED, ASKED_INPUTS[:, :2])


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "7", LogisticRegression()])
def test_neighbours_that_are_no_number(name, k):
    with pytest.raises(ConfigError, match=r"k=.*expected a whole number, at least 1"):
        made(name, k=k).fit_outputs(LOGITS, CODES, INPUTS)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (KNORAU(space="features"), "space='features': expected 'inputs' or 'decision'"),
        (LCA(vote="most"), "vote='most'"),
        (DESKNN(pct_accuracy=0), "pct_accuracy=0: expected a share of the models above 0, at most 1"),
        (DESKNN(pct_diversity=1.5), "pct_diversity=1.5: expected a share"),
        (DESKNN(pct_diversity=True), "pct_diversity=True: expected a share"),
        (METADES(Kp=0), "Kp=0: expected a whole number"),
        (METADES(None, LogisticRegression()), r"meta_classifier=LogisticRegression\(\): .* always naive Bayes"),
        (METADES(None, 7), r"meta_classifier=7: expected None.*METADES\(pool, None, 7\), or k=7"),
        (METADES(Hc=1.2), "Hc=1.2: expected a number from 0 to 1"),
        (METADES(selection_threshold="half"), "selection_threshold='half': expected a number"),
    ],
    ids=str,
)
def test_settings_that_cannot_work(learner, message):
    with pytest.raises(ConfigError, match=message):
        learner.fit_outputs(LOGITS, CODES, INPUTS)


@every_rule
def test_outputs_that_are_not_finite(name, space):
    bad = LOGITS.copy()
    bad[7, 2, 1] = np.nan
    with pytest.raises(BadOutputs, match="model 2 gives nan at row 7"):
        made(name, space).fit_outputs(bad, CODES, INPUTS)
    with pytest.raises(BadOutputs, match="model 2 gives nan at row 7"):
        made(name, space).fit_outputs(LOGITS, CODES, INPUTS).trust_outputs(bad, INPUTS)


@pytest.mark.parametrize("name", RULES)
def test_an_empty_pool(name):
    with pytest.raises(PoolError, match="pool is empty"):
        made(name).set_params(pool=[]).fit(X, Y)


@every_rule
@pytest.mark.parametrize("part", ["points", "y", "says"])
def test_a_bundle_that_was_cut_short(name, space, part):
    tree = learner_to_tree(made(name, space).fit_outputs(LOGITS, CODES, INPUTS))
    tree["fitted"]["rows"][part] = tree["fitted"]["rows"][part][:-1]
    with pytest.raises(ParcelError, match="changed or cut short"):
        learner_from_tree(RULES[name], tree)


@pytest.mark.parametrize("part", ["true", "log_odds", "prior"])
def test_a_bundle_of_meta_des_that_was_cut_short_or_changed(part):
    for change in (lambda values: values[:-1], lambda values: values.astype(str), lambda values: values * np.nan):
        tree = learner_to_tree(METADES().fit_outputs(LOGITS, CODES, INPUTS))
        tree["fitted"][part] = change(tree["fitted"][part])
        with pytest.raises(ParcelError, match="changed or cut short"):
            learner_from_tree(METADES, tree)


CHANGES = {
    "points as text": ("points", lambda points: points.astype(str)),
    "points that are no numbers": ("points", lambda points: points * np.nan),
    "points in double": ("points", lambda points: points.astype(np.float64)),
    "labels as decimals": ("y", lambda y: y.astype(float)),
    "a label out of range": ("y", lambda y: y + 3),
    "answers as decimals": ("says", lambda says: says * 7.0),
    "an answer out of range": ("says", lambda says: says - 1),
    "no array": ("says", lambda says: says.tolist()),
    "features of nothing": ("features", lambda _: {}),
    "no mean": ("features", lambda features: {**features, "mean": None}),
    "a mean of two": ("features", lambda features: {**features, "mean": features["mean"][None]}),
    "no finite scale": ("features", lambda features: {**features, "scale": features["scale"] * np.inf}),
    "odd categories": ("features", lambda features: {**features, "categories": {"a": 3}}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_known_rows_that_were_changed(change):
    part, changed = CHANGES[change]
    tree = learner_to_tree(KNORAE().fit_outputs(LOGITS, CODES, INPUTS))
    tree["fitted"]["rows"][part] = changed(tree["fitted"]["rows"][part])
    with pytest.raises(ParcelError, match="changed or cut short"):
        learner_from_tree(KNORAE, tree)


@every_rule
def test_known_rows_that_lack_something(name, space):
    for part in ("points", "y", "says", "features"):
        tree = learner_to_tree(made(name, space).fit_outputs(LOGITS, CODES, INPUTS))
        del tree["fitted"]["rows"][part]
        with pytest.raises(ParcelError, match="changed or cut short"):
            learner_from_tree(RULES[name], tree)
    del tree["fitted"]["rows"]
    with pytest.raises(ParcelError, match="changed or cut short"):
        learner_from_tree(RULES[name], tree)


@every_rule
@pytest.mark.parametrize("k", [0, -3, 2.5, "7", None])
def test_a_bundle_with_settings_that_cannot_work(name, space, k):
    tree = learner_to_tree(made(name, space).fit_outputs(LOGITS, CODES, INPUTS))
    tree["settings"]["k"] = k
    with pytest.raises(ParcelError, match=f"settings of {name} were changed and cannot be used: k="):
        learner_from_tree(RULES[name], tree)


def test_a_bundle_whose_rows_lie_in_another_space():
    inputs, decision = (learner_to_tree(METADES(space=s).fit_outputs(LOGITS, CODES, INPUTS)) for s in SPACES_OF_META)
    swapped = {**inputs, "fitted": {**inputs["fitted"], "rows": decision["fitted"]["rows"]}}
    with pytest.raises(ParcelError, match="rows lie in the space of decision: expected 'inputs'"):
        learner_from_tree(METADES, swapped)
    renamed = {**inputs, "settings": {**inputs["settings"], "space": "decision"}}
    with pytest.raises(ParcelError, match="rows lie in the space of inputs: expected 'decision'"):
        learner_from_tree(METADES, renamed)
    for profiles in (inputs["fitted"]["rows"], None):  # of 3 inputs, where queries have 12 probabilities
        changed = {**inputs, "fitted": {**inputs["fitted"], "profiles": profiles}}
        with pytest.raises(ParcelError, match="changed or cut short"):
            learner_from_tree(METADES, changed)


def test_one_class_and_a_pool_of_one():
    for name in RULES:
        one = made(name).fit_outputs(LOGITS[:, :, :1], np.zeros(40, int), INPUTS)
        np.testing.assert_array_equal(one.predict_proba_outputs(ASKED[:, :, :1], ASKED_INPUTS), 1)
        alone = made(name).fit_outputs(LOGITS[:, :1], CODES, INPUTS)
        np.testing.assert_array_equal(alone.trust_outputs(ASKED[:, :1], ASKED_INPUTS), 1)
        same = made(name).fit_outputs(LOGITS, np.zeros(40, int), INPUTS).decide_outputs(ASKED, ASKED_INPUTS)
        assert np.isfinite(same.trust).all()
