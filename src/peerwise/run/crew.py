"""Worker processes that share the memory of what they import, and start at once.

A process of its own, the stem, imports what steps need, does nothing else that could start a thread, and forks a
worker whenever it is handed a connection. The user's script is never run again, and nothing that the user's process did
before, such as starting threads or a graphics card, can disturb a worker.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from multiprocessing import connection as pipes
from typing import Any, Literal

from joblib import wrap_non_picklable_objects

PATIENCE = 3.0  # seconds that others get to end by themselves
IDLE = 300.0  # seconds after which a stem that nobody needs ends
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
LOST: Literal["lost"] = "lost"


def spread(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], workers: int) -> Iterator[tuple[int, Any]]:
    """Call the function with each of these arguments in workers: the places of the tasks and their results, as they
    end. The result is `LOST` where the worker was ended from outside. An error ends all workers, and is raised."""
    waiting = deque(range(len(tasks)))
    busy: dict[Any, int] = {}
    idle: list[Any] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _hired()
                busy[worker] = waiting.popleft()
                with suppress(OSError):  # it has ended, which is seen below
                    worker.send(_whole((function, tasks[busy[worker]])))
            for ready in pipes.wait(list(busy)):
                place = busy.pop(ready)
                yield place, _result(ready, idle)
    except Exception:
        _let_end(busy)
        raise
    finally:
        for worker in (*busy, *idle):
            worker.close()


def _let_end(busy: dict[Any, int]) -> None:
    """Give those at work a moment: they may be failing for the same reason, and just tidying up."""
    until = time.monotonic() + PATIENCE
    while busy and (left := until - time.monotonic()) > 0:
        for ready in pipes.wait(list(busy), left):
            busy.pop(ready)
            ready.close()  # type: ignore[union-attr]


def _result(worker: Any, idle: list[Any]) -> Any:
    try:
        result, error, trace = worker.recv()
    except (EOFError, OSError):
        worker.close()
        return LOST
    idle.append(worker)
    if error is not None:
        raise error from RuntimeError(f"in a worker process:\n{trace}")
    return result


def _hired() -> Any:
    """A connection to a new worker, which ends when the connection does."""
    here, there = socket.socketpair()
    stem = _stem(os.getpid())
    if stem.process.poll() is not None:
        _stem.cache_clear()
        stem = _stem(os.getpid())
    with there, suppress(OSError):  # a stem that is just ending: its worker is lost, and the next one has another stem
        socket.send_fds(stem.control, [b"."], [there.fileno()])
    worker: Any = pipes.Connection(here.detach())
    with suppress(OSError):
        worker.send((sys.path, os.getcwd(), dict(os.environ)))
    return worker


@lru_cache(maxsize=1)
def _stem(process: int) -> _Stem:
    """One for all runs of a process, because it takes seconds to start; a forked process needs its own."""
    return _Stem()


class _Stem:
    def __init__(self) -> None:
        self.control, there = socket.socketpair()
        command = (
            f"import gc, sys; gc.disable(); sys.path[:] = {sys.path!r}; "
            f"from peerwise.run.crew import stem; stem({there.fileno()})"
        )
        with there, _deaf_to_ctrl_c():
            self.process = subprocess.Popen(
                [sys.executable, "-c", command], pass_fds=[there.fileno()], env={**os.environ, **ONE_THREAD}
            )
        weakref.finalize(self, _end, self.process, self.control)


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:  # it is still importing
        process.kill()
        process.wait()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that start within never see Ctrl-C, which goes to all processes of a terminal: it is this process that
    ends them. Here it is not lost, only late."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stem(control: int) -> None:
    """The stem's whole life: load what workers need, then fork one for each connection that comes, until the run that
    started it closes ``control`` or has long had nothing to do."""
    _load()
    with socket.socket(fileno=control) as listening:
        listening.settimeout(IDLE)
        while True:
            try:
                told, connections, *_ = socket.recv_fds(listening, 1, 1)
            except TimeoutError:
                if _any_left():
                    continue
                return
            if not told:
                _any_left(wait=True)
                return
            if os.fork() == 0:
                listening.close()
                try:
                    _work(connections[0])
                finally:
                    os._exit(1)
            os.close(connections[0])
            _any_left()


def _load() -> None:
    for name in ("run.steps", "models.zoo.images", "models.zoo.sequences", "models.zoo.tables"):
        importlib.import_module(f"peerwise.{name}")
    # Without garbage collection imports are faster; and in a worker it would write to, and so copy, every page.
    gc.freeze()


def _any_left(*, wait: bool = False) -> bool:
    """Take leave of the workers that have ended, or wait for all to end: whether any are left."""
    try:
        while os.waitpid(-1, 0 if wait else os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _work(connection: int) -> None:
    """A worker's whole life."""
    gc.enable()
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    run: Any = pipes.Connection(connection)
    with suppress(EOFError, OSError):
        sys.path[:], folder, environment = run.recv()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update({**environment, **ONE_THREAD})
        while True:
            answer = _answer(run)
            sys.stdout.flush()
            sys.stderr.flush()
            try:
                run.send(_whole(answer))
            except (TypeError, AttributeError, ValueError):  # an error that cannot be sent; what it says can
                run.send((None, RuntimeError(answer[2].strip().splitlines()[-1]), answer[2]))


def _end_with(connection: int) -> None:
    """Wait for the other end to close, as it does when the run is over or was killed, and end in the midst of work."""
    other_end = select.poll()
    other_end.register(connection, 0)
    other_end.poll()
    os._exit(1)


def _answer(run: Any) -> tuple[Any, BaseException | None, str]:
    try:
        function, arguments = run.recv()
    except EOFError:
        raise
    except Exception as error:  # something that can be imported there, but not here
        return None, error, traceback.format_exc()
    try:
        return function(*arguments), None, ""
    except BaseException as error:
        return None, error, traceback.format_exc()


def _whole(item: Any) -> Any:
    """So that classes of the user's script or notebook, which a worker cannot import, travel too."""
    return wrap_non_picklable_objects(item, keep_wrapper=False)
