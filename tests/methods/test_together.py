"""Many sites that share or answer in one call: the numbers of one by one, or one by one where that cannot be."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from small_federations import awkward, hospitals, table_site
from tiny_nets import begun, images

from peerwise.data import Inputs, Site
from peerwise.federation import RUN, AnswersTogether, Session, TrainsTogether, learned
from peerwise.methods.apfl import APFL
from peerwise.methods.by_rounds import ByRounds
from peerwise.methods.ditto import Ditto
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.feddyn import FedDyn
from peerwise.methods.fedgh import FedGH
from peerwise.methods.fedphp import FedPHP
from peerwise.methods.fedproto import FedProto
from peerwise.methods.fedprox import FedProx
from peerwise.methods.fedsam import FedSAM
from peerwise.methods.fedtgp import FedTGP
from peerwise.methods.lgfedavg import LGFedAvg
from peerwise.methods.local_rounds import LocalRounds
from peerwise.methods.moon import Moon
from peerwise.methods.scaffold import Scaffold
from peerwise.models.nets import Net
from peerwise.models.stacked import Pull
from peerwise.parcels import Parcel, frozen
from peerwise.run.work import Part, step_sites

STACKED = [FedAvg, FedProx, Scaffold, FedDyn, Ditto, Moon, LGFedAvg, FedProto, FedTGP, FedGH, LocalRounds]
ALONE = [FedSAM, APFL, FedPHP]
BUDGET: dict[str, Any] = {"rounds": 4, "local_epochs": 2, "batch_size": 8, "lr": 0.05}


class Heavier(FedAvg):
    """A third party's: it trains in its own way, one site at a time."""

    def learn(self, site: Site, net: Net, round: int) -> None:
        self.fit(site, net, round)
        self.fit(site, net, round, purpose="again")


class Nearer(FedAvg):
    """A third party's: it says what each step adds, in the one place that is read either way."""

    def pull(self, site: Site) -> Pull:
        return Pull(towards=site.state["net"], strength=1.0)


class Watched(FedAvg):
    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        self.stacked = [site.name for site in sites]
        return super().share_stacked(sites, round)


def furthest(one: Any, two: Any) -> float:
    """The largest difference of two trees of arrays with the same names, shapes and types."""
    if isinstance(one, dict | Parcel):
        assert set(one) == set(two)
        return max((furthest(one[key], two[key]) for key in one), default=0.0)
    one, two = np.asarray(one), np.asarray(two)
    assert (one.shape, one.dtype) == (two.shape, two.dtype)
    if one.dtype.kind != "f":
        assert np.array_equal(one, two)
        return 0.0
    assert np.array_equal(np.isnan(one), np.isnan(two))
    return float(np.nanmax(np.abs(one - two), initial=0.0))


def play_both(method: ByRounds, sites: list[Site], rounds: int = 3) -> float:
    """The largest difference in states, parcels and answers; each round begins from the states of one by one."""
    one, memory, most = begun(method, sites), {}, 0.0
    for round in range(rounds):
        two = copy.deepcopy(one)
        parcels = [method.share(site, round) for site in one]
        together = [
            method.share(site, round) if parcel is None else parcel
            for site, parcel in zip(two, method.share_together(two, round), strict=True)
        ]
        most = max(most, *map(furthest, parcels, together))
        most = max(most, *(furthest(a.state, b.state) for a, b in zip(one, two, strict=True)))
        if any(parcels):
            sent = {site.name: parcel for site, parcel in zip(one, parcels, strict=True)}
            broadcast, memory = method.combine(sent, memory, np.random.default_rng(round))
            for site in one:
                method.absorb(site, round, broadcast)
        asked: list[Inputs] = [site.train.X[: 1 + place] for place, site in enumerate(one)]
        answers = [method.predict_proba(site, X) for site, X in zip(one, asked, strict=True)]
        most = max(most, *map(furthest, answers, method.predict_proba_together(one, asked)))
    return most


@pytest.mark.parametrize("kind", [*STACKED, *ALONE, Heavier, Nearer])
def test_together_gives_the_numbers_of_one_by_one(kind: type[ByRounds]) -> None:
    # Sites with a lacking class, one class, two rows or one row, and hence with different numbers of steps.
    sites = [*awkward("mlp"), table_site("one row", [1], [], [0], "mlp")]
    assert play_both(kind(**BUDGET), sites) < 1e-5


@pytest.mark.parametrize("kind", [FedAvg, Ditto, FedProto])
def test_hospitals_with_missing_values_and_categories(kind: type[ByRounds]) -> None:
    assert play_both(kind(**BUDGET), hospitals("mlp"), rounds=2) < 1e-5


@pytest.mark.parametrize("kind", [FedAvg, LocalRounds])
def test_nets_with_convolutions_and_adam_are_trained_one_by_one(kind: type[ByRounds]) -> None:
    assert play_both(kind(**BUDGET), images((5, 9)), rounds=1) < 1e-5
    assert play_both(kind(**{**BUDGET, "optimizer": "adam"}), awkward("mlp"), rounds=1) < 1e-5


def test_sites_without_nets_are_among_the_local_ones() -> None:
    sites = [table_site("net", [0, 1, 2] * 4, [0], [1], "mlp"), table_site("no net", [0, 1, 2] * 4, [0], [1])]
    assert play_both(LocalRounds(**BUDGET), sites, rounds=2) < 1e-5


@pytest.mark.parametrize("kind", STACKED)
def test_methods_that_say_how_train_together(kind: type[ByRounds], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("trained alone")

    method = kind(**BUDGET)
    sites = begun(method, awkward("mlp"))
    monkeypatch.setattr("peerwise.methods.by_rounds.train", never)
    assert all(method.trains_together(sites))
    assert None not in method.share_together(sites, 0)


def test_who_may_share_together_can_be_asked() -> None:
    assert isinstance(FedAvg(), TrainsTogether)
    assert isinstance(FedAvg(), AnswersTogether)


def test_parcels_come_back_in_the_order_of_the_sites() -> None:
    method = Watched(**BUDGET)
    tables, pictures = awkward("mlp")[:2], images((5, 7))
    mixed = begun(method, [pictures[0], tables[0], pictures[1], tables[1]])
    found = method.share_together(mixed, 0)
    assert method.stacked == [site.name for site in tables]
    assert method.trains_together(mixed) == [False, True, False, True]
    assert [parcel is not None for parcel in found] == [False, True, False, True]
    for site, parcel in zip(mixed, found, strict=True):
        if parcel is not None:
            assert all(parcel["weights"][name] is site.state["net"][name] for name in parcel["weights"])


def test_what_stays_at_home_stays_there_whatever_nets_the_others_have() -> None:
    method = LGFedAvg(**BUDGET)
    sites = begun(method, images((4, 5, 6), "mlp64") + images((7, 8), "small_cnn"))
    for place, site in enumerate(sites):  # as after a round, in which each has learned a body of its own
        site.state["net"] = {name: array + place for name, array in site.state["net"].items()}
    parcel = Parcel(weights={name: sites[0].state["net"][name] * 3 for name in method.travelling(sites[0])})
    alone = copy.deepcopy(sites)
    for site in alone:
        method.absorb(site, 0, parcel)
    assert method.absorb_together(sites, 0, parcel)
    assert [furthest(a.state, b.state) for a, b in zip(sites, alone, strict=True)] == [0.0] * 5


class Counting(Heavier):
    """A third party's that changes what lies in its state, in place."""

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state |= {"shares": {"number": 0}, "rounds": np.zeros(4)}

    def learn(self, site: Site, net: Net, round: int) -> None:
        site.state["shares"]["number"] += 1
        site.state["rounds"][round] += 1
        super().learn(site, net, round)


@pytest.mark.parametrize("kind", [FedAvg, Ditto, Heavier, Counting])
def test_a_site_at_fault_changes_no_number_of_the_others(kind: type[FedAvg]) -> None:
    method, sites = kind(**BUDGET), awkward("mlp")
    sessions = [Session(method, site.replace(state={})) for site in sites]
    alone = [Session(method, site.replace(state={})) for site in sites[:-1]]
    ill = sessions[-1].site
    net = ill.state["net"]
    ill.state["net"] = {**net, "head.weight": np.full_like(net["head.weight"], 3e38)}
    parts = [Part(session.site, session.site.state, shares=True) for session in sessions]
    with pytest.warns(UserWarning, match="one by one: .*training loss became"):
        outcomes = step_sites(method, parts, None, 0)
    *others, failed = outcomes
    assert failed.failure is not None
    assert failed.failure["step"] == "share"
    assert "training loss became" in failed.failure["why"]
    for outcome, other in zip(others, alone, strict=True):
        assert furthest(outcome.parcel, other.step(None, 0)) == 0
        assert outcome.state is not None
        assert furthest({**outcome.state, RUN: {}}, {**frozen(learned(other.site)), RUN: {}}) == 0


def test_sites_begin_with_one_copy_of_the_common_weights() -> None:
    sites = begun(FedAvg(**BUDGET), awkward("mlp"))
    first = sites[0].state["net"]
    assert all(site.state["net"]["head.weight"] is first["head.weight"] for site in sites)
    assert not np.array_equal(sites[1].state["net"]["backbone.0.mean"], first["backbone.0.mean"])
