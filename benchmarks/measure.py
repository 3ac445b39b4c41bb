"""What the benchmarks share: CPU time of a call, the memory of this process, the load of the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

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


def own_peak() -> float:
    """Peak resident megabytes of this process alone: getrusage would also count what its parent held at the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def load_line() -> str:
    one, five, _ = os.getloadavg()
    return f"load of the machine: {one:.1f} (1 min), {five:.1f} (5 min), {os.cpu_count()} cores"
