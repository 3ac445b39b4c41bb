"""Personalised stacking over sites: which rows teach the meta-model, what is sent, who has contributed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier
from small_federations import awkward, hospitals, sequence_sites, table_site

from peerwise.checks import check_method
from peerwise.checks.method import awkward_sites
from peerwise.data import Feature, Rows, Site
from peerwise.errors import ConfigError
from peerwise.federation import PEERS_LEFT_OUT, answer
from peerwise.methods import Local
from peerwise.methods.own_models import own_models
from peerwise.methods.stacking import FELL_BACK, Stacking
from peerwise.models import OnnxModel, find_recipe
from peerwise.parcels import Keep, Parcel, pack, unpack
from peerwise.run import Experiment, run_method
from peerwise.run.folder import RunFolder
from peerwise.run.runner import MethodRun
from peerwise.run.workers import open_workers
from peerwise.space import softmax
from peerwise.trust.stacking import Stacking as Learner

TREE = DecisionTreeClassifier(max_depth=3)
LABELS = [0, 1, 2] * 10
KEEP = Keep()


def stacking(**settings: Any) -> Stacking:
    return Stacking(**{"meta": TREE, "folds": 2, **settings})


def sites_of(*names: str, recipes: tuple[str, ...] = ("logistic",)) -> list[Site]:
    return [table_site(name, LABELS, [0, 1, 2] * 4, [0, 1, 2] * 4, *recipes) for name in names]


def kit_sites(recipes: tuple[str, ...]) -> list[Site]:
    return [site.replace(keep=KEEP) for site in awkward_sites(recipes)]


SETTINGS: list[dict[str, Any]] = [
    {"variant": "cv"},
    {"variant": "held_out"},
    {"variant": "pooled"},
    {"meta": "logistic"},
    {"public": "logistic", "noise": 2.0},
]
LONGER: list[dict[str, Any]] = [{"variant": "auto"}, {"privacy": "dp"}, {"privacy": "leaf", "min_leaf": 4}]


@pytest.mark.filterwarnings("ignore:site .* does without")
@pytest.mark.parametrize(
    "settings", [*SETTINGS, *(pytest.param(each, marks=pytest.mark.slow) for each in LONGER)], ids=str
)
def test_it_keeps_the_promises_of_a_method(settings: dict[str, Any]) -> None:
    check_method(stacking(**settings), partial(kit_sites, ("logistic",)))


class Caught:
    """What the learner was given, caught on its way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[NDArray[np.float32], NDArray[np.int64]]] = []
        self.groups: list[Any] = []
        fit = Learner.fit_outputs

        def noted(learner: Learner, outputs: Any, y: Any, **more: Any) -> Any:
            self.given.append((outputs, y))
            self.groups.append(more["group"])
            return fit(learner, outputs, y, **more)

        monkeypatch.setattr(Learner, "fit_outputs", noted)


def told(site: Site, method: Stacking, *peers: Site) -> dict[str, Parcel]:
    return {each.name: method.share(each, 0) for each in (site, *peers)}


def test_held_out_learns_from_validation_rows_that_no_private_model_was_fitted_to(monkeypatch: Any) -> None:
    caught = Caught(monkeypatch)
    a, b = sites_of("a", "b")
    method = stacking(variant="held_out")
    method.absorb(a, 0, told(a, method, b))
    logits, y = caught.given[0]
    assert (y == a.val.y).all()
    own = own_models(a, folds=2).files["logistic"]
    assert np.allclose(logits[:, 0], OnnxModel(own).predict_logits(a.val.X), atol=1e-5)
    theirs = own_models(b, folds=2).files["logistic"]
    assert np.allclose(logits[:, 1], OnnxModel(theirs).predict_logits(a.val.X), atol=1e-5)


def test_cv_learns_from_all_rows_with_the_train_rows_out_of_fold(monkeypatch: Any) -> None:
    caught = Caught(monkeypatch)
    a, b = sites_of("a", "b")
    method = stacking(variant="cv")
    method.absorb(a, 0, told(a, method, b))
    logits, y = caught.given[0]
    assert (y == np.concatenate([a.train.y, a.val.y])).all()
    own = own_models(a, folds=2)
    assert own.held_out is not None
    assert np.allclose(logits[: len(a.train), 0], own.held_out[:, 0])
    in_sample = OnnxModel(own.files["logistic"]).predict_logits(a.train.X)
    assert not np.allclose(logits[: len(a.train), 0], in_sample, atol=1e-3)
    assert np.allclose(logits[len(a.train) :, 0], OnnxModel(own.files["logistic"]).predict_logits(a.val.X), atol=1e-5)


@pytest.mark.parametrize("variant", ["cv", "held_out", "pooled"])
def test_the_patients_of_the_rows_come_with_them(monkeypatch: Any, variant: Any) -> None:
    caught = Caught(monkeypatch)
    a, b = sites_of("a", "b")
    train, val = (replace(part, group=start + np.arange(len(part)) // 3) for start, part in ((0, a.train), (99, a.val)))
    a = a.replace(train=train, val=val)
    method = stacking(variant=variant)
    method.absorb(a, 0, told(a, method, b))
    groups = [*a.train.group, *a.val.group]  # type: ignore[misc]
    assert caught.groups[0].tolist() == (list(a.val.group) if variant == "held_out" else groups)  # type: ignore[arg-type]
    method.absorb(b, 0, told(b, method, a))
    assert caught.groups[1] is None


def test_an_estimator_in_an_experiment_is_refused_before_anything_is_loaded_and_told_where_it_goes() -> None:
    with pytest.raises(ConfigError) as caught:
        Experiment(dataset="digits", methods=("stacking",), method={"stacking": {"meta": TREE}})
    words = str(caught.value)
    assert words.startswith("method.stacking.meta is DecisionTreeClassifier(max_depth=3): expected 'forest' or ")
    assert "'forest' or 'logistic' or 'boosting', as settings are kept as text" in words
    assert "trust learner" in words
    assert "run_method" in words
    Experiment(dataset="digits", methods=("stacking",), method={"stacking": {"meta": "logistic"}})


def test_pooled_learns_from_the_very_rows_of_its_private_model(monkeypatch: Any) -> None:
    caught = Caught(monkeypatch)
    a, b = sites_of("a", "b")
    method = stacking(variant="pooled")
    inbox = told(a, method, b)
    method.absorb(a, 0, inbox)
    logits, y = caught.given[0]
    X = np.concatenate([a.train.X, a.val.X])  # type: ignore[list-item]
    assert (y == np.concatenate([a.train.y, a.val.y])).all()
    seed = a.seed_for("model logistic")
    private = find_recipe("logistic").fit(Rows(X, y), None, classes=3, features=a.features, seed=seed)
    assert np.allclose(logits[:, 0], private.predict_logits(X), atol=1e-4)
    shown = OnnxModel(inbox["a"]["models"]["logistic"]).predict_logits(X)
    assert not np.allclose(private.predict_logits(X), shown, atol=1e-3), "the others see the model of the train rows"


def with_wrong_labels(name: str, recipe: str, wrong: float) -> Site:
    """Some labels are another class's: whoever learns these rows by heart is no guide to new ones."""
    rng = np.random.default_rng([3, *name.encode()])
    y = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    X[:, 0] += 3 * (y == 1)
    X[:, 1] += 3 * (y == 2)
    every = Rows(X, np.where(rng.random(400) < wrong, (y + 1) % 3, y))
    site = table_site(name, [0], [0], [0], recipe)
    train, val, test = (every.take(part) for part in (slice(0, 240), slice(240, 320), slice(320, 400)))
    return site.replace(train=train, val=val, test=test)


def test_pooled_rows_favour_a_private_model_that_knows_them_by_heart_and_auto_sees_it() -> None:
    sites = [with_wrong_labels("here", "boosting", 0.4), with_wrong_labels("b", "logistic", 0.0)]
    shares = {}
    for variant in ("cv", "held_out", "pooled"):
        method = stacking(variant=variant)
        run_method(method, sites)
        shares[variant] = method_share(method, sites[0])
    assert shares["pooled"] > 0.9
    assert max(shares["cv"], shares["held_out"]) < 0.5
    method = stacking(variant="auto")
    run_method(method, sites)
    assert method.predict_with_details(sites[0], sites[0].test.X)[1]["variant"] != "pooled"


def method_share(method: Stacking, site: Site) -> float:
    share = method.predict_with_details(site, site.test.X)[1]["contribution"]["self"]["impurity"]
    assert share is not None
    return float(share)


def test_the_own_model_compared_with_is_that_of_all_other_methods_also_where_rows_are_pooled() -> None:
    sites = sites_of("a", "b")
    local = Local(folds=2)
    run_method(local, sites)
    alone = [answer(local, site, site.test.X) for site in sites]
    for variant in ("cv", "pooled"):
        method = stacking(variant=variant)
        run_method(method, sites)
        for site, expected in zip(sites, alone, strict=True):
            assert np.allclose(method.predict_with_details(site, site.test.X)[1]["own"], expected)


def test_the_first_round_sends_models_and_features_and_the_second_scores() -> None:
    site, peer = sites_of("a", "b")
    method = stacking()
    first = method.share(site, 0)
    assert set(first) == {"models", "classes", "features", "defaults"}
    assert first["features"] == [[f"f{place}", []] for place in range(4)]
    assert first["defaults"][2] == pytest.approx(float(np.median(np.asarray(site.train.X)[:, 2])))
    method.absorb(site, 0, {"a": first, "b": method.share(peer, 0)})
    second = method.share(site, 1)
    assert set(second) == {"contribution"}
    assert second.nbytes < 1000


def test_scores_are_summed_by_site_with_the_own_apart_and_everybody_gets_all_rows_of_the_graph() -> None:
    sites = sites_of("a", "b", "c", recipes=("logistic", "mlp"))
    method = stacking(epochs=2)
    run_method(method, sites)
    graphs = [method.predict_with_details(site, site.test.X)[1]["contributions"] for site in sites]
    assert graphs[0] == graphs[1] == graphs[2]
    assert set(graphs[0]) == {"a", "b", "c"}
    for site in sites:
        row = graphs[0][site.name]
        details = method.predict_with_details(site, site.test.X)[1]
        assert row == details["contribution"]
        assert set(row["impurity"]) == set(row["permutation"]) == {"a", "b", "c"} - {site.name}
        assert sum(row["impurity"].values()) + row["self"]["impurity"] == pytest.approx(1)
        trust = dict(zip(details["models"], details["trust"][0], strict=True))
        assert len(trust) == 6
        for other in row["impurity"]:
            assert row["impurity"][other] == pytest.approx(trust[f"logistic@{other}"] + trust[f"mlp@{other}"])


def test_scores_that_cannot_be_read_are_told_and_cost_nobody_else() -> None:
    site = sites_of("a")[0]
    method = stacking()
    method.share(site, 0)
    method.absorb(site, 0, {})
    good = {"impurity": {"a": 0.4}, "permutation": None, "self": {"impurity": 0.6, "permutation": None}}
    inbox = {"b": Parcel(contribution=good), "c": Parcel(contribution="all mine"), "d": Parcel(note=1)}
    bad = {"impurity": {"a": "much"}, "permutation": None, "self": {}}
    method.absorb(site, 1, {**inbox, "e": Parcel(contribution=bad)})
    assert set(site.state["contributions"]) == {"a", "b"}
    assert set(site.state[PEERS_LEFT_OUT]) == {"scores@c", "scores@d", "scores@e"}
    assert "expected finite scores by site" in site.state[PEERS_LEFT_OUT]["scores@c"]


def test_a_site_with_one_class_keeps_its_own_models_and_says_so() -> None:
    sites = awkward("logistic")
    method = stacking()
    with pytest.warns(UserWarning, match="does without"):
        run_method(method, sites)
    lone = next(site for site in sites if site.name == "one class")
    assert lone.state[FELL_BACK] == {
        "to": "own models",
        "why": "site 'one class' cannot stack: the rows hold one class only: the own models answer, all alike",
    }
    details = method.predict_with_details(lone, lone.test.X)[1]
    assert details["fallback"].all()
    assert np.allclose(answer(method, lone, lone.test.X), details["own"])
    assert details["contribution"]["self"] == {"impurity": 1.0, "permutation": None}
    assert set(details["contribution"]["impurity"].values()) == {0.0}
    assert all(FELL_BACK not in site.state for site in sites if site is not lone)


@pytest.mark.parametrize("val", [[], [1, 1, 1]])
def test_where_the_variants_rows_are_none_or_of_one_class_all_rows_are_used(val: list[int]) -> None:
    sites = [table_site("a", LABELS, val, LABELS), *sites_of("b")]
    method = stacking(variant="held_out")
    run_method(method, sites)
    assert [method.predict_with_details(site, site.test.X)[1]["variant"] for site in sites] == ["cv", "held_out"]
    assert not method.predict_with_details(sites[0], sites[0].test.X)[1]["fallback"].any()


def test_a_class_that_the_site_lacks_has_no_probability() -> None:
    sites = [table_site("a", [0, 1] * 12, [0, 1] * 3, [0, 1, 2] * 3), *sites_of("b")]
    method = stacking()
    run_method(method, sites)
    assert (answer(method, sites[0], sites[0].test.X)[:, 2] == 0).all()


def test_a_site_that_hears_nobody_stacks_its_own_models() -> None:
    site = sites_of("a")[0]
    method = stacking()
    method.absorb(site, 0, {})
    assert method.predict_with_details(site, site.test.X)[1]["models"] == ["logistic@a"]
    assert method.predict_with_details(site, site.test.X)[1]["contribution"]["self"]["impurity"] == 1
    assert answer(method, site, site.test.X).shape == (12, 3)


def test_a_site_that_comes_for_the_second_round_alone_still_answers() -> None:
    site = sites_of("a")[0]
    method = stacking()
    method.absorb(site, 1, {})
    assert answer(method, site, site.test.X).shape == (12, 3)
    late = site.replace(state={})
    assert len(method.share(late, 1)) == 0
    assert np.allclose(answer(method, late, late.test.X), method.predict_with_details(late, late.test.X)[1]["own"])


def test_more_models_than_rows() -> None:
    sites = [table_site("few", [0, 1, 2, 0], [], [0, 1, 2]), *sites_of(*"bcdefgh")]
    method = stacking()
    run_method(method, sites)
    assert len(method.predict_with_details(sites[0], sites[0].test.X)[1]["models"]) == 8
    assert np.allclose(answer(method, sites[0], sites[0].test.X).sum(axis=1), 1)


def test_images_and_sequences_are_stacked_as_they_are() -> None:
    sites = sequence_sites("cnn1d")
    method = stacking(epochs=1)
    parcel = method.share(sites[0], 0)
    assert parcel["features"] == []
    assert parcel["defaults"] == []
    run_method(method, sites)
    assert method.predict_with_details(sites[0], sites[0].test.X)[1]["models"] == ["cnn1d@left", "cnn1d@right"]


def test_no_test_row_is_used_whatever_its_label_or_its_values() -> None:
    """Canaries: every test label and value is replaced by nonsense; the trained states stay the same bytes."""
    keeps = {True: Keep(), False: Keep()}

    def trained(spoil: bool, variant: Any) -> list[tuple[bytes, Any]]:
        sites = hospitals("logistic", keep=keeps[spoil])[:2]
        if spoil:
            sites = [
                site.replace(test=Rows(np.full_like(site.test.X, 9999.0), (site.test.y + 1) % len(site.classes)))
                for site in sites
            ]
        run_method(stacking(variant=variant, meta="logistic"), sites)
        return [pack({k: v for k, v in site.state.items() if k not in ("seconds", "run")}) for site in sites]

    for variant in ("cv", "held_out", "pooled", "auto"):
        assert trained(False, variant) == trained(True, variant), variant


@pytest.mark.slow
def test_a_run_keeps_contributions_with_the_predictions_whatever_the_number_of_workers(tmp_path: Path) -> None:
    found = []
    for workers in (1, 2):
        folder = RunFolder(tmp_path / str(workers))
        with open_workers(None, workers) as team:
            run = MethodRun("stacking", stacking(), sites_of("a", "b", "c"), folder, team, lambda event: None)
            found.append(run.finish())
    for name in "abc":
        one, two = (each[name] for each in found)
        assert np.array_equal(one["probabilities"], two["probabilities"])
        assert one["details"]["contribution"] == two["details"]["contribution"] == one["details"]["contributions"][name]
        assert one["took_part"] == [0, 1]
        assert one["fell_back"] is None


def test_a_state_that_was_kept_answers_the_same() -> None:
    sites = sites_of("a", "b")
    method = stacking(variant="pooled")
    run_method(method, sites)
    before = answer(method, sites[0], sites[0].test.X)
    sites[0].state = unpack(*pack(sites[0].state))
    assert np.array_equal(answer(method, sites[0], sites[0].test.X), before)


def test_the_answer_is_the_meta_models_of_what_the_pool_says() -> None:
    sites = sites_of("a", "b")
    method = stacking(variant="held_out", meta="logistic")
    run_method(method, sites)
    a = sites[0]
    names = method.predict_with_details(a, a.test.X)[1]["models"]
    said = np.stack([OnnxModel(a.state["pool"][name]).predict_logits(a.test.X) for name in names], axis=1)
    meta = OnnxModel(a.state["learner"]["fitted"]["meta"])
    columns = softmax(said.astype(np.float32)).reshape(len(a.test), -1)
    assert np.allclose(meta.predict_proba(columns), answer(method, a, a.test.X), atol=1e-5)


def test_another_public_model_goes_to_the_others_and_the_private_one_stays() -> None:
    sites = sites_of("a", "b")
    method = stacking(public="mlp", epochs=1)
    run_method(method, sites)
    assert method.predict_with_details(sites[0], sites[0].test.X)[1]["models"] == ["logistic@a", "mlp@b"]


def test_features_with_a_type_of_their_own_cost_that_peer_alone() -> None:
    a, b, c = sites_of("a", "b", "c")
    b = b.replace(
        features=(Feature("f0", ("low", "high")), *b.features[1:]),
        train=Rows(np.nan_to_num(np.asarray(b.train.X) > 0).astype(np.float32), b.train.y),
        val=b.val.take(slice(0, 0)),
    )
    method = stacking()
    with pytest.warns(UserWarning, match="does without"):
        run_method(method, [a, b, c])
    assert method.predict_with_details(a, a.test.X)[1]["models"] == ["logistic@a", "logistic@c"]
    assert a.state[PEERS_LEFT_OUT] == {
        "*@b": "DataError: feature 'f0' is a category at site 'b' and a number here: expected the same type. Rename "
        "one of them, or recode it."
    }
