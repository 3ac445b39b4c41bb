"""Files that hang, eat memory or read other files, and children that are killed: each costs itself alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_models import (
    COLUMNS,
    READ,
    SHORT,
    big_model,
    doubling_model,
    endless_model,
    heavy_model,
    linear_model,
    long_model,
    reading_model,
    rows,
)

from peerwise.errors import BrokenFile, ModelError, PeerwiseError, WorkerError
from peerwise.models import OnnxModel
from peerwise.models.worker import Limits, Worker, process

HERE = Path(__file__).parent
MIB = 2**20


def _gone(pid: int, seconds: float = 30.0) -> bool:
    """Whether this process ends within some time; one that nobody has waited for yet has ended too."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@contextmanager
def _killed_over_and_over(worker: Worker, with_signal: int) -> Iterator[None]:
    done = threading.Event()

    def kill() -> None:
        while not done.wait(0.3):
            if (pid := worker.pid) is not None:
                os.kill(pid, with_signal)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(("hostile", "what"), [(doubling_model, "open"), (long_model, "open"), (endless_model, "run")])
def test_a_model_that_hangs_is_ended_at_the_deadline_and_the_others_go_on(hostile: Any, what: str) -> None:
    data = hostile()
    with Worker(SHORT) as worker:
        good = worker.open(linear_model(), "good")
        before = good.predict_logits(rows())
        first = worker.pid
        with pytest.raises((WorkerError, BrokenFile)) as found:
            worker.open(data, "hanging").predict_logits(rows())
        if isinstance(found.value, WorkerError):  # or it had no memory left before it was too late
            assert f"no answer to '{what}' within 5 seconds" in str(found.value) or "died" in str(found.value)
        assert first is not None
        assert _gone(first)
        np.testing.assert_array_equal(good.predict_logits(rows()), before)


def test_a_model_that_needs_more_memory_than_it_may_have_fails_alone() -> None:
    hungry = big_model(64 * MIB)  # 256 MiB
    with Worker(Limits(memory_bytes=300 * MIB)) as worker:
        good = worker.open(linear_model(), "good")
        with pytest.raises((ModelError, WorkerError), match=r"alloc|died|memory"):
            worker.open(hungry, "hungry").predict_logits(rows())
        assert good.predict_logits(rows()).shape == (20, 3)
    with Worker(Limits(memory_bytes=1024 * MIB)) as worker:
        assert worker.open(hungry, "hungry").predict_logits(rows()).shape == (20, 3)


def test_a_model_is_not_blamed_for_the_memory_that_others_hold() -> None:
    heavy = [heavy_model(seed, 50) for seed in range(3)]
    with Worker(Limits(memory_bytes=400 * MIB)) as worker:  # not enough for all three, enough for each
        models = [worker.open(heavy[0], "m0")]
        first = worker.pid
        models += [worker.open(data, f"m{place}") for place, data in enumerate(heavy[1:], 1)]
        for place, model in enumerate(models):
            np.testing.assert_array_equal(model.predict_logits(rows()), OnnxModel(heavy[place]).predict_logits(rows()))
        assert worker.pid != first  # they did not fit together


def test_a_model_cannot_read_files_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.arange(READ, dtype=np.float32).tofile(tmp_path / "patients")
    monkeypatch.chdir(tmp_path)
    data, X = reading_model("patients"), np.eye(COLUMNS, dtype=np.float32)
    assert OnnxModel(data).predict_logits(X)[1].tolist() == [256.0, 257.0, 258.0]  # it does where nothing hinders it
    with Worker() as worker, pytest.raises(BrokenFile):
        worker.open(data, "curious").predict_logits(X)
    monkeypatch.setattr(process, "LAYERS", ())
    with Worker() as worker:
        assert set(worker.isolation().values()) == {"not asked for"}
        with pytest.raises(BrokenFile):  # its working directory alone keeps it from that
            worker.open(data, "curious").predict_logits(X)


def test_a_child_that_is_killed_while_it_works_is_replaced_and_nobody_notices() -> None:
    with Worker(Limits(seconds=60)) as worker:
        model = worker.open(linear_model(), "m")
        expected = OnnxModel(linear_model()).predict_logits(rows())
        for _ in range(5):
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)  # before, at or after the next question
            np.testing.assert_array_equal(model.predict_logits(rows()), expected)


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGSEGV])
def test_a_model_whose_child_dies_every_time_is_given_up_and_the_others_go_on(with_signal: int) -> None:
    with Worker(Limits(seconds=60)) as worker:
        good = worker.open(linear_model(), "good")
        endless = worker.open(endless_model(), "endless")
        with (
            _killed_over_and_over(worker, with_signal),
            pytest.raises(WorkerError, match=r"died at '(run|open|start)'"),
        ):
            endless.predict_logits(rows())
        assert good.predict_logits(rows()).shape == (20, 3)


def test_the_words_of_a_crash_are_told() -> None:
    with Worker(Limits(seconds=60)) as worker:
        endless = worker.open(endless_model(), "endless")
        with _killed_over_and_over(worker, signal.SIGSEGV), pytest.raises(WorkerError) as found:
            endless.predict_logits(rows())
        assert f"signal {int(signal.SIGSEGV)}" in str(found.value) or "start" in str(found.value)


@pytest.mark.parametrize("busy", [False, True])
def test_the_child_dies_with_its_parent(busy: bool) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from worker_models import endless_model, linear_model, rows
from peerwise.models.worker import Limits, Worker
worker = Worker(Limits(seconds=600))
model = worker.open(endless_model() if {busy} else linear_model(), "m")
print(worker.pid, flush=True)
model.predict_logits(rows())
print("done", flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if not busy:
            assert parent.stdout.readline() == "done\n"
        assert not _gone(child, 0.5)
    finally:
        parent.kill()
        parent.communicate()
    assert _gone(child)


def test_an_interrupted_question_is_not_answered_to_the_next_one() -> None:
    class Stop(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stop

    with Worker(Limits(seconds=60)) as worker:
        good, endless = worker.open(linear_model(), "good"), worker.open(endless_model(), "endless")
        before = signal.signal(signal.SIGALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(Stop):
                endless.predict_logits(rows())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        np.testing.assert_array_equal(good.predict_logits(rows()), OnnxModel(linear_model()).predict_logits(rows()))


def test_nothing_is_left_of_workers_that_were_closed() -> None:
    def held() -> tuple[int, int]:
        children: list[str] = []
        for task in os.listdir("/proc/self/task"):
            with suppress(FileNotFoundError):  # a thread that has just ended
                children += Path(f"/proc/self/task/{task}/children").read_text().split()
        return len(os.listdir("/proc/self/fd")), len(children)

    def once() -> None:
        with Worker() as worker:
            for seed in range(5):
                worker.open(linear_model(seed), "m").predict_logits(rows())
            with pytest.raises(PeerwiseError):
                worker.open(b"junk", "junk")

    once()
    before = held(), threading.active_count()
    for _ in range(6):
        once()
    assert (held(), threading.active_count()) == before


def test_a_child_that_cannot_start_says_so() -> None:
    with Worker(Limits(memory_bytes=40 * MIB)) as worker, pytest.raises(WorkerError, match="died at 'start'"):
        worker.open(linear_model(), "m")


def test_onnx_runtime_sends_nothing_from_a_process_that_uses_this_package(tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
from peerwise.models import OnnxModel
from worker_models import linear_model, rows
before = len(os.listdir("/proc/self/task"))
OnnxModel(linear_model()).predict_logits(rows())
print(len(os.listdir("/proc/self/task")) - before)
"""
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=plain, cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout == "0\n", found.stderr  # no thread that would send
    assert list(tmp_path.rglob("*onnxruntime*")) == []  # no identifier of this machine, no list of what to send


def test_a_model_that_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    with Worker(SHORT) as worker:
        endless = worker.open(endless_model(), "endless")
        with pytest.raises(WorkerError, match="within 5 seconds"):
            endless.predict_logits(rows())
        with pytest.raises(WorkerError, match="not waited for again"):
            endless.predict_logits(rows())
        assert worker.open(linear_model(), "good").predict_logits(rows()).shape == (20, 3)
