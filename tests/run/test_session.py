"""A session that is saved and restored after every step gives the same numbers as one that stays in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from round_methods import Drift, Gossip, Letters, Silent
from round_methods import federation as chance_sites

from peerwise.checks.method import awkward_sites
from peerwise.data import Site
from peerwise.federation import RUN, Broadcast, Session, answer, answer_with_details, combine, combines
from peerwise.methods import Method, OneShot, make_method
from peerwise.models import one_thread
from peerwise.parcels import Keep, Parcel, pack, unpack
from peerwise.run import run_method
from peerwise.trust import UniformAverage

Packed = tuple[bytes, dict[str, bytes]]
TRAINED = {"rounds": 3, "lr": 0.1}
REAL: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "peerwise": ({}, ("logistic", "forest")),
    "stacking": ({}, ("logistic", "forest")),
    "fedavg": (TRAINED, ("mlp",)),
    "fedbn": (TRAINED, ("mlp",)),
    "fedproto": (TRAINED, ("mlp",)),
    "fedtgp": (TRAINED, ("mlp",)),
    "fedmosaic": (TRAINED, ("mlp",)),
    "fedkd": (TRAINED, ("mlp",)),
    "ditto": (TRAINED, ("mlp",)),
    "scaffold": (TRAINED, ("mlp",)),
    "local_rounds": (TRAINED, ("mlp",)),
}


class InPlace(Drift):
    """Changes its weights where they lie, also those that did best so far."""

    def share(self, site: Site, round: int) -> Parcel:
        site.state["w"][:] += site.rng(f"round {round}").normal(size=self.size).astype(np.float32)
        return Parcel(w=site.state["w"])


class Saved:
    """Sites that are made anew for every step; between steps, sessions are packed as bytes."""

    def __init__(self, method: Method, sites: Callable[[], list[Site]]) -> None:
        self.method, self.sites = method, sites
        self.states: dict[str, Packed] = {}
        self.best: dict[str, Packed] = {}

    def step(self, name: str, round: int | None, last: Broadcast | None, shares: bool = True) -> Packed | None:
        site = next(site for site in self.sites() if site.name == name)
        state = unpack(*self.states[name]) if name in self.states else None
        best = unpack(*self.best[name]) if name in self.best else None
        parcel = Parcel()
        with one_thread():
            session = Session(self.method, site, state, best)
            if round is None:
                session.finish(last)
            else:
                parcel = session.step(last, round, shares=shares)
        self.states[name] = pack(site.state)
        if session.improved:
            self.best[name] = pack(session.best or {})
        return parcel.encode() if parcel else None

    def finished(self) -> list[Site]:
        found = self.sites()
        for site in found:
            site.state = unpack(*self.states[site.name])
        return found


def step_by_step(method: Method, sites: Callable[[], list[Site]]) -> list[Site]:
    """All rounds, with every session saved and restored between steps."""
    saved, names = Saved(method, sites), [site.name for site in sites()]
    last: Broadcast | None = None
    memory: dict[str, Any] = {}
    for round in range(method.rounds):
        sent = {name: saved.step(name, round, last) for name in names}
        inbox = {name: Parcel.decode(*packed) for name, packed in sorted(sent.items()) if packed is not None}
        if inbox or not combines(method):
            with one_thread():
                last, memory = combine(method, round, inbox, memory, 0)
    for name in names:
        saved.step(name, None, last)
    return saved.finished()


def assert_same(method: Method, expected: list[Site], found: list[Site]) -> None:
    for one, other in zip(expected, found, strict=True):
        with one_thread():
            answers = [answer(method, site, site.test.X) for site in (one, other)]
        assert np.array_equal(*answers), one.name
        for key in ("sent", "received", "took_part", "absorbed", "best_round", "best_score"):
            assert one.state[RUN].get(key) == other.state[RUN].get(key), (one.name, key)


@pytest.mark.parametrize("name", REAL)
def test_saved_and_restored_sessions_give_what_one_process_gives(name: str) -> None:
    settings, recipes = REAL[name]
    method = make_method(name, settings, folds=2, epochs=2)
    sites = partial(awkward_sites, recipes)
    expected = sites()
    run_method(method, expected)
    keep = Keep()

    def kept() -> list[Site]:
        return [site.replace(keep=keep) for site in sites()]

    assert_same(method, expected, step_by_step(method, kept))


@pytest.mark.parametrize("method", [Drift(), Gossip(), Letters(), Silent(), InPlace(), Drift(rounds=1)])
def test_restarts_do_not_matter_however_a_method_combines(method: Method) -> None:
    expected = chance_sites(4)
    run_method(method, expected)
    assert_same(method, expected, step_by_step(method, partial(chance_sites, 4)))


def test_a_broadcast_is_absorbed_once() -> None:
    saved = Saved(Drift(rounds=2), partial(chance_sites, 1))
    saved.step("site-0", 0, None)
    last = Broadcast(0, Parcel(w=np.ones(5, np.float32), who=["site-0"]))
    saved.step("site-0", 1, last, shares=False)
    once = unpack(*saved.states["site-0"])
    saved.step("site-0", 1, last, shares=False)
    again = unpack(*saved.states["site-0"])
    assert again["heard"] == once["heard"] == [[0, ["site-0"]]]
    assert again[RUN]["took_part"] == [0]


def test_a_site_that_comes_late_absorbs_the_last_broadcast() -> None:
    saved = Saved(Drift(rounds=4), partial(chance_sites, 1))
    saved.step("site-0", 3, Broadcast(2, Parcel(w=np.ones(5, np.float32), who=["others"])))
    saved.step("site-0", None, None)
    state = unpack(*saved.states["site-0"])
    assert state[RUN]["took_part"] == [3]
    assert state[RUN]["absorbed"] == 2
    assert state["heard"] == [[2, ["others"]]]


def test_what_is_guaranteed_counts_the_rounds_after_the_best_one_too() -> None:
    found = step_by_step(Drift(rounds=6), partial(chance_sites, 4))
    assert all(site.state[RUN]["privacy"]["rounds"] == 6 for site in found)
    assert any(site.state[RUN]["best_round"] < 5 for site in found), "so that it matters"


class Sureness(Method):
    """Right in every round, but more or less sure of it."""

    rounds = 4
    sure = (0.6, 0.9, 0.9, 0.7)

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        site.state["sure"] = self.sure[round]

    def predict_proba(self, site: Site, X: Any) -> Any:
        likely = np.eye(len(site.classes))[site.val.y]
        return site.state["sure"] * likely + (1 - site.state["sure"]) * (1 - likely) / (len(site.classes) - 1)


def test_the_validation_loss_decides_between_rounds_of_equal_score_then_the_earlier_round() -> None:
    [site] = [site for site in awkward_sites() if site.name == "full"]
    session = Session(Sureness(), site)
    for round in range(4):
        session.step(Broadcast(round - 1, {}) if round else None, round)
    session.finish(Broadcast(3, {}))
    assert site.state[RUN]["best_score"] == 1.0
    assert site.state[RUN]["best_round"] == 1
    assert site.state["sure"] == 0.9


class Contrary(OneShot):
    """Answers otherwise than the learner, whose details it inherits."""

    def predict_proba(self, site: Site, X: Any) -> Any:
        return super().predict_proba(site, X)[:, ::-1]


def test_a_subclass_that_changes_the_answers_alone_is_asked_for_them() -> None:
    method, sites = Contrary(UniformAverage(), folds=2, epochs=2), awkward_sites()
    run_method(method, sites)
    probabilities, details = answer_with_details(method, sites[0], sites[0].test.X)
    assert np.array_equal(probabilities, answer(method, sites[0], sites[0].test.X))
    assert details["trust"].shape[0] == len(probabilities)
