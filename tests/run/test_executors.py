"""Workers: what a run notices of them, and what they leave behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from peerwise import simulate
from peerwise.environment import ARROW_ALONE, ONE_THREAD
from peerwise.errors import ConfigError, PeerwiseError, StorageError
from peerwise.models import OnnxModel, export
from peerwise.run.messages import Handle
from peerwise.run.workers import Workers, open_workers

MEGABYTE = 2**20
ALONE = {k: v for k, v in {**os.environ, **ONE_THREAD, **ARROW_ALONE}.items() if k != "PYTHONUNBUFFERED"}


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with open_workers(workers=2) as workers:
        yield workers


def fresh(function: Any, tasks: Any, **options: Any) -> list[Any]:
    """Of workers that start now."""
    with open_workers(workers=2) as workers:
        return sorted(workers.map(function, tasks, **options))


def counted(numbers: list[Any], named: dict[str, Any], extra: Any) -> tuple[int, int, Any]:
    return sum(map(len, numbers)), len(named["a"]), extra


def dies_at(place: int, deadly: int, path: Path) -> int:
    """Of the same place ever again while there is such a file."""
    if place == deadly and path.exists():
        path.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


running: list[None] = []


def overlaps() -> int:
    """How many run at once, in the threads of this process."""
    running.append(None)
    time.sleep(0.05)
    found = len(running)
    running.pop()
    return found


def overlaps_in(folder: Path) -> int:
    """How many run at once, in whatever processes."""
    own = folder / uuid.uuid4().hex
    own.touch()
    time.sleep(0.05)
    found = len(list(folder.iterdir()))
    own.unlink()
    return found


def pid_and_rows(rows: Any) -> tuple[int, int]:
    return os.getpid(), len(rows)


class CountsItsTravels:
    """Says in a file whenever it is packed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        with self.path.open("a") as file:
            file.write("packed\n")
        return CountsItsTravels, (self.path,)


class Locked(OSError):
    """Cannot be sent to another process."""

    def __init__(self) -> None:
        super().__init__("nothing but this sentence can be sent")
        self.lock = threading.Lock()


class TwoArguments(OSError):
    """Can be sent, but not unpacked where it arrives."""

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
    import_module("peerwise.models.zoo.tables")
    return int(psutil.Process().memory_full_info().uss)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 100
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def meets(place: int, writes: Path | None, awaits: Path | None) -> int:
    if writes:
        writes.touch()
    if awaits:
        wait_for(awaits)
    return place


def stays(path: Path) -> None:
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    time.sleep(600)


def pids(path: Path) -> tuple[int, int]:
    wait_for(path)
    return os.getpid(), int(path.read_text())


def call(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def forks_and_dies(path: Path) -> None:
    if path.exists():
        return
    if (child := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    path.write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)


def each_executor() -> Iterator[tuple[Any, int | None]]:
    yield None, 1
    yield "local", 2
    with ThreadPoolExecutor(3) as threads:
        yield threads, None
    with ProcessPoolExecutor(2) as processes:
        yield processes, None


def test_every_executor_gives_the_same_results_and_each_says_whose_it_is() -> None:
    for executor, number in each_executor():
        with open_workers(executor, number) as workers:
            a, b = workers.scatter("a" * 1000), workers.scatter(np.arange(5))
            tasks = [([a, b], {"a": a, "n": n}, n) for n in range(12)]
            expected = [(n, (1005, 1000, n)) for n in range(12)]
            assert sorted(workers.map(counted, tasks)) == expected
            workers.forget(b)
            c = workers.scatter("c")
            assert sorted(workers.map(counted, [([c], {"a": a}, None)] * 3)) == [(n, (1, 1000, None)) for n in range(3)]
            assert list(workers.map(counted, [])) == []
            assert workers.in_process == (executor is None)
            assert workers.local


def test_in_this_process_nothing_is_packed() -> None:
    lock = threading.Lock()
    with open_workers() as workers:
        assert list(workers.map(id, [(lock,), (workers.scatter(lock),)])) == [(0, id(lock)), (1, id(lock))]


def test_a_scattered_value_is_sent_to_each_worker_once(tmp_path: Path) -> None:
    begun, file = [tmp_path / "one", tmp_path / "two"], tmp_path / "packed"
    with open_workers(workers=2) as workers:
        value = workers.scatter(CountsItsTravels(file))
        both = [(meets, 0, *begun), (meets, 1, *begun[::-1])]  # one in each worker
        for _ in range(3):
            list(workers.map(lambda value, what, *arguments: what(*arguments), [(value, *task) for task in both]))
            for path in begun:
                path.unlink()
        assert file.read_text().count("packed") == 2


def test_a_forgotten_value_is_freed_in_the_worker() -> None:
    with open_workers(workers=2) as workers:
        handles = [workers.scatter(bytes(100 * MEGABYTE)) for _ in range(3)]
        ((_, (held, _)),) = workers.map(held_memory, [(handles,)])
        for handle in (handles[1], handles[0], handles[2]):
            workers.forget(handle)
        ((_, (left, _)),) = workers.map(held_memory, [([],)])
        with pytest.raises(KeyError):
            list(workers.map(held_memory, [(handles,)]))
    assert held - left > 250 * MEGABYTE


def held_memory(values: list[bytes]) -> tuple[int, int]:
    return int(psutil.Process().memory_full_info().uss), len(values)


def test_tasks_of_one_process_run_one_after_the_other() -> None:
    """Torch draws from one generator for all threads of a process."""
    with ThreadPoolExecutor(4) as threads, open_workers(threads) as workers:
        assert {at_once for _, at_once in workers.map(overlaps, [()] * 8)} == {1}


def test_threads_that_would_wait_for_their_own_task_are_refused() -> None:
    def nested() -> None:
        with ThreadPoolExecutor(1) as threads, open_workers(threads):
            pass

    with open_workers() as workers, pytest.raises(ConfigError, match="wait for this task to end"):
        list(workers.map(nested, [()]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_forked_while_a_thread_is_at_work_can_work() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def waits() -> None:
        begun.set()
        assert go_on.wait(200)

    with ThreadPoolExecutor(1) as thread, open_workers() as workers:
        waiting = thread.submit(lambda: list(workers.map(waits, [()])))
        assert begun.wait(200)
        try:
            fork = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(1, mp_context=fork) as processes, open_workers(processes) as others:
                assert list(others.map(len, [("abc",)])) == [(0, 3)]
        finally:
            go_on.set()
        waiting.result()


def test_nets_trained_in_threads_have_the_numbers_of_one_process() -> None:
    settings: dict[str, Any] = {
        "sites": 6, "rows": 300, "models": ["mlp"], "seeds": 1, "methods": "fedavg", "training": {"rounds": 2},
    }  # fmt: skip
    alone = simulate("digits", **settings)
    with ThreadPoolExecutor(3) as threads:
        found = simulate("digits", executor=threads, **settings)
        runs = [threads.submit(simulate, "digits", **settings) for _ in range(2)]
        others = [run.result() for run in runs]
    for run in (found, *others):
        for key, tree in alone.predictions.items():
            assert np.array_equal(run.predictions[key]["probabilities"], tree["probabilities"]), key


def test_results_come_as_they_end(two: Workers, tmp_path: Path) -> None:
    last = tmp_path / "last"
    found = list(two.map(meets, [(0, None, last), (1, None, None), (2, last, None)]))
    assert found[0] == (1, 1)
    assert sorted(found) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("number", [1, 2])
def test_no_more_tasks_run_at_once_than_were_asked_for(number: int, tmp_path: Path) -> None:
    with ProcessPoolExecutor(4) as processes, open_workers(processes, number) as workers:
        assert workers.workers == number
        assert max(found for _, found in workers.map(overlaps_in, [(tmp_path,)] * 12)) <= number


def test_the_task_of_a_killed_worker_is_repeated_and_the_others_go_on(two: Workers, tmp_path: Path) -> None:
    path = tmp_path / "deadly"
    path.touch()
    lost: list[int] = []
    found = list(two.map(dies_at, [(place, 1, path) for place in range(5)], lost.append))
    assert lost == [1]
    assert sorted(place for place, _ in found) == [0, 1, 2, 3, 4]
    assert found[-1][0] == 1, "after the others"


def test_a_task_that_kills_every_worker_ends_the_run(two: Workers) -> None:
    lost: list[int] = []
    with pytest.raises(PeerwiseError, match=r"task 1: its worker process was ended from outside, 3 times in a row"):
        list(two.map(call, [(len, "abc"), (dies,)], lost.append))
    assert lost == [1, 1, 1]


def test_a_broken_pool_of_the_users_own_is_an_error_that_says_so() -> None:
    lost: list[int] = []
    words = "ProcessPoolExecutor takes no more tasks .* Make a new one and run"
    with (
        ProcessPoolExecutor(2) as processes,
        open_workers(processes) as workers,
        pytest.raises(PeerwiseError, match=words),
    ):
        list(workers.map(dies, [()], lost.append))
    assert lost == [0]


def test_an_error_is_raised_here_and_says_where_it_was() -> None:
    for executor in ("local", ThreadPoolExecutor(1), ProcessPoolExecutor(1)):
        with open_workers(executor, 2) as workers:
            with pytest.raises(StorageError, match="no room") as caught:
                list(workers.map(fails, [(StorageError, "no room")]))
            assert "in fails\n    raise error(*arguments)" in str(caught.value.__cause__)
            with pytest.raises(RuntimeError, match="nothing but this sentence can be sent"):
                list(workers.map(fails, [(Locked,)]))


@pytest.mark.parametrize(("error", "arguments"), [(TwoArguments, ("a/b", "of that")), (Prefixed, ("a\nb",))])
def test_an_error_that_does_not_travel_says_what_it_says_without_workers(
    two: Workers, error: Any, arguments: tuple[str]
) -> None:
    with pytest.raises(error) as without:
        fails(error, *arguments)
    with pytest.raises(RuntimeError, match=re.escape(f"{error.__name__}: {without.value}") + "$") as caught:
        list(two.map(fails, [(error, *arguments)]))
    assert "in fails\n    raise error(*arguments)" in str(caught.value.__cause__)


@pytest.mark.parametrize("refusal", [pickle.PicklingError, ZeroDivisionError, TypeError])
def test_what_cannot_be_sent_back_is_an_error(two: Workers, refusal: type[Exception]) -> None:
    with pytest.raises(RuntimeError, match=f"the refusal of.*{refusal.__name__}"):
        list(two.map(fails, [(Unsendable, refusal)]))
    with pytest.raises(RuntimeError, match=f"the result cannot be sent.*{refusal.__name__}: not to be sent"):
        list(two.map(Unsendable, [(refusal,)]))


def test_a_task_that_cannot_be_sent_is_an_error(two: Workers) -> None:
    with pytest.raises(TypeError, match="lock"):
        list(two.map(call, [(len, threading.Lock())]))
    assert list(two.map(len, [("abc",)])) == [(0, 3)]


def test_an_onnx_model_travels_to_a_worker(two: Workers) -> None:
    X, y = load_iris(return_X_y=True)
    model = OnnxModel(export(LogisticRegression(max_iter=500).fit(X, y), X), name="iris")
    ((_, answers),) = two.map(model.predict_proba, [(two.scatter(X),)])
    np.testing.assert_array_equal(answers, model.predict_proba(X))


def test_workers_have_the_folder_and_environment_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        (tmp_path / value).mkdir()
        monkeypatch.chdir(tmp_path / value)
        monkeypatch.setenv("OF_THE_USER", value)
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        assert fresh(surroundings, [("OF_THE_USER",)]) == [(0, (str(tmp_path / value), value, "1"))]
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_a_working_folder_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(PeerwiseError, match=r"working folder .*Change to another"):
        fresh(len, [("abc",)])


def test_a_working_folder_that_no_worker_can_enter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is longer than the system takes; whoever goes there step by step can enter."""
    monkeypatch.chdir(tmp_path)
    for _ in range(25):
        os.mkdir("f" * 200)
        os.chdir("f" * 200)
    with pytest.raises(PeerwiseError, match=r"working folder .*Change to another"):
        fresh(len, [("abc",)])


def test_whoever_stops_asking_ends_the_workers_in_the_midst_of_work(two: Workers, tmp_path: Path) -> None:
    asked = two.map(call, [(pids, tmp_path / "pid"), (stays, tmp_path / "pid")])
    place, (idle, busy) = next(asked)
    assert place == 0
    assert psutil.pid_exists(busy)
    asked.close()  # type: ignore[attr-defined]
    assert not psutil.pid_exists(busy)
    assert psutil.pid_exists(idle), "it has nothing to do, and stays"


def test_renewed_workers_are_other_processes_with_the_same_values() -> None:
    with open_workers(workers=2) as workers:
        rows = workers.scatter(np.arange(2000))
        ((_, (before, _)),) = workers.map(pid_and_rows, [(rows,)])
        workers.renew()
        assert not psutil.pid_exists(before)
        ((_, (after, _)),) = workers.map(pid_and_rows, [(rows,)])
    assert after != before


def test_a_worker_learns_how_its_own_processes_end(two: Workers) -> None:
    command = [sys.executable, "-S", "-c", "raise SystemExit(3)"]
    assert list(two.map(subprocess.call, [(command,)])) == [(0, 3)]


def test_a_killed_worker_is_noticed_even_when_a_process_that_it_forked_lives_on(two: Workers, tmp_path: Path) -> None:
    begun, lost = time.monotonic(), []
    assert list(two.map(forks_and_dies, [(tmp_path / "pid",)], lost.append)) == [(0, None)]
    assert (lost, time.monotonic() - begun < 55) == ([0], True)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers share no memory")
def test_a_worker_shares_the_libraries_it_needs_with_the_others() -> None:
    """A process that imports them for itself has some 300 MB of its own."""
    for _, own in fresh(own_memory, [(), ()]):
        assert own < 70 * MEGABYTE


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no fork server")
def test_a_fork_server_that_was_killed_is_replaced() -> None:
    ((_, server),) = fresh(os.getppid, [()])
    assert server != os.getpid()
    assert len(os.listdir(f"/proc/{server}/task")) == 1, "forking is safe"
    os.kill(server, signal.SIGKILL)
    ((_, other),) = fresh(os.getppid, [()])
    assert other not in (server, os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is the only way")
def test_spawned_workers_as_on_macos_and_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerwise.run.executors._start_method", lambda: "spawn")
    lost: list[int] = []
    with open_workers(workers=2) as workers:
        rows = workers.scatter("abc")
        assert sorted(workers.map(len, [(rows,), ("ab",)])) == [(0, 3), (1, 2)]
        assert list(workers.map(surroundings, [("PATH",)])) == [(0, (os.getcwd(), os.environ["PATH"], "1"))]
        with pytest.raises(PeerwiseError, match="3 times in a row"):
            list(workers.map(dies, [()], lost.append))


@pytest.mark.parametrize(
    ("executor", "words"),
    [
        ("slurm", "executor is 'slurm': expected 'local', 'dask:ADDRESS'"),
        ("dask:", "executor is 'dask:': expected 'local', 'dask:ADDRESS'"),
        (3, "executor is 3: expected a concurrent.futures.Executor"),
    ],
)
def test_an_unknown_executor_is_an_error(executor: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)), open_workers(executor):
        pass


@pytest.mark.parametrize(("kind", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_extra_is_an_error_that_says_what_to_install(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    words = re.escape(f'pip install "peerwise[{kind}]"')
    with pytest.raises(ConfigError, match=words), open_workers(f"{kind}:127.0.0.1:1"):
        pass


def test_a_handle_stands_for_one_value_of_its_workers(two: Workers) -> None:
    with pytest.raises(KeyError):
        list(two.map(len, [(Handle(10**6),)]))


PROGRAM = """
import json, os, signal, subprocess, sys
import psutil
from peerwise.run.workers import open_workers

class Mine(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)

def fails():
    raise Mine(1, 2)

def signaled(number):
    os.kill(os.getpid(), number)
    return "still there"

def prints(what):
    print("worker", what)

def ask(function, *arguments):
    with open_workers(workers=2) as workers:
        return [result for _, result in sorted(workers.map(function, [arguments] * 2, lost.append))]

lost = []
signal.signal(signal.SIGTERM, lambda *_: None)
print("unwritten", end=" ")
found = {"printing": ask(prints, "says")}
print("so far")
try:
    ask(signaled, signal.SIGTERM)
except Exception as error:
    found["ended"] = lost, str(error)
found["ctrl_c"] = ask(signaled, signal.SIGINT)
try:
    ask(fails)
except Mine as error:
    found["caught"] = error.args
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
found["when_ignored"] = ask(subprocess.call, [sys.executable, "-S", "-c", "raise SystemExit(4)"])
print(json.dumps(found))
"""


def test_what_a_program_does_on_signals_is_not_for_its_workers() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=ALONE, capture_output=True, text=True, timeout=400)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    found = json.loads(last)
    assert lines == ["unwritten worker says", "worker says", "so far"], "nothing is written twice"
    lost, words = found["ended"]
    assert sorted(lost)[-1] <= 1, "the program's handler is not for workers"
    assert "3 times in a row" in words
    assert found["ctrl_c"] == ["still there"] * 2, "it is for the leader alone"
    assert found["when_ignored"] == [4, 4], "also where the program ignores how its processes end"
    assert found["caught"] == [1, 2], "an error class of the script comes back as itself"


LEADING = """
import os, sys, time
from pathlib import Path
from peerwise.run.workers import open_workers

def stays(path):
    (path.parent / "new").mkdir(exist_ok=True)
    (path.parent / "new" / path.name).write_text(str(os.getpid()))
    (path.parent / "new" / path.name).rename(path)
    time.sleep(600)

folder = Path(sys.argv[1])
print("the script begins", flush=True)
with open_workers(workers=2) as workers:
    list(workers.map(stays, [(folder / "0",), (folder / "1",)]))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_leader_that_ends_leaves_no_process_behind(end: signal.Signals, tmp_path: Path) -> None:
    """The script needs no guard around its main part, and never runs again."""
    script = tmp_path / "script.py"
    script.write_text(LEADING)
    command = [sys.executable, script, tmp_path]
    process = subprocess.Popen(
        command, env=ALONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(tmp_path / "0")
    wait_for(tmp_path / "1")
    workers = psutil.Process(process.pid).children(recursive=True)
    assert {int((tmp_path / name).read_text()) for name in "01"} <= {worker.pid for worker in workers}
    if end == signal.SIGINT:
        os.killpg(process.pid, end)  # as a terminal does
    else:
        process.send_signal(end)
    left = psutil.wait_procs(workers, timeout=30)[1]
    for worker in left:
        worker.kill()
    out, errors = process.communicate(timeout=30)
    assert left == []
    assert out.splitlines() == ["the script begins"]
    if end == signal.SIGINT:
        assert errors.count("Traceback") == 1, errors
        assert errors.strip().endswith("KeyboardInterrupt")


LIGHT = """
import sys
from peerwise.run.workers import open_workers
with open_workers(workers=2) as workers:
    assert sorted(workers.map(lambda text: len(text), [("abc",), ("ab",)])) == [(0, 3), (1, 2)]
sys.stdout.write(" ".join(name for name in ("torch", "onnxruntime", "numba") if name in sys.modules))
"""


def test_a_script_from_standard_input_leads_workers_and_imports_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-"], input=LIGHT, env=ALONE, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


UNGUARDED = """
import os, sys
import torch
torch.set_num_threads(4)
(torch.ones(600, 600, requires_grad=True) @ torch.ones(600, 600)).sum().backward()  # its threads are at work
from peerwise import Local, simulate

class Mine(Local):
    "Own models, and a word."

    def share(self, site, round):
        print("sharing", site.name)
        return super().share(site, round)

print("the script begins")
settings = dict(sites=3, rows=240, models=["mlp"], epochs=2, folds=2, seeds=1, methods=[Mine()])
one, two = (simulate("digits", workers=workers, **settings) for workers in (1, 2))
columns = [name for name in one.results if not name.startswith("seconds")]
assert one.results[columns].equals(two.results[columns])
"""


@pytest.mark.slow
@pytest.mark.parametrize("given", ["file", "standard input"])
def test_a_script_of_any_shape_may_use_workers_even_when_its_threads_are_at_work(tmp_path: Path, given: str) -> None:
    """No guard around its main part, a method of its own, torch at work on four threads."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    free = {k: v for k, v in ALONE.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, script] if given == "file" else [sys.executable, "-"]
    done = subprocess.run(command, input=UNGUARDED, env=free, capture_output=True, text=True, timeout=400)
    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.splitlines()
    assert printed.count("the script begins") == 1
    assert sorted(printed[-3:]) == [f"sharing site-{number}" for number in range(3)]
    assert len(printed) == 7


ONLY_LEADS = """
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
def test_a_simulation_that_only_leads_its_workers_imports_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", ONLY_LEADS], capture_output=True, text=True, timeout=400)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_runs_in_two_threads_of_one_process_have_the_numbers_of_one_alone(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sites": 3, "rows": 240, "models": ["logistic"], "folds": 2, "seeds": 1}
    alone = simulate("digits", methods="local", **settings).results
    with ThreadPoolExecutor(2) as threads:
        runs = [
            threads.submit(simulate, "digits", out=tmp_path / name, workers=2, methods="local", **settings)
            for name in ("one", "two")
        ]
        found = [run.result().results for run in runs]
    columns = [name for name in alone if not name.startswith("seconds")]
    for results in found:
        assert results[columns].equals(alone[columns])
    again = simulate("digits", out=tmp_path / "one", methods="local", **settings).results
    assert again[columns].equals(alone[columns]), "the folder is free"
