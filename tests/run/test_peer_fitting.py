"""Fitting at a real site: the same answers as in one process, and figures of rows that nothing was learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hospitals import Hospitals
from peer_sites import NAMES, TASK, Sites, copied, formed, mislabeled, table

from peerwise.data import Rows, Site
from peerwise.data.task import read_inputs
from peerwise.errors import ConfigError, DataError
from peerwise.federation import Session, answer
from peerwise.methods import pool_models
from peerwise.methods.own_models import mean_probabilities
from peerwise.metrics import accuracy
from peerwise.models import OnnxModel, one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel, sha256
from peerwise.run import run_method
from peerwise.run.peer import PeerFolder, fit, in_use, method_of, outbox, predict, publish, pull, status, withdraw
from peerwise.run.peer.arrivals import parcel_of
from peerwise.run.peer.fitting import unlearned_answers
from peerwise.run.peer.training import trained

SETTINGS = {"stacking": {"meta": "logistic"}}  # which is quicker than a forest


def fitted(sites: Sites, worker: Worker, at: str = "north") -> dict[str, Any]:
    return fit(sites[at], worker, sites.transport(at), use_peers=True)


def joined(sites: Sites, worker: Worker, method: str, **settings: Any) -> Sites:
    """All sites have settled on a method, published, and pulled from each other without being asked."""
    for name in sites:
        sites.change(name, method=method, ask="never", method_settings=SETTINGS.get(method, {}), **settings)
        sites.publish(name)
    for name in sites:
        sites.pull(name, worker)
    return sites


@pytest.fixture(scope="module")
def with_nets(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    return formed(tmp_path_factory.mktemp("nets"), models=["mlp"])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    """Sites with rows enough for their figures to say something."""
    root = tmp_path_factory.mktemp("large")
    sites = formed(root)
    for name in sites:
        table(name, count=360).to_csv(root / f"{name}.csv", index=False)
    return sites


@pytest.mark.parametrize(
    "method", ["peerwise", "knorae", "global_ensemble", "local", "peerwise_open", "fedov", "stacking"]
)
def test_every_site_answers_as_in_one_process(
    method: str, formed_once: Sites, with_nets: Sites, worker: Worker, tmp_path: Path
) -> None:
    nets = method in ("peerwise_open", "fedov")
    sites = joined(copied(with_nets if nets else formed_once, tmp_path), worker, method)
    expected = [sites[name].site() for name in NAMES]
    run_method(method_of(sites["north"]), expected)
    for site in expected:
        told = fitted(sites, worker, site.name)
        assert set(told["peers"]) == set(NAMES) - {site.name}
        assert told["left_out"] == {}
        for name in NAMES:
            file = sites.root / f"{name}.csv"
            with one_thread():
                same = answer(method_of(sites["north"]), site, read_inputs(TASK, file).X)
            assert np.array_equal(predict(sites[site.name], file, worker).probabilities, same)


def test_four_hospitals_over_a_folder_answer_as_a_simulation_does(tmp_path: Path, worker: Worker) -> None:
    names = ["cleveland", "hungarian", "long_beach", "switzerland"]
    hospitals = Hospitals(tmp_path, names, method="peerwise", models=["logistic"])
    hospitals.begin()
    for name in names:
        publish(hospitals.peer(name), outbox(hospitals.peer(name)))
    expected = hospitals.expected()
    for name in names:
        pull(hospitals.peer(name), outbox(hospitals.peer(name)), worker)
        assert len(fit(hospitals.peer(name), worker, use_peers=True)["peers"]) == 3
        assert np.array_equal(hospitals.answers(name), expected[name])


@pytest.mark.parametrize("method", ["peerwise", "knorae", "stacking", "global_ensemble"])
def test_a_validation_rows_own_label_does_not_change_what_is_said_of_it(
    method: str, formed_once: Sites, worker: Worker, tmp_path: Path
) -> None:
    sites = joined(copied(formed_once, tmp_path), worker, method)
    made, site = method_of(sites["north"]), sites["north"].site()
    Session(made, site)
    parcels = {name: parcel_of(sites["north"], arrival) for name, arrival in in_use(sites["north"]).items()}
    told = {"north": Session(made, site, site.state).step(None, 0), **parcels}
    said, _ = unlearned_answers(made, site, told)
    for row in (0, 7):
        y = site.val.y.copy()
        y[row] = (y[row] + 1) % 3
        other, _ = unlearned_answers(made, site.replace(val=Rows(site.val.X, y)), told)
        assert np.array_equal(other[row], said[row])


class Canary(PeerFolder):
    """A site whose validation rows have wrong labels: whatever learns from them says so of them too."""

    def site(self) -> Site:
        site = super().site()
        return site.replace(val=Rows(site.val.X, (site.val.y + 1) % len(site.classes)))


@pytest.mark.parametrize("method", ["peerwise", "knorae", "neighbourhood", "stacking", "best_single"])
def test_the_figure_is_of_rows_that_nothing_was_learned_from(
    method: str, large: Sites, worker: Worker, tmp_path: Path
) -> None:
    sites = joined(copied(large, tmp_path), worker, method)
    true = fitted(sites, worker)["validation"]
    wrong = fit(Canary(sites.root / "north"), worker, sites.transport("north"), use_peers=True)["validation"]
    assert true["rows"] == wrong["rows"] == len(sites["north"].site().val) > 50
    assert true["accuracy"] > 0.6
    for figure in ("accuracy", "own_accuracy"):
        assert wrong[figure] <= 1 - true[figure] + 0.1, "no better than the mistakes that happen to be the label"


def test_the_figures_are_those_of_the_answers(fitted_sites: Sites, worker: Worker) -> None:
    told = fitted(fitted_sites, worker)["validation"]
    site = fitted_sites["north"].site()
    said = predict(fitted_sites["north"], fitted_sites.root / "north.csv", worker, 90)
    assert said.own is not None
    val = site.index["val"]
    own = said.own[val].argmax(axis=1)
    assert told["own_accuracy"] == accuracy(site.val.y, own)
    assert told["rows"] == len(val)
    assert told["accuracy"] - told["own_accuracy"] == pytest.approx((told["gained"] - told["lost"]) / told["rows"])
    better = (told["ours"] > told["own"]) - (told["ours"] < told["own"])
    words = {1: "better than", 0: "as good as", -1: "WORSE than"}
    assert told["verdict"].startswith(words[better])


def test_own_models_answer_where_they_did_better_unless_peers_are_asked_for(
    formed_sites: Sites, worker: Worker
) -> None:
    sites = joined(mislabeled(formed_sites, "south", "east"), worker, "global_ensemble")
    peer, rows = sites["north"], sites.root / "south.csv"
    told = fit(peer, worker)
    assert told["validation"]["worse"]
    assert told["own_models_answer"]
    said = predict(peer, rows, worker, 1)
    assert said.own_models_answer
    site = peer.site()
    own = mean_probabilities(site, trained(site).files, read_inputs(peer.task, rows, peer.mapping).X)
    np.testing.assert_array_equal(said.probabilities, own)
    assert status(peer)["bundle"]["own_models_answer"]

    assert not fit(peer, worker, use_peers=True)["own_models_answer"]
    kept = predict(peer, rows, worker)
    assert not np.array_equal(kept.probabilities, own)
    withdraw(sites["east"], sites.transport("east"), "a patient objected")
    sites.pull("north", worker)
    assert list(status(peer)["bundle"]["peers"]) == ["south"]
    assert not status(peer)["bundle"]["own_models_answer"], "a refit that nobody asked for keeps the choice"


def test_without_any_peer_the_own_models_answer(formed_sites: Sites, worker: Worker) -> None:
    for method in ("peerwise", "knorae", "stacking"):
        formed_sites.change("north", method=method, method_settings=SETTINGS.get(method, {}))
        assert fitted(formed_sites, worker)["peers"] == {}
        said = predict(formed_sites["north"], formed_sites.root / "south.csv", worker, 1)
        assert len(said.probabilities) == 90
        assert said.trust[0] == pytest.approx({"north": 1.0})


def test_no_file_of_a_peer_is_ever_opened_in_this_process(
    published_sites: Sites, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites, opened = published_sites, set()
    pool_models._runtime.cache_clear()
    begin = OnnxModel.__init__

    def watched(self: Any, data: bytes, *more: Any, **named: Any) -> None:
        opened.add(sha256(data))
        begin(self, data, *more, **named)

    monkeypatch.setattr(OnnxModel, "__init__", watched)
    (sites.root / "north" / "work").rename(sites.root / "forgotten")
    sites.pull("north", worker)
    for name in ("south", "east"):
        sites.accept("north", name)
    fitted(sites, worker)
    predict(sites["north"], sites.root / "south.csv", worker, 2)
    theirs = {path.name for name in ("south", "east") for path in (sites.root / "meeting" / name / "blobs").iterdir()}
    assert opened, "the watch sees what is opened"
    assert not opened & theirs


def test_contributions_are_told_to_those_who_pull_later(formed_sites: Sites, worker: Worker) -> None:
    sites = joined(formed_sites, worker, "stacking")
    for name in (*NAMES, "north"):
        fitted(sites, worker, name)
    shown = [name for name in NAMES if sites.shown(name, "afterwards").is_file()]
    assert shown == list(NAMES)


def test_contributions_that_cannot_be_read_are_left_out_and_named(formed_sites: Sites, worker: Worker) -> None:
    sites = joined(formed_sites, worker, "stacking")
    sites.signed("south").publish("afterwards", Parcel(contribution=np.array([np.nan])))
    assert "expected finite scores" in fitted(sites, worker)["left_out"]["scores@south"]


def test_contributions_that_cannot_be_fetched_are_noted(formed_sites: Sites, worker: Worker) -> None:
    sites = joined(formed_sites, worker, "stacking")
    sites.signed("south").publish("afterwards", Parcel(contribution=np.zeros(1)))
    sites.shown("south", "afterwards").write_bytes(b"{}")
    for _ in range(2):
        fitted(sites, worker)
    noted = [line for line in sites.told("north", "left out") if line["about"] == "afterwards"]
    assert [line["site"] for line in noted] == ["south"]


def test_a_method_with_rounds_is_not_fitted_from_what_is_published(formed_sites: Sites, worker: Worker) -> None:
    formed_sites.change("north", method="fedavg", models=["mlp"])
    with pytest.raises(ConfigError, match="expected a method that publishes models"):
        fitted(formed_sites, worker)


def test_a_method_that_needs_public_rows_says_so_before_it_trains(formed_sites: Sites, worker: Worker) -> None:
    formed_sites.change("north", method="distilled_vote", models=["mlp"])
    with pytest.raises(DataError, match="public"):
        fitted(formed_sites, worker)
    with pytest.raises(DataError, match="public"):
        formed_sites.publish("north")
    assert not (formed_sites.root / "north" / "work").exists()


def test_fitting_twice_changes_nothing(fitted_sites: Sites, worker: Worker) -> None:
    def answers() -> np.ndarray[Any, Any]:
        return predict(fitted_sites["north"], fitted_sites.root / "south.csv", worker).probabilities

    before, told = answers(), fitted(fitted_sites, worker)
    assert np.array_equal(answers(), before)
    assert told["validation"] == status(fitted_sites["north"])["bundle"]["validation"]
    assert [line["peers"].keys() for line in fitted_sites.told("north", "fitted")] == [{"south", "east"}] * 2


def test_another_method_makes_a_refit_due(fitted_sites: Sites, worker: Worker) -> None:
    assert status(fitted_sites["north"])["due"] == []
    fitted_sites.change("north", method="global_ensemble")
    assert "a refit is due: the bundle was made by knorae" in " ".join(status(fitted_sites["north"])["due"])
    fitted(fitted_sites, worker)
    assert status(fitted_sites["north"])["due"] == []


def test_peers_that_publish_for_another_method_are_named(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.change("north", method="stacking", method_settings=SETTINGS["stacking"], ask="never")
    sites.pull("north", worker)
    told = fitted(sites, worker)
    assert set(told["left_out"]) == {"*@south", "*@east"}
    assert predict(sites["north"], sites.root / "south.csv", worker, 1).trust[0] == pytest.approx({"north": 1.0})
