"""Methods with rounds where the hub, or what it had to combine, means harm: every site still has an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_sites import DAY, QUICK, TASK, Sites, admitted, asked, table

from peerwise.errors import ExchangeError
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel
from peerwise.run.peer import fit_by_rounds, found, hub, method_of, predict, renew

BUDGET: dict[str, Any] = {"rounds": 2, "local_epochs": 1}
TOLD: dict[str, Any] = {"run": 1, "round": 0, "heard": {}, "ever": [], "of": 0, "one": None, "named": None}


def begun(sites: Sites, method: str = "fedavg") -> dict[str, Any]:
    """All sites settle on a method with rounds; what its hub says first."""
    for name in sites:
        sites.change(name, method=method, method_settings=BUDGET, models=["mlp"], deadline=5.0, quorum=2)
    settings = {"method": method, "settings": BUDGET, "rounds": 2, "seed": sites["north"].settings.seed}
    return {"run": 1, "deadline": 5.0, **settings}


def fitted(sites: Sites, name: str, worker: Worker, **more: Any) -> list[str]:
    said: list[str] = []
    peer = sites[name]
    fit_by_rounds(peer, method_of(peer), sites.shelf(name), worker, use_peers=True, tell=said.append, **more)
    return said


def answers(sites: Sites, name: str, worker: Worker) -> np.ndarray[Any, Any]:
    found = predict(sites[name], sites.root / f"{name}.csv", worker).probabilities
    assert np.isfinite(found).all()
    return found


@pytest.mark.parametrize(
    "one",
    [
        {"weights": {"head.weight": np.full((3, 64), np.nan, np.float32)}},
        {"weights": {"head.weight": np.zeros((7, 7), np.float32)}},
        {"weights": ["a", "list"]},
        {"weights": 5},
        {},
        {"weights": {}, "left_out": {"*@x": 7}},
    ],
    ids=["not finite", "another shape", "a list", "a number", "nothing", "odd reasons"],
)
def test_what_a_hub_tells_and_no_site_can_use_leaves_it_with_its_own_net(
    one: dict[str, Any], formed_sites: Sites, worker: Worker
) -> None:
    exchange, run = formed_sites.exchange("north"), begun(formed_sites)
    exchange.say("run", Parcel(**run))
    exchange.say("told", Parcel(**{**TOLD, "round": 1, "of": 1, "one": one}))
    fitted(formed_sites, "south", worker)
    np.testing.assert_allclose(answers(formed_sites, "south", worker).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("topic", "odd"),
    [
        ("run", {"run": "1"}),
        ("run", {"deadline": 1e300}),
        ("run", {"more": 1}),
        ("told", {"round": "0"}),
        ("told", {"one": [1]}),
        ("told", {"named": {"south": 3}}),
        ("told", {"heard": ["\x1b[2J"]}),
        ("told", {"ever": ["../../south"]}),
    ],
    ids=str,
)
def test_a_hub_that_makes_no_sense_is_told_in_a_sentence(
    topic: str, odd: dict[str, Any], formed_sites: Sites, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "GRACE", 0.5)
    exchange, run = formed_sites.exchange("north"), begun(formed_sites)
    for name in formed_sites:
        formed_sites.change(name, deadline=0.5)
    said = {"run": {**run, "deadline": 0.5}, "told": {**TOLD, "round": 1}}
    for each in ("run", "told"):
        exchange.say(each, Parcel(**{**said[each], **(odd if topic == each else {})}))
    with pytest.raises(ExchangeError, match=rf"what the hub says on '{topic}' makes no sense"):
        fitted(formed_sites, "south", worker)


def test_a_round_in_which_only_nonsense_is_said_does_not_stop_the_hub(tmp_path: Path, worker: Worker) -> None:
    """The others have nothing to say in the first round of two, so there is nothing else to combine."""
    sites = Sites(tmp_path, ("north", "south"))
    rows = tmp_path / "public.csv"
    table("public").drop(columns="outcome").to_csv(rows, index=False)
    table("north").to_csv(tmp_path / "north.csv", index=False)
    budget = {**BUDGET, "period": 2}
    given = {**QUICK, "method": "fedmosaic", "method_settings": budget, "models": ["mlp"], "quorum": 2, "deadline": 5.0}
    meeting = {"folder": str(tmp_path / "meeting")}
    settings = {**given, "data": "../north.csv", "meeting": meeting}
    fingerprint = found(tmp_path / "north", settings, TASK, public=str(rows))["fingerprint"]
    admitted(sites, asked(tmp_path, "south", fingerprint, public=str(rows), **given))
    sites.exchange("south").say("run-1-round-0", Parcel(votes="nonsense"))
    sites.change("north", quorum=1)
    fitted(sites, "north", worker)
    why = [line["why"] for line in sites.told("north", "left out")]
    assert any("what was said cannot be combined" in each for each in why)
    answers(sites, "north", worker)


def test_nobody_keeps_a_site_from_speaking_by_what_he_lays_in_its_place(formed_sites: Sites, worker: Worker) -> None:
    begun(formed_sites)
    formed_sites.change("north", quorum=1)
    for topic in ("run-1-round-0", "run-1-round-1"):
        formed_sites.shown("north", topic).parent.mkdir(exist_ok=True)
        formed_sites.shown("north", topic).write_text("nothing of yours")
    said = fitted(formed_sites, "north", worker)
    assert [line for line in said if line.startswith("round")] == [
        "round 1 of 2: heard north",
        "round 2 of 2: heard north",
    ]


def test_a_run_begins_anew_after_all_that_was_said_before_has_ended(formed_sites: Sites, worker: Worker) -> None:
    begun(formed_sites)
    for name in formed_sites:
        formed_sites.change(name, quorum=1, valid_days=1)
    fitted(formed_sites, "north", worker)
    formed_sites.clock.ahead = 3 * DAY
    renew(formed_sites["north"], formed_sites.shelf("north"))
    said = fitted(formed_sites, "north", worker)
    assert any("round 2 of 2" in line for line in said)
