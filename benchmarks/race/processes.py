"""Every contender runs in a process of its own: its seconds, its memory and what it says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import psutil
from measure import MEGABYTE, SINGLE

HERE = Path(__file__).resolve().parent
QUIET = {"OPENBLAS_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# Ray lets its workers wait for everybody else, ours do not.
QUIET["RAY_worker_niceness"] = "0"
# By default glibc's malloc returns a large block to the system as soon as it is freed, and the system has to clear the
# pages of the next one. With these settings malloc keeps its memory.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**33)}
PAUSE = 0.25  # seconds between two looks at the processes


class Cost(TypedDict):
    """One command and all its children: seconds on the wall and on the CPU, peak megabytes (pages that processes
    share count once), and the JSON object in the last line that it printed."""

    wall: float
    cpu: float
    peak: float
    said: dict[str, Any]


def cores() -> list[int]:
    """At most two, so that the figures of larger machines can be compared."""
    return sorted(os.sched_getaffinity(0))[:2]


def ours(
    where: str,
    on: Sequence[int] | None = None,
    environment: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Cost:
    """Call ``module:function`` of this package with these arguments, in a process of its own."""
    command = [sys.executable, "-m", "race.call", where, json.dumps(arguments)]
    found = run(command, on, environment=environment)
    assert found is not None, "nothing was to stop it"
    return found


def theirs(
    python: str | None,
    script: str,
    on: Sequence[int] | None = None,
    limit: float | None = None,
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Cost | None:
    """Run a script of ``peers`` in an environment of its own; None without one, and after ``limit`` seconds."""
    if not python:
        return None
    return run([python, HERE / "peers" / script, json.dumps(arguments)], on, limit, threads, environment)


def at_once(*tasks: Callable[[Sequence[int]], Any]) -> list[Any]:
    """Two tasks at a time, each on a core of its own; one after the other where there is one core."""
    free = [[core] for core in cores()]

    def work(task: Callable[[Sequence[int]], Any]) -> Any:
        core = free.pop()
        try:
            return task(core)
        finally:
            free.append(core)

    with ThreadPoolExecutor(len(free)) as team:
        return list(team.map(work, tasks))


def run(
    command: Sequence[str | Path],
    on: Sequence[int] | None = None,
    limit: float | None = None,
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
) -> Cost | None:
    """Run a command on these cores with so many threads a process, and watch its tree of processes."""
    started, where = time.perf_counter(), list(on or cores())
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    fixed = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": path}
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as complained:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=printed,
            stderr=complained,
            env={**os.environ, **SINGLE, **QUIET, **fixed, **(environment or {})},
            start_new_session=True,
        )
        os.sched_setaffinity(process.pid, where)
        watch = _Watch(process.pid)
        try:
            while watch.looks() and not (limit and time.perf_counter() - started > limit):
                time.sleep(PAUSE)
        finally:  # also where the race itself is interrupted
            if watch.ended is None:
                os.killpg(process.pid, signal.SIGKILL)
                watch.wait()
        process.returncode = watch.ended
        wall = time.perf_counter() - started
        output, trouble = (_text(file) for file in (printed, complained))
    about = " ".join(str(part)[-100:] for part in command[1:])
    if watch.ended == -signal.SIGKILL and limit:
        print(f"  {about}: not ready after {limit:.0f} s", flush=True)
        return None
    if watch.ended:
        raise SystemExit(f"{about} ended with {watch.ended}:\n{output[-2000:]}\n{trouble[-4000:]}")
    print(f"  {about}: wall {wall:.1f} s, CPU {watch.cpu:.1f} s, peak {watch.peak:.0f} MB", flush=True)
    return {"wall": wall, "cpu": watch.cpu, "peak": watch.peak, "said": json.loads(output.strip().splitlines()[-1])}


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read())


class _Watch:
    """CPU seconds are those that the system has added up when the command ends, or, where children were not waited
    for (as by Ray), those seen while they lived."""

    def __init__(self, pid: int) -> None:
        self.pid, self.peak, self.ended = pid, 0.0, None
        self._seen: dict[int, float] = {}
        self._waited = 0.0

    @property
    def cpu(self) -> float:
        return max(self._waited, sum(self._seen.values()))

    def looks(self) -> bool:
        """Whether it still runs."""
        memory = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    memory += process.memory_full_info().pss
                    spent = process.cpu_times()
                    self._seen[process.pid] = spent.user + spent.system
        self.peak = max(self.peak, memory / MEGABYTE)
        return self.wait(os.WNOHANG)

    def wait(self, how: int = 0) -> bool:
        pid, status, spent = os.wait4(self.pid, how)
        if pid:
            self.ended = os.waitstatus_to_exitcode(status)
            self._waited = spent.ru_utime + spent.ru_stime
        return not pid
