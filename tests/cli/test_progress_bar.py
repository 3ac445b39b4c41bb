"""The bar of a run: over rounds where there are many, over the sites' steps where there is one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from peerwise.cli.progress import Watch

METHOD: dict[str, Any] = {"event": "method", "method": "fedavg", "seed": 0, "sites": 3}


def state(watch: Watch) -> tuple[float, float | None]:
    """Of the newest bar: how far, of how much."""
    task = watch._bars.tasks[-1]
    return task.completed, task.total


def test_many_rounds_fill_the_bar_round_by_round() -> None:
    with Watch(quiet=True) as watch:
        watch({**METHOD, "rounds": 10})
        assert state(watch) == (0, 10)
        for round in range(4):
            watch({"event": "round", "round": round, "took_part": ["a"], "seconds": 0.1})
        assert state(watch) == (4, 10)
        for _ in range(3):
            watch({"event": "predicted"})
        assert state(watch) == (4, 10), "sites that answer are no rounds"


def test_a_run_that_goes_on_begins_where_it_was() -> None:
    with Watch(quiet=True) as watch:
        watch({**METHOD, "rounds": 10})
        watch({"event": "round", "round": 7, "took_part": [], "seconds": 0.1})
        assert state(watch) == (8, 10)


def test_one_round_is_told_by_the_sites_steps() -> None:
    with Watch(quiet=True) as watch:
        watch({**METHOD, "rounds": 1})
        for what in ("shared", "absorbed", "predicted"):
            watch({"event": what})
        assert state(watch) == (3, 9)
        watch({**METHOD, "rounds": 2, "lr": 0.1})
        assert watch._bars.tasks[0].completed == 9, "what was done before is not told one by one"
        assert "lr 0.1" in watch._bars.tasks[-1].description


def test_elsewhere_than_on_a_terminal_a_line_says_what_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Watch() as watch:
        watch({**METHOD, "rounds": 10, "lr": 0.03})
        for round in (3, 4):
            watch({"event": "round", "round": round, "took_part": ["a"], "seconds": 0.1})
        watch({**METHOD, "rounds": 1})
    assert capsys.readouterr().err.splitlines() == [
        "seed 0, fedavg, lr 0.03: 3 sites, 10 rounds",
        "going on from round 4",
        "seed 0, fedavg: 3 sites",
    ]


def test_a_bar_on_a_terminal_moves_with_every_event_and_needs_no_thread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    threads = threading.active_count()
    with Watch() as watch:
        watch({**METHOD, "rounds": 10})
        assert " 0/10" in capsys.readouterr().err
        watch({"event": "round", "round": 3, "took_part": ["a"], "seconds": 0.1})
        assert " 4/10" in capsys.readouterr().err
        watch({**METHOD, "rounds": 1})
        watch({"event": "shared"})
        assert "1/9" in capsys.readouterr().err
        assert threading.active_count() == threads
