"""Worker processes: what the run notices of them, and what they take."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from peerwise.errors import PeerwiseError, StorageError
from peerwise.models import OnnxModel, export
from peerwise.run.crew import LOST, spread

MEGABYTE = 2**20


@pytest.fixture(autouse=True, scope="module")
def another_thread() -> Iterator[None]:
    """With which this process does not fork its workers itself: here they come from the stem."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()


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


class TwoArguments(OSError):
    """Can be sent, but not taken out where it arrives."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is no good,\nbecause {why}")


class Prefixed(ValueError):
    """Arrives, but says its first words twice."""

    def __init__(self, why: str) -> None:
        super().__init__(f"no good: {why}")


class Unsendable(Exception):
    def __init__(self, refusal: type[Exception]) -> None:
        super().__init__("the refusal of", refusal.__name__)
        self.refusal = refusal

    def __reduce__(self) -> Any:
        raise self.refusal("not to be sent")


def fails(error: type[Exception], *arguments: Any) -> None:
    raise error(*arguments)


def surroundings(name: str) -> tuple[str, str | None, str | None]:
    return os.getcwd(), os.environ.get(name), os.environ.get("OMP_NUM_THREADS")


def own_memory() -> int:
    return int(psutil.Process().memory_full_info().uss)


def stem_of_this_process() -> psutil.Process:
    (stem,) = [child for child in psutil.Process().children() if "peerwise.run.stem" in " ".join(child.cmdline())]
    return stem


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def meets(place: int, writes: Path | None, awaits: Path | None) -> int:
    if writes:
        writes.touch()
    if awaits:
        wait_for(awaits)
    return place


def tells_then_stays(path: Path) -> None:
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    time.sleep(600)


def call(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def forks_and_dies(path: Path) -> None:
    if (child := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    path.write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)


def waits_then_tells(path: Path) -> tuple[int, int]:
    wait_for(path)
    return os.getpid(), int(path.read_text())


def test_results_come_as_they_end_and_say_whose_they_are(tmp_path: Path) -> None:
    last = tmp_path / "last"
    tasks = [(0, None, last), (1, None, None), (2, last, None)]
    found = list(spread(meets, tasks, 2))
    assert found[0] == (1, 1)
    assert sorted(found) == [(0, 0), (1, 1), (2, 2)]
    assert list(spread(meets, [], 2)) == []


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


@pytest.mark.parametrize(("error", "arguments"), [(TwoArguments, ("a/b", "of that")), (Prefixed, ("a\nb",))])
def test_an_error_that_does_not_travel_says_what_it_says_without_workers(error: Any, arguments: tuple[str]) -> None:
    with pytest.raises(error) as without:
        fails(error, *arguments)
    with pytest.raises(RuntimeError, match=re.escape(f"{error.__name__}: {without.value}") + "$") as caught:
        list(spread(fails, [(error, *arguments)], 2))
    assert "in fails\n    raise error(*arguments)" in str(caught.value.__cause__)


@pytest.mark.parametrize("refusal", [pickle.PicklingError, ZeroDivisionError, TypeError])
def test_what_cannot_be_sent_back_is_told(refusal: type[Exception]) -> None:
    with pytest.raises(RuntimeError, match=f"the refusal of.*{refusal.__name__}"):
        list(spread(fails, [(Unsendable, refusal)], 2))
    with pytest.raises(RuntimeError, match=f"the result cannot be sent.*{refusal.__name__}: not to be sent"):
        list(spread(Unsendable, [(refusal,)], 2))


def test_a_task_that_cannot_be_sent_is_told_at_once() -> None:
    assert list(spread(after, [(0.0, 1)], 2)) == [(0, 1)]
    begun = time.monotonic()
    with pytest.raises(TypeError, match="lock"):
        list(spread(after, [(0.0, threading.Lock())], 2))
    assert time.monotonic() - begun < 2


def test_an_onnx_model_travels_to_a_worker() -> None:
    X, y = load_iris(return_X_y=True)
    model = OnnxModel(export(LogisticRegression(max_iter=500).fit(X, y), X), name="iris")
    ((_, answers),) = spread(model.predict_proba, [(X,)], 2)
    np.testing.assert_array_equal(answers, model.predict_proba(X))


def test_workers_have_the_folder_and_environment_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        (tmp_path / value).mkdir()
        monkeypatch.chdir(tmp_path / value)
        monkeypatch.setenv("OF_THE_USER", value)
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        assert list(spread(surroundings, [("OF_THE_USER",)], 2)) == [(0, (str(tmp_path / value), value, "1"))]


def test_a_path_object_among_the_import_paths_does_no_harm(tmp_path: Path) -> None:
    found = script(f"import pathlib, sys; sys.path.append(pathlib.Path({str(tmp_path)!r}))", tmp_path)
    assert (found.stdout, found.stderr) == ("[(0, 3)]\n", "")


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(PeerwiseError, match=r"working folder .*Change to another"):
        list(spread(after, [(0.0, 1)], 2))


def test_a_working_folder_that_no_worker_can_enter_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is longer than the system takes; whoever goes there step by step can enter."""
    monkeypatch.chdir(tmp_path)
    for _ in range(25):
        os.mkdir("f" * 200)
        os.chdir("f" * 200)
    with pytest.raises(PeerwiseError, match=r"working folder .*Change to another"):
        list(spread(after, [(0.0, 1)], 2))


def test_workers_that_cannot_start_are_told(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('a broken library')")
    found = script(f"import sys; sys.path.insert(0, {str(tmp_path)!r})", tmp_path)
    assert "ImportError: a broken library" in found.stderr
    assert "peerwise.errors.PeerwiseError: the process that starts the workers could not start" in found.stderr
    assert "exit code 1." in found.stderr


def script(beginning: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A process of its own, and so a stem of its own, that begins like this and then has a worker count to three."""
    (folder / "script.py").write_text(
        f"from peerwise.run.crew import spread\n{beginning}\nprint(list(spread(len, [('abc',)], 2)))"
    )
    return subprocess.run([sys.executable, folder / "script.py"], capture_output=True, text=True, timeout=100)


def test_a_stem_that_was_killed_is_replaced() -> None:
    assert list(spread(after, [(0.0, 1)], 2)) == [(0, 1)]
    stem_of_this_process().kill()
    until = time.monotonic() + 60
    while LOST in (found := [result for _, result in spread(after, [(0.0, 1)], 2)]):
        assert time.monotonic() < until
    assert found == [1]


def test_runs_that_start_at_once_in_many_threads_share_one_stem() -> None:
    assert list(spread(after, [(0.0, 1)], 2)) == [(0, 1)]
    stem = stem_of_this_process()
    stem.kill()
    stem.wait(10)
    together = threading.Barrier(3)
    stems: list[int] = []

    def run() -> None:
        together.wait(60)
        stems.extend(found for _, found in spread(os.getppid, [()], 2))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert stems == [stem_of_this_process().pid] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads where Linux lists them")
def test_the_process_that_is_forked_has_one_thread() -> None:
    assert list(spread(os.getenv, [("JE_ARROW_MALLOC_CONF",)], 2)) == [(0, os.getenv("JE_ARROW_MALLOC_CONF"))]
    assert len(os.listdir(f"/proc/{stem_of_this_process().pid}/task")) == 1


def test_whoever_stops_asking_ends_the_workers_in_the_midst_of_work(tmp_path: Path) -> None:
    asked = spread(call, [(waits_then_tells, tmp_path / "pid"), (tells_then_stays, tmp_path / "pid")], 2)
    place, pids = next(asked)
    assert place == 0
    workers = [psutil.Process(pid) for pid in pids]
    assert {worker.ppid() for worker in workers} == {stem_of_this_process().pid}
    asked.close()  # type: ignore[attr-defined]
    gone, left = psutil.wait_procs(workers, timeout=20)
    assert (len(gone), left) == (2, []), "ended, and taken leave of"


def test_a_worker_learns_how_its_own_processes_end() -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    assert list(spread(subprocess.call, [(command,)], 2)) == [(0, 3)]


def test_a_killed_worker_is_noticed_even_when_a_process_that_it_forked_lives_on(tmp_path: Path) -> None:
    begun = time.monotonic()
    assert list(spread(forks_and_dies, [(tmp_path / "pid",)], 2)) == [(0, LOST)]
    assert time.monotonic() - begun < 30
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


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
                        methods="local,peerwise")
peerwise.summarise(run.results)
assert len(run.results) == 4
sys.stdout.write(" ".join(name for name in ("torch", "onnxruntime", "numba") if name in sys.modules))
"""


@pytest.mark.slow
def test_a_process_that_only_leads_others_imports_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", LEADING], capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
