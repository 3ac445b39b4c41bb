"""Commands of a site, each in a process of its own: forked, as importing the libraries is slower than any of them."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 180.0  # a command that takes longer hangs
_SUBREAPER = 36


@dataclass(frozen=True)
class Ended:
    """``killed`` by itself; or what it ``said``; or the ``error`` that it ended with, ours where that is a sentence."""

    killed: bool
    said: Any
    error: str
    is_ours: bool
    seconds: float
    peak: int  # bytes of memory
    orphans: int = 0


def in_child(work: Callable[[], Any], temporary: Path, before: Callable[[], Any] | None = None) -> Ended:
    """``before`` runs in the child first; what either returns must be JSON."""
    temporary.mkdir(parents=True, exist_ok=True)
    _adopt_orphans()
    reading, writing = os.pipe()
    started = time.monotonic()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(work, before, writing, temporary)
    os.close(writing)
    text = _all(reading, started + SECONDS)
    if text is None:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - started
    peak = usage.ru_maxrss * 1024
    orphans = _orphans()
    if text is None:
        return Ended(False, None, f"hung for {SECONDS:g} seconds", False, seconds, peak, orphans)
    if os.WIFSIGNALED(status):
        signalled = os.WTERMSIG(status)
        return Ended(signalled == signal.SIGKILL, None, f"signal {signalled}", False, seconds, peak, orphans)
    found = json.loads(text)
    return Ended(False, found["said"], found["error"], found["ours"], seconds, peak, orphans)


def _run(work: Callable[[], Any], before: Callable[[], Any] | None, writing: int, temporary: Path) -> None:
    """Never returns."""
    from peerwise.errors import PeerwiseError

    tempfile.tempdir = str(temporary)
    found: dict[str, Any] = {"said": None, "error": "", "ours": False}
    try:
        if before is not None:
            before()
        found["said"] = work()
    except PeerwiseError as error:
        found |= {"error": f"{type(error).__name__}: {error}", "ours": True}
    except BaseException:
        found["error"] = traceback.format_exc()
    data = json.dumps(found, default=str).encode()
    while data:
        data = data[os.write(writing, data) :]
    os._exit(0)


def _all(reading: int, until: float) -> str | None:
    """All that the child says, None if it does not end in time."""
    parts = []
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            part = os.read(reading, 1 << 16)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
    finally:
        os.close(reading)


def _adopt_orphans() -> None:
    """What a killed child leaves running becomes ours, so that we see it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _orphans(seconds: float = 10.0) -> int:
    """How many processes outlive the one that started them; they are ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            return 0
    import psutil

    left = psutil.Process().children(recursive=True)
    for process in left:
        process.kill()
    return len(left)
