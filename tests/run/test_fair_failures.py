"""Methods with rounds that fail: what answers instead has the same budget, and a broken method never becomes a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peerwise import Site, simulate
from peerwise.errors import ModelError
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.local_rounds import LocalRounds
from peerwise.parcels import Parcel

SMALL: dict[str, Any] = {"sites": 4, "rows": 400, "models": ["mlp"], "seeds": 1, "training": {"rounds": 2, "lr": 0.05}}


class FailsAtThree(FedAvg):
    """FedAvg that trains at the last site only."""

    def share(self, site: Site, round: int) -> Parcel:
        if site.name != "site-3":
            raise RuntimeError("diverged")
        return super().share(site, round)


class NeverTrains(FedAvg):
    """FedAvg that trains nowhere."""

    def share(self, site: Site, round: int) -> Parcel:
        raise RuntimeError("diverged")


class Explodes(FedAvg):
    """FedAvg whose weights are lost at learning rates above 1."""

    def share(self, site: Site, round: int) -> Parcel:
        parcel = super().share(site, round)
        if self.lr <= 0.1:
            return parcel
        return Parcel(weights={name: value * np.inf for name, value in parcel["weights"].items()}, rows=1)


class OneDiverges(FedAvg):
    """FedAvg with a site whose weights are no numbers."""

    def share(self, site: Site, round: int) -> Parcel:
        parcel = super().share(site, round)
        if site.name != "site-1":
            return parcel
        return Parcel(weights={name: value * np.nan for name, value in parcel["weights"].items()}, rows=10)


class CannotAnswer(LocalRounds):
    """Answers at one site alone."""

    def predict_proba(self, site: Site, X: Any) -> Any:
        if site.name != "site-3":
            raise RuntimeError("no answer")
        return super().predict_proba(site, X)


@pytest.fixture(autouse=True)
def offered(offer: Any) -> None:
    for kind in (FailsAtThree, NeverTrains, Explodes, OneDiverges, CannotAnswer):
        offer(kind.__name__.lower(), f"test_fair_failures:{kind.__name__}")


def test_where_a_method_with_rounds_fails_a_site_has_what_it_has_alone_for_the_same_budget() -> None:
    run = simulate("digits", methods=["local_rounds", "failsatthree"], **SMALL)
    for site in ("site-0", "site-1", "site-2"):
        tree = run.predictions[0, "failsatthree", site]
        assert tree["fell_back"]["to"] == "training alone"
        assert np.array_equal(tree["probabilities"], run.predictions[0, "local_rounds", site]["probabilities"])
    assert run.predictions[0, "failsatthree", "site-3"]["fell_back"] is None


@pytest.mark.parametrize("participation", [{}, {"join": 0.5}, {"absent": {"site-1": [0]}}])
def test_a_method_that_fails_wherever_it_is_tried_stops_the_run(participation: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="diverged"):
        simulate("digits", methods=["nevertrains"], **SMALL, **participation)


def test_a_learning_rate_whose_weights_cannot_be_averaged_is_one_that_is_not_chosen() -> None:
    run = simulate("digits", methods=["explodes"], tune=3, **{**SMALL, "training": {"rounds": 2, "lr": 0.09}})
    assert run.results["lr"].unique().tolist() != [pytest.approx(0.27)]
    assert run.results["fell_back_to"].eq("").all()
    with pytest.raises(ModelError, match=r"round 0 cannot be combined: .* none of the parcels of 4 sites .*lower the"):
        simulate("digits", methods=["explodes"], **{**SMALL, "training": {"rounds": 2, "lr": 5.0}})


@pytest.mark.parametrize("rounds", [1, 2])
def test_every_site_names_the_one_whose_parcels_could_not_be_used(rounds: int) -> None:
    run = simulate("digits", methods=["onediverges"], **{**SMALL, "training": {"rounds": rounds, "lr": 0.05}})
    assert run.results["fell_back_to"].eq("").all()
    for tree in run.predictions.values():
        assert list(tree["peers_left_out"]) == ["*@site-1"]
        assert "holds non-finite values" in tree["peers_left_out"]["*@site-1"]


def test_sites_that_cannot_answer_count_as_wrong_in_a_trial() -> None:
    """Not the others' mean: else a learning rate that breaks most sites could win."""
    events: list[dict[str, Any]] = []
    simulate("digits", methods=["cannotanswer"], tune=2, on_event=events.append, **SMALL)
    (tuned,) = [event for event in events if event["event"] == "tuned"]
    assert all(score <= 0.25 for score in tuned["scores"])
