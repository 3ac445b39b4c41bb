"""Seconds by phase of a package that is not ours, from around its own functions."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from measure import own_peak


class Clock:
    """Wall and CPU seconds by phase. What a phase does within another counts for the inner one alone, but those named
    ``whole`` keep all that happens within them."""

    def __init__(self, *whole: str) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._whole = whole
        self._open: list[str] = []

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        outer = self._open[-1] if self._open else None
        if outer in self._whole:
            yield
            return
        before = time.perf_counter(), time.process_time()
        self._open.append(phase)
        try:
            yield
        finally:
            self._open.pop()
            spent = time.perf_counter() - before[0], time.process_time() - before[1]
            for seconds, table in zip(spent, (self.wall, self.cpu), strict=True):
                table[phase] = table.get(phase, 0.0) + seconds
                if outer:
                    table[outer] = table.get(outer, 0.0) - seconds

    def around(self, owner: Any, name: str, phase: str) -> None:
        """From now on the seconds of this function count for the phase."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.during(phase):
                return function(*args, **kwargs)

        setattr(owner, name, timed)


def told(work: Callable[..., dict[str, Any]]) -> None:
    """Do the work with the JSON arguments of the command line, and print what it gives in the last line."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    found = work(**json.loads(sys.argv[1]))
    print(json.dumps({**found, "own_peak": own_peak()}))
