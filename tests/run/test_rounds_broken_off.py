"""Rounds that were killed, lost a worker or found their files damaged: they go on to the same numbers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from round_methods import Drift, Gossip, federation
from round_runs import HERE, Tree, differences, run

from peerwise.run import RunFolder
from peerwise.run.method_run import MethodRun
from peerwise.run.participation import Participation

KILLED = """
import sys
from pathlib import Path
from round_methods import *
from peerwise.run import RunFolder
from peerwise.run.method_run import MethodRun
from peerwise.run.participation import Participation
out, tried, site, round, gossip = sys.argv[1:]
kind = Gossip if gossip == "yes" else Drift
away = Participation(absent={"site-2": [2]})
method = kind(6, folder=tried, kill=(site, int(round)), fails={"site-1": ("share", 2)})
MethodRun("toy-s0", method, federation(4), RunFolder(out), 1, lambda event: None, away).finish()
"""


@pytest.mark.parametrize(
    ("site", "round", "kind"), [("site-0", 0, "no"), ("site-3", 2, "no"), ("site-3", 3, "yes"), ("site-2", 5, "no")]
)
def test_killed_in_the_midst_of_a_round_it_goes_on_there(tmp_path: Path, site: str, round: int, kind: str) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", KILLED, tmp_path / "run", tried, site, str(round), kind]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stderr
    method = (Gossip if kind == "yes" else Drift)(6, folder=str(tried), fails={"site-1": ("share", 2)})
    away = Participation(absent={"site-2": [2]})
    found = run(tmp_path / "run", method, participation=away)
    shares = Counter(tuple(path.name.split(".")[:2]) for path in tried.iterdir() if path.name != "killed")
    assert shares.pop((site, str(round))) == 2
    assert set(shares.values()) == {1}, "nothing else was done twice, not even what failed"
    shutil.rmtree(tried)
    tried.mkdir()
    assert not differences(found, run(tmp_path / "whole", method, participation=away))


TWO_WORKERS = """
import sys
from round_methods import *
from peerwise.run import RunFolder
from peerwise.run.method_run import MethodRun
MethodRun("toy-s0", Drift(40, pause=0.02), federation(4), RunFolder(sys.argv[1]), 2, lambda event: None).finish()
"""


def test_killed_while_its_workers_are_busy_it_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", TWO_WORKERS, tmp_path / "run"]
    for least in (3, 11):
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
        until = time.monotonic() + 100
        while newest_round(tmp_path / "run") < least:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        process.kill()
        process.wait()
    told: list[Tree] = []
    found = run(tmp_path / "run", Drift(40), told=told)
    assert 3 < next(event["round"] for event in told if event["event"] == "round") < 40
    assert "warning" not in {event["event"] for event in told}
    assert not differences(found, run(tmp_path / "whole", Drift(40)))


def newest_round(folder: Path) -> int:
    return max((int(path.suffix[1:]) for path in folder.glob("rounds/toy-s0/round.*")), default=-1)


def test_a_killed_worker_is_replaced_and_its_site_done_again(tmp_path: Path) -> None:
    told: list[Tree] = []
    method = Drift(6, folder=str(tmp_path), kill=("site-1", 3))
    found = run(tmp_path / "run", method, workers=2, told=told)
    assert Counter(event["event"] for event in told)["worker lost"] == 1
    assert not differences(found, run(tmp_path / "whole", Drift(6)))


def broken_off(folder: Path, round: int = 4) -> Path:
    """Stop in the midst of a round; where its files lie."""

    class Stop(Exception):
        pass

    def tell(event: Tree) -> None:
        if event["event"] == "round" and event["round"] == round:
            raise Stop

    with pytest.raises(Stop):
        MethodRun("toy-s0", Drift(), federation(4), RunFolder(folder), 1, tell).finish()
    return folder / "rounds" / "toy-s0"


@pytest.mark.parametrize("file", ["state.4.site-2", "best..site-1", "told.4", "memory.4", "round.4"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone"])
def test_damage_is_noticed_and_what_was_done_after_the_last_whole_round_is_done_again(
    tmp_path: Path, file: str, damage: str
) -> None:
    path = broken_off(tmp_path / "run") / file
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        changed = bytes([*data[:-9], data[-9] ^ 1, *data[-8:]])
        path.write_bytes({"cut": data[:-5], "changed": changed, "empty": b""}[damage])
    told: list[Tree] = []
    found = run(tmp_path / "run", Drift(), told=told)
    (warning,) = [event for event in told if event["event"] == "warning"]
    assert "from the beginning" in warning["why"]
    assert [event["round"] for event in told if event["event"] == "round"] == list(range(6))
    assert not differences(found, run(tmp_path / "whole", Drift()))


def test_the_round_before_is_used_where_it_is_still_there(tmp_path: Path) -> None:
    shutil.copytree(broken_off(tmp_path / "run", 3), tmp_path / "before")
    shutil.rmtree(tmp_path / "run")
    files = broken_off(tmp_path / "run", 4)
    for path in (tmp_path / "before").iterdir():
        if not (files / path.name).exists():
            shutil.copy(path, files)
    (files / "state.4.site-0").write_bytes(b"")
    told: list[Tree] = []
    found = run(tmp_path / "run", Drift(), told=told)
    assert [event["round"] for event in told if event["event"] == "round"] == [4, 5]
    (warning,) = [event["why"] for event in told if event["event"] == "warning"]
    assert warning.endswith("Going on after round 3.")
    assert not differences(found, run(tmp_path / "whole", Drift()))
