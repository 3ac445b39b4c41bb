"""Workers forked from the leading process itself: they share its libraries and its rows, page by page.

Only where that is safe; everywhere else the stem forks them.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection as pipes
from typing import Any

from peerwise.environment import ONE_THREAD
from peerwise.errors import PeerwiseError, reason
from peerwise.run.stem import connected, load, serve

PATIENCE = 3.0  # seconds that others get to end by themselves


class Forked(pipes.Connection):
    """A connection to a worker that is a child of this process, which has to take leave of it."""

    def __init__(self, handle: int, process: int) -> None:
        super().__init__(handle)
        self.process = process

    def __del__(self) -> None:  # where Ctrl-C comes before anybody else knows of the worker
        if not self.closed:
            dismiss([self])


def safe_to_fork() -> bool:
    """Whether a copy of this process would work, and has what workers need.

    Another thread may hold a lock, which nobody in the copy would release; a graphics card cannot be shared. A process
    without torch only leads: in its copies each worker would load torch for itself.
    """
    if not sys.platform.startswith("linux") or "torch" not in sys.modules:
        return False
    load()
    return len(os.listdir("/proc/self/task")) == 1 and not sys.modules["torch"].cuda.is_initialized()


def forked(function: Callable[..., Any]) -> Forked:
    """A connection to a new worker, which ends when the connection does."""
    here, there = socket.socketpair()
    with there, here:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # gone, closed, or none at all
                stream.flush()
        with _uncollected(), deaf_to_ctrl_c():
            try:
                process = os.fork()
            except OSError as error:
                raise PeerwiseError(
                    f"a worker process could not start ({reason(error)}). Free some memory or use fewer workers, and "
                    f"run again: it goes on where it stopped."
                ) from error
            if process == 0:
                try:
                    _live(there.fileno(), function)
                finally:
                    os._exit(1)
            worker = Forked(here.detach(), process)
        return worker


def dismiss(workers: Iterable[Any]) -> None:
    """Close the connections, and take leave of those workers that are children of this process."""
    workers = list(workers)
    for worker in workers:
        worker.close()
    until = time.monotonic() + PATIENCE
    for worker in workers:
        if isinstance(worker, Forked):
            _take_leave(worker.process, until)


def _take_leave(process: int, until: float) -> None:
    with suppress(ChildProcessError):  # the caller's program does so itself for whatever child ends
        while os.waitpid(process, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return
            time.sleep(0.002)


def _live(connection: int, function: Callable[..., Any]) -> None:
    """A worker's whole life."""
    gc.freeze()  # collecting what the leader left would write to, and so copy, every page
    _leave_signals()
    _leave_files(connection)
    before = sys.stdout, sys.stderr  # kept, because at their end they would write what the leader has yet to write
    sys.stdout, sys.stderr = _stream(1, sys.__stdout__), _stream(2, sys.__stderr__)
    os.environ.update(ONE_THREAD)
    serve(connected(connection), function)
    del before


def _leave_signals() -> None:
    """What the caller's program does on a signal is not for workers; what it ignores, they ignore."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(number, signal.SIG_DFL)


def _leave_files(connection: int) -> None:
    """So that the connections of the others and the lock of the run folder end with the leader. Something else takes
    each place: whatever in this process still has its number can neither use nor close a file of this worker."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in (connection, nothing):
            os.dup2(nothing, number, inheritable=False)


def _stream(number: int, standard: Any) -> Any:
    """Of this process alone: the leader's may hold text, or may have been replaced by something in its memory."""
    if standard is None:
        return None
    return open(number, "w", buffering=1, encoding=standard.encoding, errors=standard.errors, closefd=False)


@contextmanager
def _uncollected() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that start within never see Ctrl-C, which goes to all processes of a terminal: it is this process that
    ends them. Here it is not lost, only late."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
