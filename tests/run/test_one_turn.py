"""A site that is seen only when a message comes, and forgotten after it, comes to the same numbers."""

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
from peerwise.methods import Method, make_method
from peerwise.models import one_thread
from peerwise.parcels import Keep, Parcel, pack, unpack
from peerwise.run.one_turn import Told, take_turn
from peerwise.run.rounds import RUN, answer, combined, combines, run_method

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
    "local": (TRAINED, ("mlp",)),
}


class InPlace(Drift):
    """Changes its weights where they lie, also those that did best so far."""

    def share(self, site: Site, round: int) -> Parcel:
        site.state["w"][:] += site.rng(f"round {round}").normal(size=self.size).astype(np.float32)
        return Parcel(w=site.state["w"])


class Turns:
    """Sites that are made anew for every message; what they keep lies packed between them."""

    def __init__(self, method: Method, sites: Callable[[], list[Site]]) -> None:
        self.method, self.sites = method, sites
        self.states: dict[str, Packed] = {}
        self.best: dict[str, Packed] = {}

    def __call__(self, name: str, round: int | None, told: Told | None, shares: bool = True) -> Packed | None:
        site = next(site for site in self.sites() if site.name == name)
        state = unpack(*self.states[name]) if name in self.states else None
        best = unpack(*self.best[name]) if name in self.best else None
        turn = take_turn(self.method, site, state, round, told, best=best, shares=shares)
        self.states[name] = pack(turn.state)
        if turn.best is not None:
            self.best[name] = pack(turn.best)
        return turn.parcel.encode() if turn.parcel else None

    def finished(self) -> list[Site]:
        found = self.sites()
        for site in found:
            site.state = unpack(*self.states[site.name])
        return found


def by_messages(method: Method, sites: Callable[[], list[Site]]) -> list[Site]:
    """All rounds through a relay that knows of the sites nothing but their names and what they say."""
    turns, names = Turns(method, sites), [site.name for site in sites()]
    told: Told | None = None
    memory: dict[str, Any] = {}
    for round in range(method.rounds):
        said = {name: turns(name, round, told) for name in names}
        inbox = {name: Parcel.decode(*packed) for name, packed in sorted(said.items()) if packed is not None}
        if inbox or not combines(method):
            with one_thread():
                what, memory = combined(method, round, inbox, memory, 0)
            told = round, what
    for name in names:
        turns(name, None, told)
    return turns.finished()


def assert_same(method: Method, expected: list[Site], found: list[Site]) -> None:
    for one, other in zip(expected, found, strict=True):
        with one_thread():
            answers = [answer(method, site, site.test.X) for site in (one, other)]
        assert np.array_equal(*answers), one.name
        for key in ("sent", "received", "took_part", "heard", "best_round", "best_score"):
            assert one.state[RUN].get(key) == other.state[RUN].get(key), (one.name, key)


@pytest.mark.parametrize("name", REAL)
def test_turn_by_turn_gives_what_one_process_gives(name: str) -> None:
    settings, recipes = REAL[name]
    method = make_method(name, settings, folds=2, epochs=2, by_rounds="rounds" in settings)
    sites = partial(awkward_sites, recipes)
    expected = sites()
    run_method(method, expected)
    keep = Keep()

    def kept() -> list[Site]:
        found = sites()
        for site in found:
            site.keep = keep
        return found

    assert_same(method, expected, by_messages(method, kept))


@pytest.mark.parametrize("method", [Drift(), Gossip(), Letters(), Silent(), InPlace(), Drift(rounds=1)])
def test_however_a_method_tells_its_rounds(method: Method) -> None:
    expected = chance_sites(4)
    run_method(method, expected)
    assert_same(method, expected, by_messages(method, partial(chance_sites, 4)))


def test_what_is_told_twice_counts_once() -> None:
    turns = Turns(Drift(rounds=2), partial(chance_sites, 1))
    turns("site-0", 0, None)
    told = 0, Parcel(w=np.ones(5, np.float32), who=["site-0"])
    turns("site-0", 1, told, shares=False)
    once = unpack(*turns.states["site-0"])
    turns("site-0", 1, told, shares=False)
    again = unpack(*turns.states["site-0"])
    assert again["heard"] == once["heard"] == [[0, ["site-0"]]]
    assert again[RUN]["took_part"] == [0]


def test_a_site_that_comes_late_hears_what_was_told_last() -> None:
    turns = Turns(Drift(rounds=4), partial(chance_sites, 1))
    turns("site-0", 3, (2, Parcel(w=np.ones(5, np.float32), who=["others"])))
    turns("site-0", None, None)
    state = unpack(*turns.states["site-0"])
    assert state[RUN]["took_part"] == [3]
    assert state[RUN]["heard"] == 2
    assert state["heard"] == [[2, ["others"]]]


def test_what_is_guaranteed_counts_the_rounds_after_the_best_one_too() -> None:
    found = by_messages(Drift(rounds=6), partial(chance_sites, 4))
    assert all(site.state[RUN]["privacy"]["rounds"] == 6 for site in found)
    assert any(site.state[RUN]["best_round"] < 5 for site in found), "so that it matters"
