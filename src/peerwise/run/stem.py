"""The other end of a crew: the process that forks workers, and the workers themselves."""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing import connection as pipes
from multiprocessing.reduction import ForkingPickler
from typing import Any

from joblib import wrap_non_picklable_objects

from peerwise.environment import ONE_THREAD
from peerwise.errors import PeerwiseError, reason

IDLE = 300.0  # seconds after which a stem that nobody needs ends


def live(control: int) -> None:
    """The stem's whole life: load what workers need, then fork one for each connection that comes, until the run that
    started it closes ``control`` or has long had nothing to do."""
    load()
    # Without garbage collection imports are faster; and in a worker it would write to, and so copy, every page.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers that have ended are gone at once
    with socket.socket(fileno=control) as listening:
        with suppress(OSError):  # nobody waits any more, which is seen below
            listening.send(b".")
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


def load() -> None:
    """What steps need, before the fork, so that workers share it."""
    for name in ("run.steps", "run.turns", "models.zoo.images", "models.zoo.sequences", "models.zoo.tables"):
        importlib.import_module(f"peerwise.{name}")


def _any_left(*, wait: bool = False) -> bool:
    """Whether any workers are at work, now or after waiting for all to end."""
    try:
        os.waitpid(-1, 0 if wait else os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _work(connection: int) -> None:
    """A worker's whole life."""
    run = connected(connection)
    with suppress(EOFError, OSError):
        unsettled = _settle(*run.recv())
        serve(run, *_taken_out(run.recv_bytes(), unsettled))


def connected(connection: int) -> Any:
    """A worker's end of the connection, with which it ends."""
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    run: Any = pipes.Connection(connection)
    # Else a process that a step starts would keep the connection open, and the end of this one would not be noticed.
    os.set_inheritable(connection, False)
    os.register_at_fork(after_in_child=run.close)
    return run


def serve(run: Any, function: Any, trouble: Exception | None = None) -> None:
    """Answer every task that comes; trouble that there was before is told with each."""
    with suppress(EOFError, OSError):
        while True:
            answer = _answer(run, function, trouble)
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            run.send_bytes(answer)


def _end_with(connection: int) -> None:
    """Wait for the other end to close, as it does when the run is over or was killed, and end in the midst of work."""
    other_end = select.poll()
    other_end.register(connection, 0)
    other_end.poll()
    os._exit(1)


def _settle(paths: list[str], folder: str, environment: dict[str, str]) -> PeerwiseError | None:
    """Take over the surroundings of the run: the error, if that fails."""
    sys.path[:] = paths
    os.environ.clear()
    os.environ.update({**environment, **ONE_THREAD})
    try:
        os.chdir(folder)
    except OSError as error:
        return PeerwiseError(
            f"a worker process cannot enter the working folder ({reason(error)}). Change to another folder, and run "
            f"again."
        )
    return None


def _taken_out(work: bytes, trouble: Exception | None) -> tuple[Any, Exception | None]:
    """The function that all tasks are for; or the trouble, told with every task."""
    try:
        return (ForkingPickler.loads(work)[0] if trouble is None else None), trouble
    except Exception as error:
        return None, error


def _answer(run: Any, function: Any, trouble: Exception | None) -> memoryview:
    task = run.recv_bytes()
    try:
        if trouble:
            raise trouble
        arguments = ForkingPickler.loads(task)
        del task  # it may be large
        result = function(*arguments)
        try:
            return packed((result, None))
        except Exception as error:
            raise RuntimeError(f"the result cannot be sent from a worker process: {reason(error)}") from error
    except BaseException as error:
        return _failure(error)


def _failure(error: BaseException) -> memoryview:
    try:
        whole = bytes(packed(error))
    except Exception:  # an error that cannot be sent; what it says can
        whole = b""
    return packed((None, (whole, said(error), "".join(traceback.format_exception(error)))))


def said(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def packed(item: Any) -> memoryview:
    """So that classes of the user's script or notebook, which a worker cannot import, travel too."""
    return ForkingPickler.dumps(wrap_non_picklable_objects(item, keep_wrapper=False))
