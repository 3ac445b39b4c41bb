"""Frames between a worker and its child: the length of a header, the header as JSON, then bytes as the header says.

The child trusts its parent; the parent takes nothing for granted that the child says.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MOST_HEADER_BYTES = 2**22
PIPE_BYTES = 2**20
MOST_AT_ONCE = 512  # parts of one write, of which the kernel takes 1,024
_LENGTH = 4

Header = dict[str, Any]
Part = bytes | bytearray | memoryview
Frame = tuple[Header, Sequence[Part]]


class Ended(Exception):
    """The other side is gone."""


class Late(Exception):
    """The other side did not answer in time."""


class Garbage(Exception):
    """What the other side said is no frame."""


def packed(header: Header, parts: Sequence[Part]) -> list[memoryview]:
    sized = header | {"bytes": [len(part) for part in parts]}
    text = json.dumps(sized, separators=(",", ":")).encode()
    return [memoryview(len(text).to_bytes(_LENGTH, "big") + text), *(memoryview(part) for part in parts)]


class Wire:
    """Two pipe ends. ``deadline`` is in the terms of `time.monotonic`; None waits for ever."""

    def __init__(self, reading: int, writing: int) -> None:
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self.holds = _widened(writing)
        _widened(reading)
        self._reading, self._writing = reading, writing
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(reading, select.POLLIN)
        self._writable.register(writing, select.POLLOUT)

    @property
    def is_quiet(self) -> bool:
        """Nothing to read, and the other side is there."""
        return not self._readable.poll(0)

    def send(self, frames: Sequence[Frame], deadline: float | None = None) -> None:
        left = [part for header, parts in frames for part in packed(header, parts) if len(part)]
        while left:
            try:
                sent = os.writev(self._writing, left[:MOST_AT_ONCE])
            except BlockingIOError:
                _wait(self._writable, deadline)
                continue
            except OSError as error:
                raise Ended from error
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def receive(self, most_bytes: int, deadline: float | None = None) -> tuple[Header, list[bytearray]]:
        length = int.from_bytes(self._exactly(_LENGTH, deadline), "big")
        if length > MOST_HEADER_BYTES:
            raise Garbage(f"a header of {length} bytes")
        header = _header(self._exactly(length, deadline))
        sizes = header.pop("bytes")
        if sum(sizes) > most_bytes:
            raise Garbage(f"{sum(sizes)} bytes, at most {most_bytes} were expected")
        return header, [self._exactly(size, deadline) for size in sizes]

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        found = bytearray(size)
        left = memoryview(found)
        while len(left):
            try:
                got = os.readv(self._reading, [left])
            except BlockingIOError:
                _wait(self._readable, deadline)
                continue
            except OSError as error:
                raise Ended from error
            if not got:
                raise Ended
            left = left[got:]
        return found


def _widened(end: int) -> int:
    """A wider pipe, so that fewer turns are taken; how many bytes it holds while nobody reads, 0 where none can say."""
    with suppress(ImportError, AttributeError):  # of Linux
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with suppress(OSError):
            return fcntl.fcntl(end, fcntl.F_GETPIPE_SZ)
    return 0


def _wait(side: select.poll, deadline: float | None) -> None:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise Late
    side.poll(None if left is None else left * 1000)


def _header(text: bytearray) -> Header:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise Garbage(f"no JSON: {bytes(text[:40])!r}") from None
    sizes = header.get("bytes") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise Garbage(f"no frame: {bytes(text[:40])!r}")
    found: Header = header
    return found
