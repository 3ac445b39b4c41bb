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
from peerwise.run.peer import fit_by_rounds, found, method_of, predict, renew, rounds

BUDGET: dict[str, Any] = {"rounds": 2, "local_epochs": 1}
BLANK: dict[str, Any] = {"run": 1, "round": 0, "parcels": {}, "sites": [], "combined": 0, "content": None,
                         "left_out": {}}  # fmt: skip


def begun(sites: Sites, method: str = "fedavg") -> dict[str, Any]:
    """All sites settle on a method with rounds; the first broadcast of its hub."""
    for name in sites:
        sites.change(name, method=method, method_settings=BUDGET, models=["mlp"], deadline=5.0, quorum=2)
    settings = {"method": method, "settings": BUDGET, "rounds": 2, "seed": sites["north"].settings.seed}
    return {**BLANK, "deadline": 5.0, **settings}


def fitted(sites: Sites, name: str, worker: Worker, **more: Any) -> list[str]:
    lines: list[str] = []
    peer = sites[name]
    fit_by_rounds(peer, method_of(peer), sites.transport(name), worker, use_peers=True, tell=lines.append, **more)
    return lines


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
    ],
    ids=["not finite", "another shape", "a list", "a number", "nothing"],
)
def test_a_broadcast_that_no_site_can_use_leaves_it_with_its_own_net(
    one: dict[str, Any], formed_sites: Sites, worker: Worker
) -> None:
    signed, broadcast = formed_sites.signed("north"), begun(formed_sites)
    signed.publish("broadcast", Parcel(**{**broadcast, "round": 1, "combined": 1, "content": {"*": one}}))
    fitted(formed_sites, "south", worker)
    np.testing.assert_allclose(answers(formed_sites, "south", worker).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "odd",
    [
        {"run": "1"},
        {"deadline": 1e300},
        {"more": 1},
        {"round": "0"},
        {"content": [1]},
        {"content": {"*": [1]}},
        {"content": {"south": 3}},
        {"content": {"\x1b[2J": {}}},
        {"left_out": {"south": "why" * 1000}},
        {"left_out": {"south": 7}},
        {"left_out": {"\x1b[2J": "why"}},
        {"parcels": ["\x1b[2J"]},
        {"sites": ["../../south"]},
    ],
    ids=str,
)
def test_a_hub_that_makes_no_sense_is_an_error_in_a_sentence(
    odd: dict[str, Any], formed_sites: Sites, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "GRACE", 0.5)
    signed, broadcast = formed_sites.signed("north"), begun(formed_sites)
    for name in formed_sites:
        formed_sites.change(name, deadline=0.5)
    signed.publish("broadcast", Parcel(**{**broadcast, "deadline": 0.5, "round": 1, **odd}))
    with pytest.raises(ExchangeError, match="what the hub broadcasts makes no sense"):
        fitted(formed_sites, "south", worker)


def test_a_round_in_which_only_nonsense_is_shared_does_not_stop_the_hub(tmp_path: Path, worker: Worker) -> None:
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
    sites.signed("south").publish("run-1-round-0", Parcel(votes="nonsense"))
    sites.change("north", quorum=1)
    fitted(sites, "north", worker)
    why = [line["why"] for line in sites.told("north", "left out")]
    assert any("the parcels of round 0 cannot be combined" in each for each in why)
    answers(sites, "north", worker)


def test_files_put_in_its_place_do_not_keep_a_site_from_publishing(formed_sites: Sites, worker: Worker) -> None:
    begun(formed_sites)
    formed_sites.change("north", quorum=1)
    for topic in ("run-1-round-0", "run-1-round-1"):
        formed_sites.shown("north", topic).parent.mkdir(exist_ok=True)
        formed_sites.shown("north", topic).write_text("nothing of yours")
    lines = fitted(formed_sites, "north", worker)
    assert [line for line in lines if line.startswith("round")] == [
        "round 1 of 2: combined north",
        "round 2 of 2: combined north",
    ]


def test_a_run_begins_anew_after_all_that_was_published_before_has_expired(formed_sites: Sites, worker: Worker) -> None:
    begun(formed_sites)
    for name in formed_sites:
        formed_sites.change(name, quorum=1, valid_days=1)
    fitted(formed_sites, "north", worker)
    formed_sites.clock.ahead = 3 * DAY
    renew(formed_sites["north"], formed_sites.transport("north"))
    lines = fitted(formed_sites, "north", worker)
    assert any("round 2 of 2" in line for line in lines)
