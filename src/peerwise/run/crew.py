"""Worker processes that share the memory of what they import, and start at once.

The leading process forks them itself where that is safe. Elsewhere a process of its own, the stem, imports what steps
need, keeps to one thread, and forks a worker whenever it is handed a connection. Either way the user's script is never
run again, and nothing that the user's process did before, such as starting threads or a graphics card, can disturb a
worker.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from multiprocessing import connection as pipes
from multiprocessing.reduction import ForkingPickler
from typing import Any, Literal, NoReturn, Self

from peerwise.environment import ARROW_ALONE, ONE_THREAD
from peerwise.errors import ConfigError, PeerwiseError
from peerwise.run.forks import PATIENCE, deaf_to_ctrl_c, dismiss, forked, safe_to_fork
from peerwise.run.stem import packed, said

LOST: Literal["lost"] = "lost"
_one_at_a_time = threading.Lock()


def spread(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int) -> Iterator[tuple[int, Any]]:
    """Call the function with each of these arguments in workers, as a `Crew` does."""
    with Crew(workers, function) as crew:
        yield from crew.each(tasks)


class Crew:
    """Workers that stay until the end: each is sent the function once, when it is hired, with all that it holds."""

    def __init__(self, workers: int, function: Callable[..., Any]) -> None:
        if not hasattr(os, "fork"):
            raise ConfigError(f"workers is {workers}: {sys.platform} cannot fork processes; use workers=1 there.")
        self._workers = workers
        self._function = function
        self._idle: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        dismiss(self._idle)
        self._idle.clear()

    def each(self, tasks: Sequence[tuple[Any, ...]], at_once: int | None = None) -> Iterator[tuple[int, Any]]:
        """Call the function with each of these arguments: the places of the tasks and their results, as they end. The
        result is `LOST` where the worker was ended from outside. An error ends those at work, and is raised."""
        waiting = deque(range(len(tasks)))
        busy: dict[Any, int] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < (at_once or self._workers):
                    task = packed(tasks[waiting[0]])
                    worker = self._idle.pop() if self._idle else _hired(self._function)
                    busy[worker] = waiting.popleft()
                    with suppress(OSError):  # it has ended, which is seen below
                        worker.send_bytes(task)
                    del task  # it may be large
                for ready in pipes.wait(list(busy)):
                    place = busy.pop(ready)
                    yield place, _result(ready, self._idle)
        except Exception:
            _let_end(busy)
            raise
        finally:
            dismiss(busy)


def _let_end(busy: dict[Any, int]) -> None:
    """Give those at work a moment: they may be failing for the same reason, and just tidying up."""
    until = time.monotonic() + PATIENCE
    while busy and (left := until - time.monotonic()) > 0:
        for ready in pipes.wait(list(busy), left):
            busy.pop(ready)
            dismiss([ready])


def _result(worker: Any, idle: list[Any]) -> Any:
    try:
        answer = worker.recv_bytes()
    except (EOFError, OSError):
        dismiss([worker])
        return LOST
    idle.append(worker)
    result, failure = ForkingPickler.loads(answer)
    if failure is not None:
        _raise(*failure)
    return result


def _raise(error: bytes, words: str, trace: str) -> NoReturn:
    """Raise the worker's error; or, where it does not come out here as it went in there, one that says the same."""
    try:
        found = ForkingPickler.loads(error)
        same = said(found) == words
    except Exception:
        same = False
    raise (found if same else RuntimeError(words)) from RuntimeError(f"in a worker process:\n{trace}")


def _hired(function: Callable[..., Any]) -> Any:
    """A connection to a new worker, which ends when the connection does."""
    work = packed((function,))  # within something, because a class cannot be wrapped by itself
    if safe_to_fork():
        del work  # packed all the same: what cannot be sent is refused either way, and classes that return are known
        return forked(function)
    settings = _paths(), _folder(), dict(os.environ)
    with _one_at_a_time:
        stem = _stem(os.getpid())
        if stem.process.poll() is not None:
            _stem.cache_clear()
            stem = _stem(os.getpid())
    here, there = socket.socketpair()
    with there, suppress(OSError):  # a stem that is just ending: its worker is lost, and the next one has another stem
        socket.send_fds(stem.control, [b"."], [there.fileno()])
    worker: Any = pipes.Connection(here.detach())
    with suppress(OSError):
        worker.send(settings)
        worker.send_bytes(work)
    return worker


def _paths() -> list[str]:
    """Python itself skips whatever else a script may have put there."""
    return [path for path in sys.path if isinstance(path, str)]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise PeerwiseError(
            f"the working folder of this process cannot be used any more ({error}), and worker processes need one. "
            f"Change to another folder and run again."
        ) from error


@lru_cache(maxsize=1)
def _stem(process: int) -> _Stem:
    """One for all runs of a process, because it takes seconds to start; a forked process needs its own."""
    return _Stem()


class _Stem:
    def __init__(self) -> None:
        self.control, there = socket.socketpair()
        command = (
            f"import gc, sys; gc.disable(); sys.path[:] = {_paths()!r}; "
            f"from peerwise.run.stem import live; live({there.fileno()})"
        )
        environment = {**os.environ, **ONE_THREAD, **ARROW_ALONE}
        with there, deaf_to_ctrl_c():
            self.process = subprocess.Popen([sys.executable, "-c", command], pass_fds=[there.fileno()], env=environment)
        weakref.finalize(self, _end, self.process, self.control)
        if not self.control.recv(1):
            raise PeerwiseError(
                f"the process that starts the workers could not start: it ended with exit code {self.process.wait()}. "
                f"See what it wrote to standard error, or run with workers=1, which needs no other process."
            )


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:  # it is still importing
        process.kill()
        process.wait()
