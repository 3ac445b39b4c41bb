"""Any trust learner as a federated method: what is learned from, what is sent, what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_federations import awkward, hospitals, sequence_sites, table_site

from peerwise.data import Rows, Site, work_anew
from peerwise.errors import ModelError
from peerwise.federation import answer, answer_with_details
from peerwise.methods import OneShot, make_method, method_class, method_names
from peerwise.methods.by_rounds import ByRounds
from peerwise.models import OnnxModel, find_recipe, out_of_fold
from peerwise.parcels import Keep, Parcel, pack, unpack
from peerwise.run import run_method
from peerwise.trust import (
    BestSingle,
    DecisionMLP,
    FedDES,
    Labelled,
    NeighbourhoodAccuracy,
    OwnOnly,
    PeerwiseClassifier,
    TrustLearner,
    UniformAverage,
)
from peerwise.trust.peerwise import Metric

LEARNERS = [
    OwnOnly(),
    UniformAverage(vote="hard"),
    BestSingle(),
    NeighbourhoodAccuracy(k=3),
    DecisionMLP(epochs=2),
    PeerwiseClassifier(),
    FedDES(epochs=2, hidden=8, heads=2),
]
SHORT: dict[str, dict[str, Any]] = {
    "feddes": {"epochs": 2, "hidden": 8, "heads": 2},
    "decision_mlp": {"epochs": 2},
}


ROW_BY_ROW = {"trust", "fallback", "says", "own", "unknown", "by_k"}


class Counting(UniformAverage):
    """Counts how often it is asked for a decision."""

    decisions = 0

    def _decide(self, logits: Any, X: Any) -> Any:
        Counting.decisions += 1
        return super()._decide(logits, X)


class Recorder(OwnOnly):
    """Keeps the rows it was given to learn from."""

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        super()._learn(rows, validation)
        self.seen_, self.seen_val_ = rows.logits, None if validation is None else validation.logits

    def _fitted_tree(self) -> dict[str, Any]:
        return {**super()._fitted_tree(), "seen": self.seen_, "seen_val": self.seen_val_}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        self.seen_, self.seen_val_ = tree["seen"], tree["seen_val"]


@pytest.fixture(scope="module")
def keep() -> Keep:
    return Keep()


def restarted(site: Site) -> Site:
    site.state = unpack(*pack(site.state))
    return site


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_every_learner_answers_for_four_hospitals(learner: TrustLearner, keep: Keep) -> None:
    sites = hospitals("logistic", "mlp", keep=keep)
    method = OneShot(learner, folds=3, epochs=2)
    run_method(method, sites)
    for site in sites:
        found = answer(method, site, site.test.X)
        assert np.allclose(found.sum(axis=1), 1)
        trust = method.predict_with_details(site, site.test.X)[1]["trust"]
        assert trust.shape == (len(site.test), 8)
        assert np.allclose(trust.sum(axis=1), 1)


@pytest.fixture(scope="module")
def recorded(keep: Keep) -> tuple[OneShot, list[Site]]:
    """Recipes in an order that is not the alphabet's, states gone through bytes as in every real runtime."""
    sites = hospitals("mlp", "logistic", "forest", keep=keep)
    method = OneShot(Recorder(), folds=3, epochs=2)
    run_method(method, sites)
    return method, [restarted(site) for site in sites]


def names_at(site: Site) -> list[str]:
    return list(site.state["learner"]["names"])


def test_own_columns_are_out_of_fold_and_each_belongs_to_its_model(recorded: tuple[OneShot, list[Site]]) -> None:
    method, sites = recorded
    for site in sites[2:]:
        seen = method.learner_at(site).seen_  # type: ignore[attr-defined]
        for model in ("mlp", "logistic", "forest"):
            column = names_at(site).index(f"{model}@{site.name}")
            recipe, common = find_recipe(model), {"classes": len(site.classes), "features": site.features}
            common |= {"seed": site.seed_for(f"model {model}"), "max_epochs": 2}
            stopped = recipe.fit(site.train, site.val if len(site.val) else None, **common).best_epoch
            expected = out_of_fold(recipe, site.train, folds=3, epochs=stopped, **common).logits
            assert np.allclose(seen[:, column], expected, atol=1e-4), f"{model} at {site.name}"


def test_peers_columns_and_validation_rows_are_ordinary_predictions(recorded: tuple[OneShot, list[Site]]) -> None:
    method, sites = recorded
    site = sites[0]
    learner: Any = method.learner_at(site)
    for column, name in enumerate(names_at(site)):
        model = OnnxModel(site.state["pool"][name])
        assert np.allclose(learner.seen_val_[:, column], model.predict_logits(site.val.X), atol=1e-4)
        if not name.endswith(f"@{site.name}"):
            assert np.allclose(learner.seen_[:, column], model.predict_logits(site.train.X), atol=1e-4)


def test_columns_keep_their_models_when_the_state_was_kept_on_disk(recorded: tuple[OneShot, list[Site]]) -> None:
    method, sites = recorded
    for site in sites:
        says = method.predict_with_details(site, site.test.X)[1]["says"]
        for column, name in enumerate(names_at(site)):
            own_words = OnnxModel(site.state["pool"][name]).predict_logits(site.test.X).argmax(axis=1)
            assert (says[:, column] == own_words).all(), f"column {column} is not {name} at {site.name}"
        trust = method.predict_with_details(site, site.test.X)[1]["trust"][0]
        trusted = {names_at(site)[column] for column in np.flatnonzero(trust)}
        assert trusted == {f"{model}@{site.name}" for model in ("mlp", "logistic", "forest")}


def test_the_site_learner_answers_as_the_method_does(recorded: tuple[OneShot, list[Site]]) -> None:
    method, sites = recorded
    learner = method.learner_at(sites[1])
    assert np.allclose(learner.predict_proba(sites[1].test.X), answer(method, sites[1], sites[1].test.X), atol=1e-5)
    assert learner.pool_.names == names_at(sites[1])


def test_a_model_that_memorises_noise_does_not_look_good_in_its_own_column() -> None:
    rng = np.random.default_rng(0)
    site = table_site("noise", [0], [0], [0], "boosting")
    y = rng.integers(0, 2, 200)
    site = site.replace(train=Rows(rng.normal(size=(200, 4)).astype(np.float32), y))
    method = OneShot(OwnOnly())
    parcel = method.share(site, 0)
    in_sample = OnnxModel(parcel["models"]["boosting"]).predict_logits(site.train.X).argmax(axis=1)
    held_out = site.state["own"]["held_out"][:, 0].argmax(axis=1)
    assert (in_sample == y).mean() > 0.8
    assert (held_out == y).mean() < 0.65


@pytest.mark.parametrize("recipe", ["logistic", "mlp"])
def test_a_parcel_holds_models_and_class_names_and_no_row(recipe: str) -> None:
    site = hospitals(recipe)[0]
    X = np.array(site.train.X, copy=True)
    canary = np.array([9137.625 + place for place in range(X.shape[1])], dtype=np.float32)
    for place, feature in enumerate(site.features):
        if not feature.is_category:
            X[0, place] = canary[place]
    site = site.replace(train=Rows(X, site.train.y))
    parcel = OneShot(OwnOnly(), folds=2, epochs=2).share(site, 0)
    assert set(parcel) == {"models", "classes"}
    assert set(parcel["models"]) == {recipe}
    assert parcel["classes"] == list(site.classes)
    manifest, blobs = parcel.encode()
    sent = manifest + b"".join(blobs.values())
    assert len(blobs) == 1
    for value in canary:
        for written in (np.float32(value).tobytes(), np.float64(value).tobytes(), repr(float(value)).encode()):
            assert written not in sent
    for row in X[:20]:
        assert row.tobytes() not in sent
    for mark in (b"\x80\x04\x95", b"\x80\x05\x95", b"sklearn", b"numpy.core", b"torch."):
        assert mark not in sent


@pytest.mark.parametrize("name", method_names())
def test_sites_with_little_to_learn_from_run_through_every_method(name: str) -> None:
    public = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    sites = [site.replace(public=public) for site in awkward("logistic", "mlp")]
    few: dict[str, Any] = {"rounds": 3} if issubclass(method_class(name), ByRounds) else {}
    method = make_method(name, SHORT.get(name, few), folds=3, epochs=2)
    run_method(method, sites)
    for site in sites:
        found = answer(method, restarted(site), site.test.X)
        assert found.shape == (len(site.test), 3)
        assert np.allclose(found.sum(axis=1), 1)
        details = answer_with_details(method, site, site.val.X)[1]
        assert all(len(details[key]) == len(site.val) for key in ROW_BY_ROW & set(details))


def test_one_seed_gives_the_same_answers_and_another_gives_others() -> None:
    def answers(seed: int) -> NDArray[np.float64]:
        sites = [table_site(name, [0, 1, 2] * 10, [0, 1, 2], [0, 1, 2] * 5, "mlp", seed=seed) for name in "ab"]
        test = Rows(np.ones((4, 4), dtype=np.float32), np.zeros(4, dtype=np.int64))
        sites = [site.replace(test=test) for site in sites]
        method = OneShot(DecisionMLP(epochs=3, vote="soft"), folds=2, epochs=2)
        run_method(method, sites)
        return np.concatenate([answer(method, site, site.test.X) for site in sites])

    assert np.array_equal(answers(0), answers(0))
    assert not np.allclose(answers(0), answers(1))


def test_a_site_whose_name_ends_like_anothers_keeps_its_own_models_only() -> None:
    sites = [table_site(name, [0, 1, 2] * 6, [], [0, 1, 2]) for name in ("ward", "north@ward")]
    method = OneShot(OwnOnly(), folds=2)
    run_method(method, sites)
    for site in sites:
        assert [names_at(site)[own] for own in site.state["learner"]["own"]] == [f"logistic@{site.name}"]


def test_a_model_that_would_have_the_name_of_another_is_left_out() -> None:
    site = table_site("a@b", [0, 1, 2] * 6, [], [0])
    method = OneShot(OwnOnly(), folds=2)
    parcel = method.share(site, 0)
    intruder = Parcel(models={"logistic@a": parcel["models"]["logistic"]}, classes=parcel["classes"])
    method.absorb(site, 0, {"b": intruder, "a@b": parcel})
    assert names_at(site) == ["logistic@a@b"]
    assert "a name without '@'" in site.state["peers_left_out"]["*@b"]


def test_a_site_that_hears_nobody_still_has_its_own_models() -> None:
    site = table_site("alone", [0, 1, 2] * 6, [], [0, 1, 2])
    method = OneShot(BestSingle(), folds=2)
    method.share(site, 0)
    method.absorb(site, 0, {})
    assert names_at(site) == ["logistic@alone"]
    assert answer(method, site, site.test.X).shape == (3, 3)


def test_a_recipe_for_another_kind_of_rows_is_refused_before_any_training() -> None:
    site = table_site("here", [0, 1, 2] * 6, [], [0], "logistic", "small_cnn")

    def never(parts: Any, work: Any) -> Any:
        raise AssertionError("something was trained")

    site = site.replace(keep=never)
    with pytest.raises(ModelError, match=r"'small_cnn' takes image rows, site 'here' has table rows.*logistic"):
        OneShot(OwnOnly()).share(site, 0)


def test_a_site_without_models_is_refused() -> None:
    site = table_site("here", [0, 1, 2], [], [0]).replace(recipes=())
    with pytest.raises(ModelError, match=r"'here' has no models to train"):
        OneShot(OwnOnly()).share(site, 0)


def test_a_second_method_on_the_same_sites_finds_their_models_trained() -> None:
    sites = [site.replace(keep=work_anew) for site in hospitals()]
    run_method(OneShot(BestSingle(), folds=2), sites)
    first = {site.name: site.state["own"]["models"] for site in sites}
    trained = sites[0].state["seconds"]["train"]
    run_method(make_method("local", {}, folds=2, epochs=None), sites)
    assert all(site.state["models"] == first[site.name] for site in sites)
    assert sites[0].state["run"]["seconds"]["share"] < trained / 2


def balanced_hospitals() -> list[Site]:
    return [site.replace(class_balance="balanced") for site in hospitals()]


@pytest.mark.parametrize(
    ("sites", "given", "used"),
    [
        (hospitals, None, None),
        (lambda: sequence_sites("tcn"), None, None),
        (balanced_hospitals, None, "balanced_accuracy"),
        (balanced_hospitals, "accuracy", "accuracy"),
    ],
)
def test_peerwise_answers_for_balanced_accuracy_where_classes_are_balanced(
    sites: Callable[[], list[Site]], given: Metric | None, used: str | None
) -> None:
    method, federation = OneShot(PeerwiseClassifier(metric=given), folds=2, epochs=2), sites()
    run_method(method, federation)
    assert {method.learner_at(site).get_params()["metric"] for site in federation} == {used}


def test_answers_and_their_details_are_one_decision() -> None:
    method, sites = OneShot(Counting(), folds=2, epochs=2), hospitals()
    run_method(method, sites)
    expected = answer(method, sites[0], sites[0].test.X)
    Counting.decisions = 0
    found, details = answer_with_details(method, sites[0], sites[0].test.X)
    assert Counting.decisions == 1
    assert np.array_equal(found, expected)
    assert details["trust"].shape == (len(found), len(details["models"]))
