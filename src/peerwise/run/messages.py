"""What travels between a run and its workers, packed here: so functions and classes of the user's script or notebook
travel to any executor.

Values that many tasks need are scattered: each worker keeps them, and asks for those it lacks. Large arrays and bytes
that lie in a scattered value are not sent again in a task, nor sent back in a result.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version
from typing import Any, NamedTuple, NoReturn

import cloudpickle
import numpy as np

from peerwise.errors import ConfigError, reason
from peerwise.models import one_thread

VERSION = version("peerwise")
LARGE = 4096  # bytes of a model that are worth a reference


@dataclass(frozen=True)
class Handle:
    """Stands for a scattered value in the arguments of a task."""

    key: int


class Header(NamedTuple):
    version: str
    run: str
    task: int
    needs: set[int]
    sent: list[int]
    forgotten: list[tuple[int, int]]


def packed(item: Any) -> bytes:
    return cloudpickle.dumps(item, protocol=5)  # type: ignore[no-any-return]


class Large:
    """The arrays and large bytes within scattered values, each known by the key of its value and its place there. An
    array is the same object on both sides, however small, as methods may tell equal arrays by that."""

    def __init__(self) -> None:
        self._items: dict[int, list[Any]] = {}
        self._references: dict[int, tuple[int, int]] = {}  # by id

    def add(self, key: int, value: Any) -> None:
        self._items[key] = list(_large_items(value))
        for place, item in enumerate(self._items[key]):
            self._references.setdefault(id(item), (key, place))

    def drop(self, key: int) -> None:
        for place, item in enumerate(self._items.pop(key, ())):
            if self._references.get(id(item)) == (key, place):
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
    def __init__(self, file: io.BytesIO, items: Mapping[int, Sequence[Any]]) -> None:
        super().__init__(file)
        self._items = items

    def persistent_load(self, reference: Any) -> Any:
        key, place = reference
        return self._items[key][place]


def _large_items(node: Any) -> Iterator[Any]:
    if isinstance(node, bytes | np.ndarray):
        if isinstance(node, np.ndarray) or len(node) >= LARGE:
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


def handle_keys(task: tuple[Any, ...]) -> set[int]:
    found: set[int] = set()
    for argument in task:
        inside = argument.values() if type(argument) is dict else argument if type(argument) in (list, tuple) else ()
        found.update(item.key for item in (argument, *inside) if isinstance(item, Handle))
    return found


def filled(task: tuple[Any, ...], values: dict[int, Any]) -> list[Any]:
    """The arguments, with the values that handles stand for."""

    def value(item: Any) -> Any:
        return values[item.key] if isinstance(item, Handle) else item

    def with_values(argument: Any) -> Any:
        if type(argument) is dict:
            return {name: value(item) for name, item in argument.items()}
        if type(argument) in (list, tuple):
            return type(argument)(map(value, argument))
        return value(argument)

    return [with_values(argument) for argument in task]


def raise_error(error: bytes, words: str, trace: str) -> NoReturn:
    """Raise the worker's error; or, where it does not come out here as it went in there, one that says the same."""
    try:
        found = cloudpickle.loads(error)
        same = _words(found) == words
    except Exception:
        same = False
    raise (found if same else RuntimeError(words)) from RuntimeError(f"in a worker process:\n{trace}")


def _words(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


@dataclass
class _Kept:
    """The scattered values of one run that a worker has."""

    run: str
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    values: dict[int, Any] = field(default_factory=dict)
    large: Large = field(default_factory=Large)


one_task = threading.RLock()  # torch has one generator of random numbers for all threads of a process
_kept = _Kept("")


@contextmanager
def task_alone() -> Iterator[None]:
    """No other task of this process runs meanwhile, and this one on one thread."""
    with one_task, one_thread():
        yield


def in_task() -> bool:
    return one_task._is_owned()  # type: ignore[attr-defined, no-any-return]


def _after_fork() -> None:
    """A thread that held the lock, or changed what is kept, is not there any more."""
    global one_task, _kept
    one_task, _kept = threading.RLock(), _Kept("")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def answer(*message: bytes) -> bytes:
    """Answer one message, in a worker of any executor."""
    try:
        with one_task:
            return _answered(*message)
    except BaseException as error:
        return _failure(error)


def _answered(about: bytes, work: bytes, *values: bytes) -> bytes:
    global _kept
    header = cloudpickle.loads(about)
    if header[0] != VERSION:
        raise ConfigError(
            f"a worker has peerwise {VERSION}, but the run that it works for {header[0]}: expected the same "
            f"version. Install one of them at both."
        )
    header = Header(*header)
    if _kept.run != header.run:
        _kept = _Kept(header.run)
    if header.forgotten != _kept.forgotten:
        _kept.forgotten = header.forgotten
        for key in list(_kept.values):
            if any(start <= key < stop for start, stop in header.forgotten):
                del _kept.values[key]
                _kept.large.drop(key)
    for key, value in zip(header.sent, values, strict=True):
        if key not in _kept.values:  # another worker lacked it
            _kept.values[key] = cloudpickle.loads(value)
            _kept.large.add(key, _kept.values[key])
    if lacks := header.needs - _kept.values.keys():
        return packed(("lacks", lacks))
    with task_alone():
        function, task = _kept.large.unpacked(work)
        result = function(*filled(task, _kept.values))
    try:
        return _kept.large.packed(("done", result))[0]
    except Exception as error:
        raise RuntimeError(f"the result cannot be sent from a worker process: {reason(error)}") from error


def _failure(error: BaseException) -> bytes:
    try:
        whole = packed(error)
    except Exception:  # an error that cannot be sent; what it says can
        whole = b""
    return packed(("failed", (whole, _words(error), "".join(traceback.format_exception(error)))))


def drop(run: str) -> None:
    """Free what this process keeps for the run, unless a task is at work: then the next run does."""
    global _kept
    if one_task.acquire(blocking=False):
        try:
            if _kept.run == run:
                _kept = _Kept("")
        finally:
            one_task.release()
