"""Rounds that were killed, lost a worker or found their files damaged: they go on to the same numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from round_methods import CountsNeighbors, Drift, Gossip, InPlace, federation
from round_runs import HERE, Tree, differences, opened, run

from peerwise.parcels import Parcel
from peerwise.run.participation import Participation

KILLED = """
import sys
from pathlib import Path
import peerwise.run.runner
from round_runs import *
from round_methods import *
out, tried, site, round, gossip, often = sys.argv[1:]
if often == "often":
    peerwise.run.runner.CHECKPOINT_SECONDS = peerwise.run.runner.CHECKPOINT_SHARE = 0
kind = Gossip if gossip == "yes" else Drift
method = kind(6, folder=tried, kill=(site, int(round)), fails={"site-1": ("share", 2)})
run(Path(out), method, participation=Participation(absent={"site-2": [2]}))
"""


@pytest.mark.parametrize("often", ["often", "seldom"])
@pytest.mark.parametrize(
    ("site", "round", "kind"), [("site-0", 0, "no"), ("site-3", 2, "no"), ("site-3", 3, "yes"), ("site-2", 5, "no")]
)
def test_killed_in_the_midst_of_a_round_it_goes_on_to_the_same_numbers(
    tmp_path: Path, site: str, round: int, kind: str, often: str
) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", KILLED, tmp_path / "run", tried, site, str(round), kind, often]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    method = (Gossip if kind == "yes" else Drift)(6, folder=str(tried), fails={"site-1": ("share", 2)})
    away = Participation(absent={"site-2": [2]})
    found = run(tmp_path / "run", method, participation=away)
    shares = Counter(tuple(path.name.split(".")[:2]) for path in tried.iterdir() if path.name != "killed")
    assert shares.pop((site, str(round))) == 2
    if often == "often":  # after each site: of a round, only what failed is tried again
        assert {key for key, count in shares.items() if count > 1} <= {("site-1", "2")}
    assert not differences(found, run(tmp_path / "whole", method, participation=away))


def test_what_stops_a_run_costs_none_of_its_rounds(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def tell(event: Tree) -> None:
        if event["event"] == "round" and event["round"] == 4:
            raise Stop

    with opened(tmp_path / "run", Drift(), federation(4), tell=tell) as made, pytest.raises(Stop):
        made.finish()
    events: list[Tree] = []
    found = run(tmp_path / "run", Drift(), events=events)
    assert [event["round"] for event in events if event["event"] == "round"] == [5]
    assert not differences(found, run(tmp_path / "whole", Drift()))


def test_what_stops_a_run_while_it_answers_costs_no_answer(tmp_path: Path) -> None:
    def tell(event: Tree) -> None:
        if event["event"] == "predicted" and event["site"] == "site-2":
            raise KeyboardInterrupt

    with opened(tmp_path / "run", Drift(), federation(4), tell=tell) as made, pytest.raises(KeyboardInterrupt):
        made.finish()
    events: list[Tree] = []
    found = run(tmp_path / "run", Drift(), events=events)
    assert [event["site"] for event in events if event["event"] == "predicted"] == ["site-3"]
    assert not differences(found, run(tmp_path / "whole", Drift()))


def test_a_step_that_was_interrupted_leaves_no_trace_in_the_state(tmp_path: Path) -> None:
    method = InPlace(str(tmp_path / "interrupted"))
    with opened(tmp_path / "run", method, federation(4)) as made, pytest.raises(KeyboardInterrupt):
        made.finish()
    assert not differences(run(tmp_path / "run", method), run(tmp_path / "whole", InPlace()))


def test_sites_are_asked_with_the_same_others_after_an_interruption(tmp_path: Path) -> None:
    sites = federation(300)  # three tasks
    answered: list[str] = []

    def tell(event: Tree) -> None:
        answered.extend([event["site"]] if event["event"] == "predicted" else [])
        if len(answered) == 130:
            raise KeyboardInterrupt

    method = CountsNeighbors(1)
    with opened(tmp_path / "run", method, sites, tell=tell) as made, pytest.raises(KeyboardInterrupt):
        made.finish()
    assert not differences(run(tmp_path / "run", method, sites), run(tmp_path / "whole", method, sites))


class InterruptedAt(dict[str, Parcel]):
    """Ctrl-C while the parcel of this site is noted, which is after its state and before that it is done."""

    def __init__(self, site: str) -> None:
        self.site = site

    def __setitem__(self, site: str, parcel: Parcel) -> None:
        if site == self.site:
            raise KeyboardInterrupt
        super().__setitem__(site, parcel)


def test_a_step_that_was_noted_by_half_is_taken_again_from_its_beginning(tmp_path: Path) -> None:
    with opened(tmp_path / "run", Drift(), federation(4)) as made:
        made.at.parcels = InterruptedAt("site-2")
        with pytest.raises(KeyboardInterrupt):
            made.finish()
    assert not differences(run(tmp_path / "run", Drift()), run(tmp_path / "whole", Drift()))


TWO_WORKERS = """
import sys
from pathlib import Path
import peerwise.run.runner
from round_runs import *
from round_methods import *
peerwise.run.runner.CHECKPOINT_SECONDS = peerwise.run.runner.CHECKPOINT_SHARE = 0
run(Path(sys.argv[1]), Drift(40, pause=0.02), workers=2)
"""


def test_killed_while_its_workers_are_busy_it_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", TWO_WORKERS, tmp_path / "run"]
    for changes in (10, 30):  # of the file
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
        seen: set[int] = set()
        until = time.monotonic() + 300
        while len(seen) < changes:
            assert process.poll() is None
            assert time.monotonic() < until
            seen |= {file.stat().st_mtime_ns for file in tmp_path.glob("run/states/toy-s0")}
            time.sleep(0.005)
        process.kill()
        process.wait()
    events: list[Tree] = []
    found = run(tmp_path / "run", Drift(40), events=events)
    assert 2 < next(event["round"] for event in events if event["event"] == "round") < 40
    assert "warning" not in {event["event"] for event in events}
    assert not differences(found, run(tmp_path / "whole", Drift(40)))


def test_a_killed_worker_is_replaced_and_its_site_done_again(tmp_path: Path) -> None:
    events: list[Tree] = []
    method = Drift(6, folder=str(tmp_path), kill=("site-1", 3))
    found = run(tmp_path / "run", method, workers=2, events=events)
    assert Counter(event["event"] for event in events)["worker lost"] == 1
    assert not differences(found, run(tmp_path / "whole", Drift(6)))


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_damage_is_noticed_and_the_run_begins_anew(tmp_path: Path, damage: str) -> None:
    whole = run(tmp_path / "run", Drift())
    (tmp_path / "run" / "predictions" / "toy-s0").unlink()
    path = tmp_path / "run" / "states" / "toy-s0"
    data = path.read_bytes()
    changed = bytes([*data[:-9], data[-9] ^ 1, *data[-8:]])
    path.write_bytes({"cut": data[:-5], "changed": changed, "empty": b""}[damage])
    events: list[Tree] = []
    assert not differences(whole, run(tmp_path / "run", Drift(), events=events))
    (warning,) = [event for event in events if event["event"] == "warning"]
    assert warning["why"].endswith("Going on from the beginning.")
    assert [event["round"] for event in events if event["event"] == "round"] == list(range(6))


def test_damaged_predictions_are_made_anew_from_the_trained_states(tmp_path: Path) -> None:
    whole = run(tmp_path / "run", Drift())
    path = tmp_path / "run" / "predictions" / "toy-s0"
    path.write_bytes(path.read_bytes()[:-5])
    events: list[Tree] = []
    assert not differences(whole, run(tmp_path / "run", Drift(), events=events))
    assert [event["event"] for event in events] == ["warning", *["predicted"] * 4]
    assert events[0]["why"].endswith("The sites answer anew.")
