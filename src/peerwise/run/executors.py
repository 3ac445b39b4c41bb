"""Call functions in worker processes: on this machine, or by any `concurrent.futures.Executor`, Dask or Ray.

Functions, arguments and results are packed here, so functions and classes of the user's script or notebook travel to
any executor. Values that many tasks need are scattered: each worker keeps them, and asks for those it lacks. Large
arrays and bytes that lie in a scattered value are not sent again in a task, nor sent back in a result.
"""

from __future__ import annotations

import gc
import io
import itertools
import multiprocessing
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from multiprocessing import connection as pipes
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

import cloudpickle
import numpy as np

from peerwise.environment import ARROW_ALONE, ONE_THREAD
from peerwise.errors import ConfigError, PeerwiseError, reason
from peerwise.models import one_thread

VERSION = version("peerwise")
DEATHS = 3  # of workers at one task, that end a run
CONNECTING = 10.0  # seconds for a cluster to answer
WITHOUT_WORKERS = 60.0  # seconds for a cluster to get its first worker, or another one when all have died
LARGE = 4096  # bytes of an array or of a model that are worth a reference
Surroundings = tuple[list[str], str, dict[str, str]]  # import paths, working folder, environment
_starting = threading.Lock()
NEEDED = (  # by nearly every task: imported before workers are forked, which then share the memory
    "peerwise.federation",
    "peerwise.methods.own_models",
    "peerwise.methods.pool_models",
    "peerwise.models.zoo.images",
    "peerwise.models.zoo.sequences",
    "peerwise.models.zoo.tables",
)


@dataclass(frozen=True)
class Handle:
    """Stands for a scattered value in the arguments of a task."""

    key: int


class Workers:
    """Where tasks run. Numbers never depend on it: every task runs on one thread, in a worker or here."""

    def __init__(self, pool: _Pool | None, workers: int, *, local: bool) -> None:
        self.in_process = pool is None
        self.local = local
        self.workers = workers
        self._pool = pool
        self._run = uuid.uuid4().hex
        self._keys = itertools.count()
        self._tasks = itertools.count()
        self._values: dict[int, Any] = {}
        self._handles: dict[int, Handle] = {}  # by the id of the value
        self._large = _Large()
        self._sent: set[int] = set()
        self._forgotten: list[tuple[int, int]] = []  # spans of keys

    def scatter(self, value: Any) -> Handle:
        """A handle for the value, which must not change from now on; the same one as long as it is not forgotten. Each
        worker gets the value when a task first needs it."""
        if id(value) not in self._handles:
            handle = self._handles[id(value)] = Handle(next(self._keys))
            self._values[handle.key] = value
            if self._pool is not None:
                self._large.add(handle.key, value)
        return self._handles[id(value)]

    def forget(self, handle: Handle) -> None:
        """Drop the value: here at once, in each worker with its next task."""
        key = handle.key
        del self._handles[id(self._values.pop(key))]
        self._large.drop(key)
        at = bisect(self._forgotten, (key,))
        after = at > 0 and self._forgotten[at - 1][1] == key
        before = at < len(self._forgotten) and self._forgotten[at][0] == key + 1
        start = self._forgotten[at - 1][0] if after else key
        stop = self._forgotten[at][1] if before else key + 1
        self._forgotten[at - after : at + before] = [(start, stop)]

    def forget_all(self) -> None:
        for key in list(self._values):
            self.forget(Handle(key))

    def map(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        on_lost: Callable[[int], None] | None = None,
        name_of: Callable[[int], str] = "task {}".format,
    ) -> Iterator[tuple[int, Any]]:
        """Call ``function(*task)`` for every task: the places of the tasks and their results, as they end.

        Handles among the arguments, or in a list, tuple or dict that is one, are replaced by their values. An error of
        a task ends the others and is raised. The task of a worker that dies (as when memory runs out) is repeated
        after the others and alone, which needs less memory; ``on_lost`` is called with its place. After three deaths
        the error calls the task what ``name_of`` its place is.
        """
        if self._pool is None:
            for place, task in enumerate(tasks):
                yield place, function(*_filled(task, self._values))
            return
        left: Sequence[int] = range(len(tasks))
        for death in range(DEATHS):
            lost = []
            at_once = self._pool.at_once if death == 0 else 1
            for place, found in self._answers(self._pool, function, tasks, deque(left), at_once):
                if found is not None:
                    yield place, found[0]
                    continue
                lost.append(place)
                if on_lost:
                    on_lost(place)
            left = lost
        if left:
            raise PeerwiseError(
                f"{name_of(left[0])}: its worker process was ended from outside, {DEATHS} times in a row. Was there "
                f"too little memory? Free some, or use smaller models, and run again: it goes on where it stopped."
            )

    def _answers(
        self,
        pool: _Pool,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        waiting: deque[int],
        at_once: int,
    ) -> Iterator[tuple[int, tuple[Any] | None]]:
        """The results, as they end; None where the worker died."""
        lacked: defaultdict[int, set[int]] = defaultdict(set)
        try:
            while waiting or pool.busy:
                while waiting and pool.busy < at_once:
                    place = waiting.popleft()
                    pool.start(place, self._message(function, tasks[place], lacked[place]))
                for place, answer in pool.ended():
                    if answer is None:
                        yield place, None
                        continue
                    kind, content = self._large.unpacked(answer)
                    if kind == "failed":
                        _raise(*content)
                    elif kind == "lacks":
                        lacked[place].update(content)
                        waiting.appendleft(place)
                    else:
                        yield place, (content,)
        finally:
            pool.stop()

    def _message(self, function: Callable[..., Any], task: tuple[Any, ...], lacked: set[int]) -> list[bytes]:
        work, mentioned = self._large.packed((function, task))
        needs = _keys(task) | mentioned
        sending = sorted(lacked | (needs - self._sent))
        self._sent |= needs
        values = [_packed(self._values[key]) for key in sending]
        # The number of the task keeps messages apart: Dask would answer equal calls once.
        header = _Header(VERSION, self._run, next(self._tasks), needs, sending, self._forgotten)
        return [_packed(header), work, *values]


@contextmanager
def open_workers(executor: Executor | str | None = None, workers: int = 1) -> Iterator[Workers]:
    """Workers that stay until the end.

    ``executor``: None or ``"local"`` for processes on this machine, of which 1 means this very process;
    ``"dask:ADDRESS"`` for a Dask scheduler; ``"ray:ADDRESS"``, ``"ray:auto"`` for a Ray cluster, ``"ray:local"`` for
    one that lives as long as these workers; or any `concurrent.futures.Executor`, which stays open. With an executor
    ``workers`` is how many tasks it is to run at once, and 1 means as many as it can.
    """
    with ExitStack() as stack:
        if executor is None or executor == "local":
            pool = None if workers == 1 else stack.enter_context(_Processes(workers))
            yield Workers(pool, workers, local=True)
            return
        local = executor == "ray:local"
        client = None
        if isinstance(executor, str):
            kind, _, address = executor.partition(":")
            if kind == "dask" and address:
                client = stack.enter_context(_dask_client(address))
                executor = client.get_executor(pure=False)
            elif kind == "ray" and address:
                executor = stack.enter_context(_ray_executor(address, workers))
            else:
                raise ConfigError(
                    f"executor is {executor!r}: expected 'local', 'dask:ADDRESS' (such as 'dask:tcp://10.0.0.1:8786'), "
                    f"'ray:ADDRESS', 'ray:auto' or 'ray:local'."
                )
        if not isinstance(executor, Executor):
            raise ConfigError(
                f"executor is {executor!r}: expected a concurrent.futures.Executor, or a text such as 'local', "
                f"'dask:ADDRESS' or 'ray:ADDRESS'."
            )
        local = local or _is_local(executor)
        if client is None and type(executor).__module__.startswith("distributed."):
            client = executor._client  # type: ignore[attr-defined]
        able = workers if workers > 1 else _able(executor, client)
        submitted = _Submitted(executor, able) if client is None else _OnDask(executor, able, client)
        found = Workers(stack.enter_context(submitted), able, local=local)
        stack.callback(submitted.drop, found._run)
        yield found


def _is_local(executor: Executor) -> bool:
    known = isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor)
    return known or any("loky" in kind.__module__.split(".") for kind in type(executor).__mro__)


def _able(executor: Executor, client: Any) -> int:
    """How many tasks the executor runs at once, as far as it can be known."""
    if client is not None:
        return max(1, sum(map(int, client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


class _Pool(Protocol):
    """Where messages are answered."""

    at_once: int

    @property
    def busy(self) -> int: ...

    def start(self, place: int, message: list[bytes]) -> None: ...

    def ended(self) -> Iterator[tuple[int, bytes | None]]:
        """Wait for answers, which are None where the worker died."""

    def stop(self) -> None:
        """End those at work."""


# What travels


class _Header(NamedTuple):
    version: str
    run: str
    task: int
    needs: set[int]
    sent: list[int]
    forgotten: list[tuple[int, int]]


def _packed(item: Any) -> bytes:
    return cloudpickle.dumps(item, protocol=5)  # type: ignore[no-any-return]


class _Large:
    """The large arrays and bytes within scattered values, each known by the key of its value and its place there."""

    def __init__(self) -> None:
        self._items: dict[tuple[int, int], Any] = {}
        self._references: dict[int, tuple[int, int]] = {}  # by id

    def add(self, key: int, value: Any) -> None:
        for place, item in enumerate(_large_items(value)):
            self._items[key, place] = item
            self._references.setdefault(id(item), (key, place))

    def drop(self, key: int) -> None:
        for reference in [reference for reference in self._items if reference[0] == key]:
            item = self._items.pop(reference)
            if self._references.get(id(item)) == reference:
                del self._references[id(item)]

    def packed(self, item: Any) -> tuple[bytes, set[int]]:
        """With references, and the keys of the values that these are to."""
        file = io.BytesIO()
        pickler = _Pickler(file, self._references)
        pickler.dump(item)
        return file.getvalue(), pickler.mentioned

    def unpacked(self, data: bytes) -> Any:
        return _Unpickler(io.BytesIO(data), self._items).load()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, references: Mapping[int, tuple[int, int]]) -> None:
        super().__init__(file, protocol=5)
        self._references = references
        self.mentioned: set[int] = set()

    def persistent_id(self, item: Any) -> tuple[int, int] | None:
        if type(item) not in (bytes, np.ndarray):
            return None
        reference = self._references.get(id(item))
        if reference is not None:
            self.mentioned.add(reference[0])
        return reference


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, items: Mapping[tuple[int, int], Any]) -> None:
        super().__init__(file)
        self._items = items

    def persistent_load(self, reference: Any) -> Any:
        return self._items[reference]


def _large_items(node: Any) -> Iterator[Any]:
    if isinstance(node, bytes | np.ndarray):
        if (len(node) if isinstance(node, bytes) else node.nbytes) >= LARGE:
            yield node
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _large_items(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _large_items(value)
    elif is_dataclass(node) and not isinstance(node, type):
        for each in fields(node):
            yield from _large_items(getattr(node, each.name))


def _keys(task: tuple[Any, ...]) -> set[int]:
    found: set[int] = set()
    for argument in task:
        inside = argument.values() if type(argument) is dict else argument if type(argument) in (list, tuple) else ()
        found.update(item.key for item in (argument, *inside) if isinstance(item, Handle))
    return found


def _filled(task: tuple[Any, ...], values: dict[int, Any]) -> list[Any]:
    """The arguments, with the values that handles stand for."""

    def value(item: Any) -> Any:
        return values[item.key] if isinstance(item, Handle) else item

    def filled(argument: Any) -> Any:
        if type(argument) is dict:
            return {name: value(item) for name, item in argument.items()}
        if type(argument) in (list, tuple):
            return type(argument)(map(value, argument))
        return value(argument)

    return [filled(argument) for argument in task]


def _raise(error: bytes, words: str, trace: str) -> NoReturn:
    """Raise the worker's error; or, where it does not come out here as it went in there, one that says the same."""
    try:
        found = cloudpickle.loads(error)
        same = _words(found) == words
    except Exception:
        same = False
    raise (found if same else RuntimeError(words)) from RuntimeError(f"in a worker process:\n{trace}")


def _words(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


# In a worker


@dataclass
class _Kept:
    """The scattered values of one run that one thread of a worker has: threads do not share them."""

    run: str
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    values: dict[int, Any] = field(default_factory=dict)
    large: _Large = field(default_factory=_Large)


_kept: dict[int, _Kept] = {}  # by thread


def _answer(*message: bytes) -> bytes:
    """Answer one message, in a worker of any executor."""
    try:
        packed, work, *values = message
        del message  # they may be large
        header = cloudpickle.loads(packed)
        if header[0] != VERSION:
            raise ConfigError(
                f"a worker has peerwise {VERSION}, but the run that it works for {header[0]}: expected the same "
                f"version. Install one of them at both."
            )
        header = _Header(*header)
        kept = _kept.get(threading.get_ident())
        if kept is None or kept.run != header.run:
            kept = _kept[threading.get_ident()] = _Kept(header.run)
        if header.forgotten != kept.forgotten:
            kept.forgotten = header.forgotten
            for key in list(kept.values):
                if any(start <= key < stop for start, stop in kept.forgotten):
                    del kept.values[key]
                    kept.large.drop(key)
        for key in header.sent:
            value = values.pop(0)
            if key not in kept.values:  # another worker lacked it
                kept.values[key] = cloudpickle.loads(value)
                kept.large.add(key, kept.values[key])
            del value
        if lacks := header.needs - kept.values.keys():
            return _packed(("lacks", lacks))
        with _limited():
            function, task = kept.large.unpacked(work)
            del work
            result = function(*_filled(task, kept.values))
        try:
            return kept.large.packed(("done", result))[0]
        except Exception as error:
            raise RuntimeError(f"the result cannot be sent from a worker process: {reason(error)}") from error
    except BaseException as error:
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    try:
        whole = _packed(error)
    except Exception:  # an error that cannot be sent; what it says can
        whole = b""
    return _packed(("failed", (whole, _words(error), "".join(traceback.format_exception(error)))))


def _drop(run: str) -> None:
    for thread, kept in list(_kept.items()):
        if kept.run == run:
            _kept.pop(thread, None)


class _Limit:
    """One thread for tasks that overlap in one process: the first begins it, the last ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._stack = ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._stack.enter_context(one_thread())
            self._users += 1
        try:
            with one_thread():  # of torch, which counts for each thread by itself
                yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._stack.close()


_limited = _Limit()


# Any executor


class _Submitted:
    """Tasks that an executor runs, which belongs to somebody else."""

    def __init__(self, executor: Executor, able: int) -> None:
        self.at_once = 2 * able  # so that no worker waits for the next one
        self._executor = executor
        self._places: dict[Future[bytes], int] = {}

    def __enter__(self) -> _Submitted:
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
        return self._executor.submit(_answer, *message)

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

    def drop(self, run: str) -> None:
        """Free what threads of this process keep; other processes do so when another run begins."""
        _drop(run)


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


class _OnDask(_Submitted):
    """Dask repeats the task of a worker that died, three times and by itself; here that is noticed and done as
    everywhere else."""

    def __init__(self, executor: Executor, able: int, client: Any) -> None:
        super().__init__(executor, able)
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
            future = self._executor.submit(_answer, *message, key=name)  # type: ignore[call-arg]
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
                self._client.run(_drop, run, on_error="ignore")


AGAIN = "Start it again, then run again: it goes on where it stopped."


@contextmanager
def _dask_client(address: str) -> Iterator[Any]:
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
        self._ray = ray
        self._max_workers = int(ray.cluster_resources().get("CPU", 1)) or 1

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        task = self._ray.remote(max_retries=0)(function)
        return task.remote(*arguments, **options).future()  # type: ignore[no-any-return]


@contextmanager
def _ray_executor(address: str, workers: int) -> Iterator[RayExecutor]:
    ray = _extra("ray", "ray")
    found = ray.is_initialized()
    if not found:
        try:
            if address not in ("auto", "local"):
                _check_reachable(address)
            only_here = {"num_cpus": workers if workers > 1 else None, "include_dashboard": False}
            with _environment({"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}):  # tasks see the graphics cards there are
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


class _Worker(NamedTuple):
    connection: Any
    process: BaseProcess


class _Processes:
    """Each starts when a task needs it, and is ended with the run."""

    def __init__(self, workers: int) -> None:
        self.at_once = workers
        self._all: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._busy: dict[Any, tuple[_Worker, int]] = {}

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *error: object) -> None:
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

    def _hired(self) -> _Worker:
        with _deaf_to_ctrl_c():
            worker = _started()
            self._all.append(worker)
        return worker

    def _end(self, workers: list[_Worker]) -> None:
        for worker in workers:
            worker.connection.close()
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            self._all.remove(worker)


def _started() -> _Worker:
    method = _start_method()
    surroundings = None if method == "fork" else (_paths(), _folder(), dict(os.environ))
    here, there = multiprocessing.Pipe()
    try:
        with there:
            try:
                return _Worker(here, _process(method, there, surroundings))
            except (OSError, EOFError):
                if method != "forkserver":
                    raise
                _server.cache_clear()  # it was killed
                return _Worker(here, _process(method, there, surroundings))
    except (OSError, EOFError) as error:
        raise PeerwiseError(
            f"a worker process could not start ({reason(error)}). Free some memory or use fewer workers, and run "
            f"again: it goes on where it stopped."
        ) from error


def _process(method: str, connection: Any, surroundings: Surroundings | None) -> BaseProcess:
    context: Any = multiprocessing.get_context(method)
    kind = _FromServer if method == "forkserver" else context.Process
    process: BaseProcess = kind(target=_serve, args=(connection, surroundings))
    one_thread = {} if method == "fork" else {**ONE_THREAD, **ARROW_ALONE, "PYTHONPATH": os.pathsep.join(_paths())}
    with _uncollected(), _environment(one_thread):
        process.start()
    return process


def _start_method() -> Literal["fork", "forkserver", "spawn"]:
    """Forked from this process, workers share its libraries and rows, and start at once; but another thread may hold a
    lock, which nobody in the copy would release, and a graphics card cannot be shared. A process without torch only
    leads: in its copies each worker would load torch for itself."""
    if sys.platform != "linux":
        return "spawn"
    if "torch" not in sys.modules:
        return "forkserver"
    for name in NEEDED:
        import_module(name)
    alone = len(os.listdir("/proc/self/task")) == 1
    return "fork" if alone and not sys.modules["torch"].cuda.is_initialized() else "forkserver"


if sys.platform == "linux":
    from multiprocessing import forkserver, popen_forkserver, reduction, spawn, util
    from multiprocessing.context import ForkServerProcess, set_spawning_popen

    class _FromServer(ForkServerProcess):
        """A process from a fork server of our own, which has the libraries that workers need, on one thread."""

        @staticmethod
        def _Popen(process_obj: BaseProcess) -> Any:
            return _Popen(process_obj)

    class _Popen(popen_forkserver.Popen):
        def _launch(self, process_obj: BaseProcess) -> None:
            """As the standard library does it, but the process never runs the user's script again, nor needs the folder
            where the script began."""
            about = spawn.get_preparation_data(process_obj.name)
            for key in ("init_main_from_name", "init_main_from_path", "dir"):
                about.pop(key, None)
            sent = io.BytesIO()
            set_spawning_popen(self)
            try:
                reduction.dump(about, sent)
                reduction.dump(process_obj, sent)
            finally:
                set_spawning_popen(None)
            self.sentinel, write = _server(os.getpid()).connect_to_new_process(self._fds)  # type: ignore[attr-defined]
            self.finalizer = util.Finalize(self, util.close_fds, (os.dup(write), self.sentinel))  # type: ignore[attr-defined]
            with open(write, "wb") as file:
                file.write(sent.getbuffer())
            self.pid = forkserver.read_signed(self.sentinel)

    @lru_cache(maxsize=1)
    def _server(process: int) -> forkserver.ForkServer:
        """One for all runs of a process, because it takes seconds to start; a forked process needs its own."""
        server = forkserver.ForkServer()
        server.set_forkserver_preload(list(NEEDED))
        return server


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


@contextmanager
def _environment(changed: dict[str, str]) -> Iterator[None]:
    """For processes that start within, which read these variables as they begin."""
    with _starting:
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


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collecting in a forked process would write to, and so copy, every page, until it has frozen what is there."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that start within never see Ctrl-C, which goes to all processes of a terminal: it is this process that
    ends them. Here it is not lost, only late."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_leaders_streams: list[Any] = []  # kept: at their end they would write what the leader has yet to write


def _serve(connection: Any, surroundings: Surroundings | None) -> None:
    """A worker's whole life; without surroundings it was forked from the leader, and has its."""
    gc.freeze()
    gc.enable()
    leader: Any = multiprocessing.parent_process()
    try:
        trouble = None
        if surroundings is None:
            _leave_signals()
            _leave_files({connection.fileno(), leader.sentinel})
            _leaders_streams.extend((sys.stdout, sys.stderr))
            sys.stdout, sys.stderr = _stream(1, sys.__stdout__), _stream(2, sys.__stderr__)
            os.environ.update(ONE_THREAD)
        else:
            trouble = _settle(*surroundings)
        if sys.platform != "win32":
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else a task would not learn how its own processes end
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
                answer = _failure(trouble) if trouble else _answer(*message)
                del message
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    stream.flush()
                connection.send_bytes(answer)
    finally:
        os._exit(1)


def _end_with(leader: BaseProcess) -> None:
    """Wait for the leader to end, even if it is killed, and end in the midst of work."""
    leader.join()
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


def _leave_signals() -> None:
    """What the caller's program does on a signal is not for workers; what it ignores, they ignore."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(number, signal.SIG_DFL)


def _leave_files(kept: set[int]) -> None:
    """So that the connections of the others and the lock of the run folder end with the leader. Something else takes
    each place: whatever in this process still has its number can neither use nor close a file of this worker."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in {*kept, nothing}:
            os.dup2(nothing, number, inheritable=False)


def _stream(number: int, standard: Any) -> Any:
    """Of this process alone: the leader's may hold text, or may have been replaced by something in its memory."""
    if standard is None:
        return None
    return open(number, "w", buffering=1, encoding=standard.encoding, errors=standard.errors, closefd=False)
