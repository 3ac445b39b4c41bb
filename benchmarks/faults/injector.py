"""Faults within a process, put in from outside: the product's code knows nothing of them.

Every step by which a process changes files is counted: creating, writing (half of it is written), flushing, renaming,
removing, making folders, cutting. At the n-th of them it is killed, or the disk is full from there on, or just once.
"""

from __future__ import annotations

import builtins
import errno
import importlib
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NEVER = 1 << 60


class Injector:
    """``fault``: "kill", "full" (from the n-th step on) or "full once". Only files below ``root`` count."""

    def __init__(self, root: Path, fault: str = "kill", at: int = NEVER) -> None:
        self.root, self.fault, self.at = str(root), fault, at
        self.steps = 0

    def step(self, path: Any, half: Callable[[], Any] | None = None, *, needs_room: bool = True) -> None:
        """One step; on the step that it is for, ``half`` of it is done first."""
        if not self._counts(path):
            return
        self.steps += 1
        full = self.fault == "full" and self.steps > self.at
        if self.steps != self.at and not full:
            return
        if self.fault == "kill":
            if half is not None:
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        if needs_room:
            if half is not None:
                half()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _counts(self, path: Any) -> bool:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        return os.path.abspath(os.fsdecode(os.fspath(path))).startswith(self.root)

    def install(self) -> None:
        real = os.open

        def opened(path: Any, flags: int, *more: Any, **other: Any) -> int:
            if flags & WRITING:
                self.step(path)
            return real(path, flags, *more, **other)

        os.open = opened
        for name, needs_room in (("replace", True), ("rename", True), ("unlink", False), ("mkdir", True)):
            self._before(name, needs_room=needs_room)
        for name in ("fsync", "truncate", "ftruncate"):
            self._before(name, needs_room=name == "fsync")
        self._files()

    def _before(self, name: str, *, needs_room: bool) -> None:
        real = getattr(os, name)

        @wraps(real)
        def call(path: Any, *more: Any, **other: Any) -> Any:
            self.step(path, needs_room=needs_room)
            return real(path, *more, **other)

        setattr(os, name, call)

    def _files(self) -> None:
        """Files that are opened for writing write through a class that can stop in the midst."""
        injector, plain = self, builtins.open

        class Stopping(io.FileIO):
            def write(self, data: Any) -> int:
                view = memoryview(data).cast("B")
                injector.step(self.fileno(), lambda: io.FileIO.write(self, view[: len(view) // 2]))
                return io.FileIO.write(self, data) or 0

            def truncate(self, size: int | None = None) -> int:
                injector.step(self.fileno(), needs_room=False)
                return io.FileIO.truncate(self, size)

        def opened(
            file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
            newline: Any = None, closefd: bool = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            if not set(mode) & set("wax+") or (isinstance(file, int) and not injector._counts(file)):
                return plain(file, mode, buffering, encoding, errors, newline, closefd, opener)
            if opener is None and not isinstance(file, int):
                injector.step(file)
            raw = Stopping(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            if buffering == 0:
                return raw
            kind = io.BufferedRandom if "+" in mode else io.BufferedWriter
            buffered = kind(raw)  # type: ignore[arg-type]
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline)

        builtins.open = io.open = opened  # type: ignore[assignment]


class StageKiller:
    """Counts what Python calls while one of the functions of a stage runs, in any thread, and kills at the n-th."""

    points = "calls of Python"

    def __init__(self, functions: list[str], at: int = NEVER) -> None:
        self.functions, self.at, self.steps = functions, at, 0

    def install(self) -> None:
        for where in self.functions:
            module, _, names = where.partition(":")
            owner: Any = importlib.import_module(module)
            *path, name = names.split(".")
            for part in path:
                owner = getattr(owner, part)
            setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def call(*given: Any, **named: Any) -> Any:
            sys.setprofile(self._event)
            threading.setprofile(self._event)
            try:
                return real(*given, **named)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)

        return call

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        self.steps += 1
        if self.steps >= self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class TimedKiller(StageKiller):
    """Counts the microseconds that the stage has run, and kills after so many."""

    points = "moments"

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def call(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            left = max(0.0, (self.at - self.steps) / 1e6)
            timer = threading.Timer(min(left, 1e6), os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
            try:
                return real(*given, **named)
            finally:
                timer.cancel()
                self.steps += int(1e6 * (time.perf_counter() - started))

        return call
