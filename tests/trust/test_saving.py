"""Learners in a folder, without pickle."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from trust_cases import LEARNERS, iris, iris_models, outputs

from peerwise import BestSingle, OwnOnly, PeerwiseClassifier, Pool, PriorAdapted, UniformAverage, wrap
from peerwise.errors import ParcelError, PoolError
from peerwise.parcels import Store
from peerwise.space import InputFeatures
from peerwise.trust import FedDES, learner_from_tree, learner_to_tree
from peerwise.trust.fedpae import FedPAE

X, Y = iris()
MODELS = iris_models()
every_learner = pytest.mark.parametrize("name", LEARNERS)


@every_learner
def test_a_pool_of_models_travels_as_onnx(name, tmp_path):
    learner = clone(LEARNERS[name]).set_params(pool=MODELS, own=["bayes"]).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        learner.save(tmp_path / "kept")
        twin = type(learner).load(tmp_path / "kept")
    np.testing.assert_allclose(twin.predict_proba(X), learner.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(twin.trust(X), learner.trust(X), atol=1e-4)
    np.testing.assert_array_equal(twin.predict(X), learner.predict(X))
    assert twin.own == ("bayes",)
    assert twin.model_names_ == learner.model_names_
    for key, value in learner.get_params(deep=False).items():
        assert key in ("pool", "own") or twin.get_params(deep=False)[key] == value


@every_learner
def test_a_learner_of_outputs_comes_back_exactly(name, tmp_path):
    logits, y, rows = outputs(0, 40)
    learner = clone(LEARNERS[name]).fit_outputs(logits, y, rows)
    learner.save(tmp_path)
    twin = type(learner).load(tmp_path)
    np.testing.assert_array_equal(twin.predict_proba_outputs(logits, rows), learner.predict_proba_outputs(logits, rows))
    np.testing.assert_array_equal(twin.trust_outputs(logits, rows), learner.trust_outputs(logits, rows))
    assert twin.pool is None
    assert twin.own == (0,)
    with pytest.raises(PoolError, match="without a pool"):
        twin.predict(rows)


def test_an_explanation_comes_back(tmp_path):
    learner = PeerwiseClassifier(MODELS, own=["bayes"]).fit(X, Y)
    learner.save(tmp_path)
    mine, theirs = learner.explain(X[4]), PeerwiseClassifier.load(tmp_path).explain(X[4])
    assert theirs.answer == mine.answer
    assert [say.name for say in theirs.models if say.own] == ["bayes"]
    assert {say.name: say.trust for say in theirs.models} == pytest.approx(
        {say.name: say.trust for say in mine.models}, abs=1e-4
    )
    assert {case.row: case.label for case in theirs.neighbours} == {case.row: case.label for case in mine.neighbours}


def test_saving_what_was_loaded_gives_the_same_again(tmp_path):
    learner = PeerwiseClassifier(MODELS).fit(X, Y)
    learner.save(tmp_path / "one")
    once = PeerwiseClassifier.load(tmp_path / "one")
    once.save(tmp_path / "two")
    np.testing.assert_array_equal(PeerwiseClassifier.load(tmp_path / "two").predict_proba(X), once.predict_proba(X))


def test_a_learner_of_outputs_that_is_given_its_pool_can_be_saved(tmp_path):
    """As a federated method makes it: learned from outputs, its models ONNX files."""
    first = PeerwiseClassifier(MODELS).fit(X, Y)
    first.save(tmp_path / "first")
    files = PeerwiseClassifier.load(tmp_path / "first").pool_
    learner = learner_from_tree(PeerwiseClassifier, learner_to_tree(first))
    learner.pool = learner.pool_ = files
    learner.save(tmp_path / "second")
    np.testing.assert_allclose(
        PeerwiseClassifier.load(tmp_path / "second").predict_proba(X), first.predict_proba(X), atol=1e-5
    )


def test_the_default_pool_travels_too(tmp_path):
    learner = PeerwiseClassifier().fit(X, Y)
    learner.save(tmp_path)
    np.testing.assert_allclose(PeerwiseClassifier.load(tmp_path).predict_proba(X), learner.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("order", [1, -1], ids=["as fitted", "turned"])
def test_the_members_of_an_ensemble_of_a_frame_travel(tmp_path, order):
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = RandomForestClassifier(3, random_state=0).fit(frame, Y)
    learner = UniformAverage(forest).fit(frame[frame.columns[::order]], Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        learner.save(tmp_path)
        twin = UniformAverage.load(tmp_path)
        np.testing.assert_allclose(twin.predict_proba(frame), forest.predict_proba(frame), atol=1e-5)
        np.testing.assert_allclose(learner.predict_proba(frame), forest.predict_proba(frame), atol=1e-5)


def constant(rows):
    return np.tile([0.2, 0.3, 0.5], (len(rows), 1))


def test_a_function_is_saved_by_name_and_must_be_given_again(tmp_path):
    function = wrap(constant, name="mine", classes=["setosa", "versicolor", "virginica"])
    learner = PeerwiseClassifier([wrap(MODELS["bayes"], name="bayes"), function]).fit(X, Y)
    with pytest.warns(UserWarning, match="'mine' is saved by name only") as caught:
        learner.save(tmp_path)
    assert [w.filename for w in caught] == [__file__]
    with pytest.raises(PoolError, match=r"'mine' was saved by name only.*load\(folder, pool=...\)"):
        PeerwiseClassifier.load(tmp_path)
    twin = PeerwiseClassifier.load(tmp_path, pool={"bayes": MODELS["bayes"], "mine": function})
    np.testing.assert_array_equal(twin.predict_proba(X), learner.predict_proba(X))
    with pytest.warns(UserWarning, match="saved by name only"):
        twin.save(tmp_path / "again")


def test_a_transform_is_code_and_is_not_saved(tmp_path):
    halved = wrap(MODELS["bayes"], name="halved", transform=lambda rows: rows / 2)
    learner = UniformAverage([halved, wrap(MODELS["forest"], name="forest")]).fit(X, Y)
    with pytest.warns(UserWarning, match="'halved' is saved by name only: its transform is code"):
        learner.save(tmp_path)
    with pytest.raises(PoolError, match="'halved'"):
        UniformAverage.load(tmp_path)


def test_a_torch_model_travels(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    pool = [wrap(net, name="net", classes=["setosa", "versicolor", "virginica"]), wrap(MODELS["forest"], name="forest")]
    learner = PeerwiseClassifier(pool).fit(X, Y)
    learner.save(tmp_path)
    np.testing.assert_allclose(PeerwiseClassifier.load(tmp_path).predict_proba(X), learner.predict_proba(X), atol=1e-5)


def test_another_pool_is_refused(tmp_path):
    UniformAverage(MODELS).fit(X, Y).save(tmp_path)
    with pytest.raises(PoolError, match=r"expected \['logistic', 'bayes', 'forest'\], in this order"):
        UniformAverage.load(tmp_path, pool={"bayes": MODELS["bayes"], "forest": MODELS["forest"]})
    same = UniformAverage.load(tmp_path, pool=Pool(MODELS))
    assert same.predict(X[:1]).shape == (1,)


def test_another_class_is_refused(tmp_path):
    UniformAverage(MODELS).fit(X, Y).save(tmp_path)
    with pytest.raises(ParcelError, match="saved UniformAverage: expected a PeerwiseClassifier"):
        PeerwiseClassifier.load(tmp_path)


def test_a_missing_broken_or_foreign_folder_is_refused(tmp_path):
    with pytest.raises(ParcelError, match="is not there"):
        PeerwiseClassifier.load(tmp_path / "absent")
    UniformAverage(MODELS).fit(X, Y).save(tmp_path / "kept")
    manifest = tmp_path / "kept" / "bundle.json"
    whole = manifest.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        manifest.write_bytes(whole[:cut])
        with pytest.raises(ParcelError):
            UniformAverage.load(tmp_path / "kept")
    manifest.write_bytes(whole)
    blob = max((tmp_path / "kept" / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-5])
    with pytest.raises(ParcelError, match="does not match"):
        UniformAverage.load(tmp_path / "kept")
    blob.unlink()
    with pytest.raises(ParcelError, match="missing"):
        UniformAverage.load(tmp_path / "kept")
    Store(tmp_path / "other").save("bundle", {"something": "else"})
    with pytest.raises(ParcelError, match="no saved learner"):
        PeerwiseClassifier.load(tmp_path / "other")


@every_learner
def test_settings_that_were_changed_are_refused(name):
    logits, y, rows = outputs(0, 40)
    tree = learner_to_tree(clone(LEARNERS[name]).fit_outputs(logits, y, rows))
    for settings in ({"vote": "most"}, {"unheard_of": 1}):
        with pytest.raises(ParcelError, match="were changed and cannot be used"):
            learner_from_tree(type(LEARNERS[name]), {**tree, "settings": {**tree["settings"], **settings}})


@every_learner
def test_what_was_learned_is_not_there(name):
    logits, y, rows = outputs(0, 40)
    tree = learner_to_tree(clone(LEARNERS[name]).fit_outputs(logits, y, rows))
    for fitted in ({}, None):
        with pytest.raises(ParcelError, match="cut short"):
            learner_from_tree(type(LEARNERS[name]), {**tree, "fitted": fitted})


FIXED = [OwnOnly(own=[0]), BestSingle(), UniformAverage(), PriorAdapted(), FedPAE(population=4, generations=1)]
NO_WEIGHTS = [
    np.ones(5) / 5,
    np.ones((4, 1)) / 4,
    np.full(4, np.nan),
    np.ones(4),
    np.array([2.0, -1, 0, 0]),
    [1, 0, 0, 0],
]


@pytest.mark.parametrize("learner", FIXED, ids=lambda learner: type(learner).__name__)
def test_weights_that_were_changed_are_refused(learner):
    logits, y, _ = outputs(0, 40)
    tree = learner_to_tree(clone(learner).fit_outputs(logits, y))
    for weights in NO_WEIGHTS:
        with pytest.raises(ParcelError, match=r"saved weights are .*expected 4 numbers from 0 that sum to one"):
            learner_from_tree(type(learner), {**tree, "fitted": {**tree["fitted"], "weights": weights}})
    if isinstance(learner, PriorAdapted):
        with pytest.raises(ParcelError, match="saved prior are"):
            learner_from_tree(PriorAdapted, {**tree, "fitted": {**tree["fitted"], "prior": np.ones(2) / 2}})


def test_the_folder_holds_no_pickle_and_inputs_only_where_they_are_learned_from(tmp_path):
    for features in ("both", "decision"):
        learner = PeerwiseClassifier(MODELS, features=features).fit(X, Y)
        learner.save(tmp_path / features)
        kept = InputFeatures.fit(X).transform(X)[:2].tobytes()  # as the kernel over the inputs has them
        files = [path.read_bytes() for path in (tmp_path / features).rglob("*") if path.is_file()]
        assert not any(data.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")) for data in files)
        assert not any(X[:2].tobytes() in data for data in files)
        assert any(kept in data for data in files) == (features == "both")


def test_a_saved_graph_of_another_width_is_refused():
    """What it sends is read by compiled loops, which do not look where an array ends."""
    tree = learner_to_tree(FedDES(MODELS, epochs=2, hidden=16).fit(X, Y))
    tree["fitted"]["sent"] = [value[:, :16].copy() for value in tree["fitted"]["sent"]]
    with pytest.raises(ParcelError, match="changed or cut short"):
        learner_from_tree(FedDES, tree)
