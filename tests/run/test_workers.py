"""Worker processes: what the run notices of them, and what they take."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from peerwise.errors import StorageError
from peerwise.run.crew import LOST, spread

MEGABYTE = 2**20


def after(seconds: float, what: Any) -> Any:
    time.sleep(seconds)
    return what


def dies_at(place: int, deadly: int) -> int:
    if place == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


class Locked(OSError):
    """Cannot be sent to another process."""

    def __init__(self) -> None:
        super().__init__("nothing but this sentence can be sent")
        self.lock = threading.Lock()


def fails(error: type[Exception], *arguments: Any) -> None:
    raise error(*arguments)


def surroundings(name: str) -> tuple[str, str | None, str | None]:
    return os.getcwd(), os.environ.get(name), os.environ.get("OMP_NUM_THREADS")


def own_memory() -> int:
    return int(psutil.Process().memory_full_info().uss)


def stem_of_this_process() -> psutil.Process:
    (stem,) = [child for child in psutil.Process().children() if "peerwise.run.crew" in " ".join(child.cmdline())]
    return stem


def test_results_come_as_they_end_and_say_whose_they_are() -> None:
    assert list(spread(after, [(2.0, "slow"), (0.0, "fast"), (0.0, "next")], 2)) == [
        (1, "fast"),
        (2, "next"),
        (0, "slow"),
    ]
    assert list(spread(after, [], 2)) == []


def test_a_worker_that_is_ended_is_told_of_and_the_others_go_on() -> None:
    found = dict(spread(dies_at, [(place, 1) for place in range(5)], 2))
    assert found.pop(1) == LOST
    assert sorted(found) == [0, 2, 3, 4]
    assert all(pid > 0 for pid in found.values())


def test_an_error_is_raised_here_and_says_where_it_was() -> None:
    with pytest.raises(StorageError, match="no room") as caught:
        list(spread(fails, [(StorageError, "no room")], 2))
    assert "in fails\n    raise error(*arguments)" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="nothing but this sentence can be sent"):
        list(spread(fails, [(Locked,)], 2))


def test_workers_have_the_folder_and_environment_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        (tmp_path / value).mkdir()
        monkeypatch.chdir(tmp_path / value)
        monkeypatch.setenv("OF_THE_USER", value)
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        assert list(spread(surroundings, [("OF_THE_USER",)], 2)) == [(0, (str(tmp_path / value), value, "1"))]


def test_a_stem_that_was_killed_is_replaced() -> None:
    assert list(spread(after, [(0.0, 1)], 2)) == [(0, 1)]
    stem_of_this_process().kill()
    while LOST in (found := [result for _, result in spread(after, [(0.0, 1)], 2)]):
        pass
    assert found == [1]


def test_whoever_stops_asking_ends_the_workers_in_the_midst_of_work() -> None:
    asked = spread(after, [(0.0, 1), (600.0, 2)], 2)
    assert next(asked) == (0, 1)
    workers = stem_of_this_process().children()
    assert len(workers) == 2
    asked.close()  # type: ignore[attr-defined]
    until = time.monotonic() + 10
    while any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_worker_shares_the_libraries_it_needs_with_the_others() -> None:
    """A process that imports them for itself has some 300 MB of its own."""
    for _, own in spread(own_memory, [(), ()], 2):
        assert own < 60 * MEGABYTE


UNGUARDED = """
import os, sys
import torch
torch.set_num_threads(4)
(torch.ones(600, 600, requires_grad=True) @ torch.ones(600, 600)).sum().backward()  # its threads are at work
assert len(os.listdir("/proc/self/task")) > 3 or not sys.platform.startswith("linux")
import peerwise.methods.registry as registry
from importlib.metadata import EntryPoint, EntryPoints
from peerwise import Local, simulate

class Mine(Local):
    "Own models, and a word."

    def share(self, site, round):
        print("sharing", site.name)
        return super().share(site, round)

known = [*registry.entry_points(group=registry.GROUP), EntryPoint("mine", "__main__:Mine", registry.GROUP)]
registry.entry_points = lambda group: EntryPoints(known)
print("the script begins")
settings = dict(sites=3, rows=240, models=["mlp", "forest", "boosting"], epochs=2, folds=2, seeds=1, methods="mine")
one, two = (simulate("digits", workers=workers, **settings) for workers in (1, 2))
columns = [name for name in one.results if not name.startswith("seconds")]
assert one.results[columns].equals(two.results[columns])
"""


@pytest.mark.slow
def test_a_script_of_any_shape_may_use_workers_even_when_its_threads_are_at_work(tmp_path: Path) -> None:
    """No guard around its main part, a method of its own, torch at work on four threads."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    free = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, script], env=free, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert said.count("the script begins") == 1
    assert sorted(said[-3:]) == [f"sharing site-{number}" for number in range(3)]
    assert len(said) == 7


LEADING = """
import sys
import peerwise
assert "numpy" not in sys.modules
run = peerwise.simulate("digits", workers=2, sites=2, rows=200, models=["logistic"], folds=2, seeds=1,
                        methods="local,feddes")
peerwise.summarise(run.results)
assert len(run.results) == 4
sys.stdout.write(" ".join(name for name in ("torch", "onnxruntime", "numba") if name in sys.modules))
"""


@pytest.mark.slow
def test_a_process_that_only_leads_others_imports_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", LEADING], capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
