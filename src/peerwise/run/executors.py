"""Where tasks run: any `concurrent.futures.Executor`, a Dask or Ray cluster, or processes of this machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
import queue
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from multiprocessing import connection as pipes
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

from peerwise.environment import ARROW_ALONE, ONE_THREAD
from peerwise.errors import ConfigError, PeerwiseError, reason
from peerwise.run.messages import answer, drop

CONNECTING = 10.0  # seconds for a cluster to answer
WITHOUT_WORKERS = 60.0  # seconds for a cluster to get its first worker, or another one when all have died
_starting = threading.Lock()


class Pool(Protocol):
    """Where messages are answered."""

    at_once: int

    @property
    def busy(self) -> int: ...

    def start(self, place: int, message: list[bytes]) -> None: ...

    def ended(self) -> Iterator[tuple[int, bytes | None]]:
        """Wait for answers, which are None where the worker died."""

    def stop(self) -> None:
        """End those at work."""

    def renew(self) -> None:
        """Give back the memory of workers that have nothing to do, if they are processes of our own."""


class Submitted:
    """Tasks that an executor runs, which belongs to somebody else."""

    def __init__(self, executor: Executor, at_once: int) -> None:
        self.at_once = at_once
        self._executor = executor
        self._places: dict[Future[bytes], int] = {}

    def __enter__(self) -> Submitted:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def busy(self) -> int:
        return len(self._places)

    def start(self, place: int, message: list[bytes]) -> None:
        try:
            future = self._submit(message)
        except RuntimeError as error:  # as a BrokenExecutor is
            raise PeerwiseError(
                f"{type(self._executor).__name__} takes no more tasks ({reason(error)}): a worker of it died, or it "
                f"was shut down. Make a new one and run again: it goes on where it stopped."
            ) from error
        self._places[future] = place

    def _submit(self, message: list[bytes]) -> Future[bytes]:
        return self._executor.submit(answer, *message)

    def ended(self) -> Iterator[tuple[int, bytes | None]]:
        for future in self._done():
            yield self._places.pop(future), self._result(future)

    def _done(self) -> set[Future[bytes]]:
        return wait(self._places, return_when=FIRST_COMPLETED).done

    def _result(self, future: Future[bytes]) -> bytes | None:
        try:
            return future.result()
        except (BrokenExecutor, CancelledError):
            return None
        except Exception as error:
            if type(error).__name__ in DEATHS_BY_NAME:
                return None
            raise PeerwiseError(
                f"a worker of {type(self._executor).__name__} could not run a task: {reason(error)}. Can it import the "
                f"same version of peerwise?"
            ) from error

    def stop(self) -> None:
        for future in self._places:
            future.cancel()
        self._places.clear()

    def renew(self) -> None:
        pass

    def drop(self, run: str) -> None:
        """Free what threads of this process keep; other processes do so when another run begins."""
        drop(run)


# Of Dask, then of Ray: errors of the executor itself, never of the function.
DEATHS_BY_NAME = {
    "KilledWorker",
    "WorkerCrashedError",
    "NodeDiedError",
    "OutOfMemoryError",
    "LocalRayletDiedError",
    "OwnerDiedError",
    "ObjectLostError",
}


# Dask


class OnDask(Submitted):
    """Dask repeats the task of a worker that died, three times and by itself; here that is noticed and done as
    everywhere else."""

    def __init__(self, executor: Executor, at_once: int, client: Any) -> None:
        super().__init__(executor, at_once)
        self._client = client
        self._named: dict[str, Future[bytes]] = {}
        self._lost: set[Future[bytes]] = set()
        self._removed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._watches = "all" not in client._event_handlers  # else somebody else does, and may go on
        self._alone_since: float | None = None
        if self._watches:
            client.subscribe_topic("all", self._removed.put)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._watches and self._client.status == "running":
            self._client.unsubscribe_topic("all")

    def _submit(self, message: list[bytes]) -> Future[bytes]:
        name = f"peerwise-{uuid.uuid4().hex}"
        # Dask warns of large arguments, and advises what cannot be done here.
        with import_module("dask").config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            future = self._executor.submit(answer, *message, key=name)  # type: ignore[call-arg]
        self._named[name] = future
        return future

    def _done(self) -> set[Future[bytes]]:
        while not (done := wait(self._places, timeout=0.5, return_when=FIRST_COMPLETED).done):
            self._note_lost()
            self._check_workers()
        self._alone_since = None
        return done

    def _result(self, future: Future[bytes]) -> bytes | None:
        self._note_lost()  # Dask tells of the death before the result of the repetition
        self._named = {name: other for name, other in self._named.items() if other is not future}
        if future in self._lost:
            self._lost.remove(future)
            return None
        return super()._result(future)

    def _note_lost(self) -> None:
        while not self._removed.empty():
            _, event = self._removed.get()
            if event.get("action") == "remove-worker":
                for name in event.get("processing-tasks", ()):
                    if name in self._named:
                        self._lost.add(self._named[name])
                        self._named[name].cancel()

    def stop(self) -> None:
        super().stop()
        self._named.clear()
        self._lost.clear()

    def _check_workers(self) -> None:
        if self._client.status != "running":
            raise PeerwiseError(f"the Dask scheduler does not answer any more. {AGAIN}")
        if self._client.scheduler_info(n_workers=-1)["workers"]:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > WITHOUT_WORKERS:
            raise PeerwiseError(f"the Dask scheduler has had no worker for {WITHOUT_WORKERS:.0f} seconds. {AGAIN}")

    def drop(self, run: str) -> None:
        if self._client.status == "running":
            with suppress(Exception):  # it only frees memory
                self._client.run(drop, run, on_error="ignore")


AGAIN = "Start it again, then run again: it goes on where it stopped."


@contextmanager
def dask_client(address: str) -> Iterator[Any]:
    distributed = _extra("distributed", "dask")
    try:
        _check_reachable(address)  # a client that fails to connect takes half a minute to give up
        client = distributed.Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"executor is 'dask:{address}': no Dask scheduler answers there ({reason(error)}). Start one with `dask "
            f"scheduler`, or give the address that it prints."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WITHOUT_WORKERS)
        except TimeoutError as error:
            raise ConfigError(
                f"executor is 'dask:{address}': this Dask scheduler has no workers. Start some with `dask worker "
                f"{address}`."
            ) from error
        yield client


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        raise ValueError("expected an address with a port, such as 10.0.0.1:8786")
    socket.create_connection((host.strip("[]"), int(port)), CONNECTING).close()


def _extra(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f'executor needs {module}, which is not installed. Install it: `pip install "peerwise[{extra}]"`.'
        ) from error


# Ray


class RayExecutor(Executor):
    """Each call is a Ray task of its own, which Ray never repeats."""

    def __init__(self, ray: ModuleType) -> None:
        self._max_workers = int(ray.cluster_resources().get("CPU", 1)) or 1
        self._remote = cache(ray.remote(max_retries=0))  # Ray stores a function whenever it is made remote

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        return self._remote(function).remote(*arguments, **options).future()  # type: ignore[no-any-return]


@contextmanager
def ray_executor(address: str, workers: int | None) -> Iterator[RayExecutor]:
    ray = _extra("ray", "ray")
    found = ray.is_initialized()
    if not found:
        try:
            if address not in ("auto", "local"):
                _check_reachable(address)
            only_here = {"num_cpus": workers, "include_dashboard": False}
            with (
                _starting,
                _environment({"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}),
            ):  # tasks see the graphics cards there are
                ray.init(address, logging_level="warning", **only_here if address == "local" else {})
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"executor is 'ray:{address}': no Ray cluster answers there ({reason(error)}). Start one with `ray "
                f"start --head`, or use 'ray:local'."
            ) from error
    try:
        yield RayExecutor(ray)
    finally:
        if not found:
            ray.shutdown()


# Processes on this machine

NEEDED = [  # by nearly every task: the fork server imports them once, and all workers share the memory
    "peerwise.federation",
    "peerwise.methods.own_models",
    "peerwise.methods.pool_models",
    "peerwise.models.zoo.images",
    "peerwise.models.zoo.sequences",
    "peerwise.models.zoo.tables",
]


class _Worker(NamedTuple):
    connection: Any
    process: BaseProcess


class Processes:
    """Each starts when a task needs it, and is ended with the run.

    Each has a pipe of its own. The processes of a `ProcessPoolExecutor` share one: if one of them is killed as it
    writes, the rest of its answer is awaited forever, and any other death ends all of them.
    """

    def __init__(self, workers: int) -> None:
        self.at_once = workers
        self._all: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._busy: dict[Any, tuple[_Worker, int]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self._busy.clear()
        self._end(list(self._all))

    @property
    def busy(self) -> int:
        return len(self._busy)

    def start(self, place: int, message: list[bytes]) -> None:
        worker = self._idle.pop() if self._idle else self._hired()
        self._busy[worker.connection] = worker, place
        with suppress(OSError):  # it has died, which is seen when it ends
            worker.connection.send_bytes(len(message).to_bytes(4, "big"))
            for part in message:
                worker.connection.send_bytes(part)

    def ended(self) -> Iterator[tuple[int, bytes | None]]:
        for ready in pipes.wait(list(self._busy)):
            worker, place = self._busy.pop(ready)
            try:
                answer = worker.connection.recv_bytes()
            except (EOFError, OSError):
                self._end([worker])
                yield place, None
            else:
                self._idle.append(worker)
                yield place, answer

    def stop(self) -> None:
        self._end([worker for worker, _ in self._busy.values()])
        self._busy.clear()

    def renew(self) -> None:
        self._end(self._idle)
        self._idle.clear()

    def _hired(self) -> _Worker:
        with _starting:
            environment = dict(os.environ)
            with _deaf_to_ctrl_c(), _as_workers_start():
                worker = _started(environment)
                self._all.append(worker)
        return worker

    def _end(self, workers: list[_Worker]) -> None:
        for worker in workers:
            worker.connection.close()
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            self._all.remove(worker)


def _started(environment: dict[str, str]) -> _Worker:
    _check_folder()
    context: Any = multiprocessing.get_context(_start_method())
    context.set_forkserver_preload(NEEDED)
    here, there = context.Pipe()
    with there:
        for pause in (0.1, 1.0, 0.0):
            process = context.Process(target=_serve, args=(there, environment))
            try:
                process.start()
                return _Worker(here, process)
            except (OSError, EOFError) as error:
                failure = error
            time.sleep(pause)  # the fork server may have been killed: once it is gone, another one starts
    raise PeerwiseError(
        f"a worker process could not start ({reason(failure)}). Free some memory or use fewer workers, and run "
        f"again: it goes on where it stopped."
    ) from failure


def _start_method() -> Literal["forkserver", "spawn"]:
    """Elsewhere than on Linux, libraries that workers need may not survive a fork."""
    return "forkserver" if sys.platform == "linux" else "spawn"


@contextmanager
def _as_workers_start() -> Iterator[None]:
    """Processes that start within run on one thread, and never run the user's script again."""
    script = sys.modules["__main__"]
    paths = [path for path in sys.path if isinstance(path, str)]  # Python itself skips all else
    with _environment({**ONE_THREAD, **ARROW_ALONE, "PYTHONPATH": os.pathsep.join(paths)}):
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


@contextmanager
def _environment(changed: dict[str, str]) -> Iterator[None]:
    """For processes that start within, which read these variables as they begin."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _check_folder() -> None:
    try:
        os.stat(os.getcwd())  # a path may be too long to be entered again
    except OSError as error:
        raise PeerwiseError(
            f"worker processes cannot enter the working folder ({reason(error)}). Change to another folder, and run "
            f"again."
        ) from error


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that start within never see Ctrl-C, which goes to all processes of a terminal: it is this process that
    ends them. Here it is not lost, only late."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    import_module("multiprocessing.resource_tracker").ensure_running()  # as it starts, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Any, environment: dict[str, str]) -> None:
    """A worker's whole life."""
    gc.freeze()  # collecting would write to, and so copy, the memory that it shares with the fork server
    leader: Any = multiprocessing.parent_process()
    try:
        os.environ.clear()
        os.environ.update({**environment, **ONE_THREAD})
        if sys.platform != "win32":
            # Else a process that a task starts would keep the connection open, and the end of this one would not be
            # noticed.
            os.set_inheritable(connection.fileno(), False)
            os.register_at_fork(after_in_child=connection.close)
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(leader,), daemon=True).start()
        with suppress(EOFError, OSError):
            while True:
                message = [connection.recv_bytes() for _ in range(int.from_bytes(connection.recv_bytes(), "big"))]
                answered = answer(*message)
                del message
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    stream.flush()
                connection.send_bytes(answered)
    finally:
        os._exit(1)


def _end_with(leader: BaseProcess) -> None:
    """Wait for the leader to end, even if it is killed, and end in the midst of work."""
    leader.join()
    os._exit(1)
