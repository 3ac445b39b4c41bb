"""Workers: call a function for many tasks, in this process, in others of this machine, or by any executor."""

from __future__ import annotations

import itertools
import os
import uuid
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from peerwise.errors import ConfigError, PeerwiseError
from peerwise.run.executors import OnDask, Pool, Processes, Submitted, dask_client, ray_executor
from peerwise.run.messages import (
    VERSION,
    Handle,
    Header,
    Large,
    filled,
    handle_keys,
    in_task,
    packed,
    raise_error,
    task_alone,
)

DEATHS = 3  # of workers at one task, that end a run


class Workers:
    """Where tasks run. Numbers never depend on it: every task runs on one thread, in a worker or here."""

    def __init__(self, pool: Pool | None, workers: int, *, local: bool) -> None:
        self.in_process = pool is None
        self.local = local
        self.workers = workers
        self._pool = pool
        self._run = uuid.uuid4().hex
        self._keys = itertools.count()
        self._tasks = itertools.count()
        self._values: dict[int, Any] = {}
        self._handles: dict[int, Handle] = {}  # by the id of the value
        self._large = Large()
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

    def renew(self) -> None:
        """Go on with new processes, where they are our own: libraries keep much that the next step does not need."""
        if self._pool is not None:
            self._pool.renew()

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
                with task_alone():
                    result = function(*filled(task, self._values))
                yield place, result
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
        pool: Pool,
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
                        raise_error(*content)
                    elif kind == "lacks":
                        lacked[place].update(content)
                        waiting.appendleft(place)
                    else:
                        yield place, (content,)
        finally:
            pool.stop()

    def _message(self, function: Callable[..., Any], task: tuple[Any, ...], lacked: set[int]) -> list[bytes]:
        work, mentioned = self._large.packed((function, task))
        needs = handle_keys(task) | mentioned
        sending = sorted(lacked | (needs - self._sent))
        self._sent |= needs
        values = [packed(self._values[key]) for key in sending]
        # The number of the task keeps messages apart: Dask would answer equal calls once.
        header = Header(VERSION, self._run, next(self._tasks), needs, sending, self._forgotten)
        return [packed(header), work, *values]


@contextmanager
def open_workers(executor: Executor | str | None = None, workers: int | None = None) -> Iterator[Workers]:
    """Workers that stay until the end.

    ``executor``: None or ``"local"`` for processes on this machine, of which 1, the default, means this very process;
    ``"dask:ADDRESS"`` for a Dask scheduler; ``"ray:ADDRESS"``, ``"ray:auto"`` for a Ray cluster, ``"ray:local"`` for
    one that lives as long as these workers; or any `concurrent.futures.Executor`, which stays open. With an executor
    ``workers`` is how many tasks it is to run at once, by default as many as it can.
    """
    with ExitStack() as stack:
        if executor is None or executor == "local":
            number = workers or 1
            yield Workers(None if number == 1 else stack.enter_context(Processes(number)), number, local=True)
            return
        local = executor == "ray:local"
        client = None
        if isinstance(executor, str):
            kind, _, address = executor.partition(":")
            if kind == "dask" and address:
                client = stack.enter_context(dask_client(address))
                executor = client.get_executor(pure=False)
            elif kind == "ray" and address:
                executor = stack.enter_context(ray_executor(address, workers))
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
        if isinstance(executor, ThreadPoolExecutor) and in_task():
            raise ConfigError(
                "executor is a ThreadPoolExecutor, and this is a task of another simulation: its threads would wait "
                "for this task to end. Use processes."
            )
        local = local or _is_local(executor)
        if client is None and type(executor).__module__.startswith("distributed."):
            client = executor._client  # type: ignore[attr-defined]
        able = workers or _able(executor, client)
        at_once = workers or 2 * able  # so that no worker waits for its next task
        submitted = Submitted(executor, at_once) if client is None else OnDask(executor, at_once, client)
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
