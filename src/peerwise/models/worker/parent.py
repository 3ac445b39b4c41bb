"""Peers' models, run in a child process that can be killed: the side that asks."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import BrokenFile, ModelError, PeerwiseError, WorkerError
from peerwise.models.onnx_model import Feed, OnnxAnswers
from peerwise.models.worker.frames import Frame
from peerwise.models.worker.limits import Limits
from peerwise.models.worker.process import Process
from peerwise.models.worker.replies import Facts, Refused, Reply, arrays, facts, shapes

MOST_KNOWN = 256
HEADER_BYTES = 8192  # of one question, and then some

Source = bytes | Callable[[], bytes]
Answer = TypeVar("Answer")


class Worker:
    """A child process that opens and runs ONNX files; it is started when first needed, and anew when it has died.

    What it refuses, or does not survive, is asked again of a fresh child that has seen no other model, so that none is
    blamed for another, or for a child that somebody else has killed; only too long a wait is not repeated. Models that
    break out of the runtime share a process.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._lock = threading.RLock()
        self._process: Process | None = None
        self._keeper: ThreadPoolExecutor | None = None
        self._owner = os.getpid()
        self.started = 0  # children so far
        self.known: dict[str, Facts] = {}  # of the files that were opened, by sha256
        self._with_onnx = self._closed = False
        self._late: set[str] = set()  # models that were waited for in vain, once

    def open(self, data: Source, name: str) -> WorkerModel:
        """The model in this file; a function is called for the file again whenever the child no longer has it."""
        return WorkerModel(self, data, name)

    def shapes(self, data: bytes, rows: int) -> dict[str, list[int]]:
        """As `peerwise.models.onnx_shapes.inferred`, in the child."""
        with self._lock:
            self._with_onnx = True
            key = hashlib.sha256(data).hexdigest()
            try:
                return self.ask(key, lambda process: shapes(process.ask("shapes", {"rows": rows}, [data])))
            except Refused as refused:
                raise ModelError(f"no shapes can be inferred for {len(data)} bytes: {refused}.") from None

    def isolation(self) -> dict[str, str]:
        """Each layer between a model and this machine: "on", or why it is not."""
        with self._lock:
            return self._ready().isolation()

    @property
    def pid(self) -> int | None:
        """Of the child, where there is one."""
        return None if self._process is None else self._process.pid

    @property
    def takes(self) -> int:
        """How many bytes the child can be sent without waiting for an answer, before it is started none."""
        return 0 if self._process is None else self._process.takes

    def ask(self, key: str, work: Callable[[Process], Answer]) -> Answer:
        """The work done, which is about the model with this key and no other."""
        with self._lock:
            if key in self._late:
                raise WorkerError(
                    f"no answer within {self.limits.seconds:g} seconds before: it is not waited for again."
                )
            process = self._ready()
            alone = not process.seen - {key}
            try:
                return self._tried(process, key, work)
            except (PeerwiseError, Refused):
                if process.was_late:
                    self._late.add(key)
                if process.was_late or (alone and not process.has_died):
                    raise
            self._replace()
            return self._tried(self._ready(), key, work)

    def ask_together(self, models: Sequence[WorkerModel], asked: Sequence[Frame]) -> list[Reply] | None:
        """The replies to one question for each of these models, in one turn instead of one each; None where anything
        stands in the way, or they are too many bytes: then each is to be asked by itself, which also finds out whose
        fault it is."""
        sizes = (sum(map(len, parts)) + HEADER_BYTES for _, parts in asked)
        with self._lock:
            process = self._ready()
            keys = {model.sha256 for model in models}
            if sum(sizes) > process.takes or not keys <= process.opened or keys & self._late:
                return None
            try:
                return process.ask_all("run", asked)
            except WorkerError:
                self._replace()
                return None
            except BaseException:
                self._end()
                raise

    def revive(self) -> bool:
        """Start the child anew if there was one and it is gone; whether that was so, and has been done."""
        with self._lock:
            gone = self._process is None or not self._process.is_running
            if not self.started or not gone or self._closed:
                return False
            with suppress(WorkerError):
                self._ready()
            return self._process is not None

    def note(self, key: str, found: Facts) -> None:
        """So that a file is not opened again only to be looked at."""
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[key] = found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end()
            if self._keeper is not None:
                self._keeper.shutdown()
                self._keeper = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tried(self, process: Process, key: str, work: Callable[[Process], Answer]) -> Answer:
        process.seen.add(key)
        try:
            return work(process)
        except WorkerError:
            self._replace()
            raise
        except (PeerwiseError, Refused):
            raise
        except BaseException:  # an interrupt, say, in the midst of a frame
            self._end()
            raise

    def _ready(self) -> Process:
        if self._closed:
            raise WorkerError("the worker is closed: open peers' models with one that is not.")
        if self._owner != os.getpid():  # after a fork: the child is the other process's, and so is the keeper
            raise WorkerError("the worker was made in another process: make one in each.")
        process = self._process
        if process is None or not process.is_idle or (self._with_onnx and not process.with_onnx):
            process = self._replace()
        try:
            process.isolation()
        except WorkerError:  # it was killed before it was ready: no model is to blame
            process = self._replace()
            try:
                process.isolation()
            except WorkerError:  # nor is there anything to wait for at the next
                self._end()
                raise
        return process

    def _replace(self) -> Process:
        self._end()
        if self._keeper is None:
            self._keeper = ThreadPoolExecutor(1, "peerwise-worker")
        self._process = Process(self.limits, self._keeper, with_onnx=self._with_onnx)
        self.started += 1
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


class WorkerModel(OnnxAnswers):
    """As `peerwise.models.onnx_model.OnnxModel`, and says bit for bit the same; but the file is opened elsewhere."""

    def __init__(self, worker: Worker, source: Source, name: str) -> None:
        self.name, self._worker, self._source = name, worker, source
        data = self.data
        self.sha256 = hashlib.sha256(data).hexdigest()
        if len(data) > worker.limits.most_open_bytes:
            raise ModelError(
                f"{name!r} has {len(data)} bytes: expected at most {worker.limits.most_open_bytes}. Leave it out, or "
                "allow more open bytes."
            )
        found = worker.known.get(self.sha256)
        if found is None:
            try:
                found = worker.ask(self.sha256, lambda process: self._opened(process, data))
            except Refused as refused:
                raise ModelError(f"{name!r} cannot be opened: {refused}.") from None
            worker.note(self.sha256, found)
        self._facts = found
        self.inputs, self.input_shapes, self.has_logits = found.inputs, found.input_shapes, found.has_logits
        self.width, self.classes, self.features = found.width, found.classes, found.features

    @property
    def data(self) -> bytes:
        return self._source if isinstance(self._source, bytes) else bytes(self._source())

    def run_all(self, feeds: Iterable[Feed]) -> Iterator[NDArray[Any]]:
        for group in self._groups(feeds):
            try:
                yield from self._worker.ask(self.sha256, partial(self._said, group))
            except Refused as refused:
                raise self._refused(group[refused.slice], refused) from None

    def _groups(self, feeds: Iterable[Feed]) -> Iterator[list[Feed]]:
        """Slices that go to the child together, so that neither side waits for the other after each of them."""
        group: list[Feed] = []
        left = self._worker.takes
        for feed in feeds:
            if any(value.dtype == np.object_ for value in feed.values()):
                raise self._refused(feed, Refused("it takes text, which is not passed to another process"))
            size = sum(value.nbytes for value in feed.values()) + HEADER_BYTES
            if group and size > left:
                yield group
                group, left = [], self._worker.takes
            group.append({name: np.ascontiguousarray(value) for name, value in feed.items()})
            left -= size
        if group:
            yield group

    def _said(self, group: list[Feed], process: Process) -> list[NDArray[Any]]:
        if self.sha256 not in process.opened:
            self._opened_again(process)
        asked = [self.question(feed) for feed in group]
        replies = process.ask_all("run", asked)
        if replies[0][0] == {"absent": True}:
            self._opened_again(process)
            replies = process.ask_all("run", asked)
        return arrays(replies)

    def question(self, feed: Feed) -> Frame:
        """A slice of rows as the child takes it."""
        described = [[name, value.dtype.str, value.shape] for name, value in feed.items()]
        parts = [value.reshape(-1).view(np.uint8).data for value in feed.values()]
        return {"model": self.sha256, "inputs": described}, parts

    def _opened(self, process: Process, data: bytes) -> Facts:
        found = facts(process.ask("open", {"model": self.sha256, "name": self.name}, [data]))
        process.opened.add(self.sha256)
        return found

    def _opened_again(self, process: Process) -> None:
        data = self.data
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise BrokenFile(f"{self.name!r} is not the file it was (sha256 {self.sha256[:12]}...): fetch it again.")
        if self._opened(process, data) != self._facts:
            raise WorkerError(f"{self.name!r} was opened again, and is another model: leave it out.")
