"""What the benchmarks share: CPU time of a call, cost of a whole process tree, the peer's Python, growth exponents."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil

HERE = Path(__file__).parent
VARIABLE = "PEERWISE_PEER_PYTHON"
INSTALL = f"""the peer is not measured: no Python with rigfl 0.3.0 and graphroute 0.1.7 was given.
They need numpy below 2, so they get an environment of their own:
  python3 -m venv .peers
  .peers/bin/pip install torch==2.13.0
  .peers/bin/pip install rigfl==0.3.0 graphroute==0.1.7 scikit-learn psutil
then --peer-python .peers/bin/python, or {VARIABLE}=.peers/bin/python."""
# As our command line sets it for itself: a process without other threads can share its memory with its workers.
SINGLE = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
MEGABYTE = 2**20
Found = TypeVar("Found")


def timed(work: Callable[[], Found]) -> tuple[float, Found]:
    """CPU seconds of this process, and what the work gave back."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def fastest(work: Callable[[], Any], repeats: int) -> float:
    """The least CPU seconds of several calls: what is left when nothing disturbs."""
    return min(timed(work)[0] for _ in range(repeats))


@dataclass(frozen=True)
class Cost:
    """One command and all its children: seconds on the wall and on the CPU, peak megabytes (pages that processes
    share count once), and the JSON object in the last line that it printed."""

    wall: float
    cpu: float
    peak: float
    said: dict[str, Any]


def run(command: Sequence[str | Path], **environment: str) -> Cost:
    """Run a command on at most two cores, one thread a process, and watch its tree of processes."""
    started, before = time.perf_counter(), _children_cpu()
    cores = sorted(os.sched_getaffinity(0))[:2]
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **SINGLE, **environment},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    peak = 0.0
    while True:
        peak = max(peak, _memory(process.pid))
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=0.5)
            break
    wall = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{output[-2000:]}")
    return Cost(wall, _children_cpu() - before, peak, json.loads(output.strip().splitlines()[-1]))


def _children_cpu() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


def _memory(pid: int) -> float:
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_full_info().pss
    return total / MEGABYTE


def own_peak() -> float:
    """Peak resident megabytes of this process alone: getrusage would also count what its parent held at the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def peer_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peer-python",
        default=os.environ.get(VARIABLE),
        help=f"the Python of an environment with rigfl and graphroute (or {VARIABLE})",
    )


def peer(python: str | None, *arguments: str | Path, **environment: str) -> Cost | None:
    """Run our script of the peer's calls in the peer's environment; without one, say what to install."""
    if not python:
        print(INSTALL)
        return None
    return run([python, HERE / "peer.py", *arguments], **environment)


def again(script: str | Path, *arguments: str | Path) -> Cost:
    """Run a part of a benchmark in a process of its own, so that its memory is its own."""
    return run([sys.executable, script, *arguments])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """b of cost = a * size ** b, by least squares over the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def load_line() -> str:
    one, five, _ = os.getloadavg()
    return f"load of the machine: {one:.1f} (1 min), {five:.1f} (5 min), {os.cpu_count()} cores"
