"""The desks of a bundle, asked one request at a time each, and exchanged for those of a newer bundle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from peerwise.errors import ParcelError
from peerwise.serve.refusal import later

if TYPE_CHECKING:
    from peerwise.serve.desk import About, Desk

Opener = Callable[[Path], "Desk"]
Found = TypeVar("Found")
MOST_OPENINGS = 5  # of a bundle that is replaced while it is opened


class Shift:
    """The desks that were opened on one bundle. ``kept`` is for what is made of the bundle once."""

    def __init__(self, desks: list[Desk]) -> None:
        self.desks = desks
        self.about: About = desks[0].about
        self.kept: dict[str, Any] = {}
        self._free = list(desks)
        self._changed = threading.Condition()
        self._over = False

    def take(self) -> Desk | None:
        """The next that is free; None once they are closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._over)
            return self._free.pop() if self._free else None

    def give(self, desk: Desk) -> None:
        with self._changed:
            self._free.append(desk)
            self._changed.notify()
            closed = self._emptied()
        _close(closed)

    def claim(self, desk: Desk) -> bool:
        """Take this one, if it is free just now."""
        with self._changed:
            if desk not in self._free:
                return False
            self._free.remove(desk)
            return True

    def end(self) -> None:
        """Desks close, those in use when they are given back."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            closed = self._emptied()
        _close(closed)

    def _emptied(self) -> list[Desk]:
        closed = self._free if self._over else []
        if self._over:
            self._free = []
        return closed


class Room:
    """Threads that take a desk for each request; ``waiting`` requests may stand in line for them."""

    def __init__(self, open_desk: Opener, path: Path, desks: int, waiting: int) -> None:
        self.path, self._open_desk, self._desks = path, open_desk, desks
        self._most, self._inside = desks + waiting, 0
        self._threads = ThreadPoolExecutor(desks, "peerwise-desk")
        self._shift: Shift | None = None
        self._is_open = threading.Event()
        self._renewing = threading.Lock()
        self._closed = False

    @property
    def shift(self) -> Shift | None:
        """Those who answer now; None until they are there."""
        return self._shift

    @property
    def inside(self) -> int:
        """Requests that are being answered or wait."""
        return self._inside

    def open(self) -> Shift:
        """Open the bundle, and beside an older one if there is one; that one ends when its last answer is given.
        Whatever cannot be opened changes nothing."""
        with self._renewing:
            try:
                new, old = Shift(self._opened()), self._shift
                self._shift = None if self._closed else new
            finally:  # whoever waits for the first bundle waits in vain if it cannot be opened
                self._is_open.set()
        if old is not None:
            old.end()
        if self._closed:
            new.end()
        return new

    def _opened(self) -> list[Desk]:
        """All of the same bundle, which may be replaced meanwhile."""
        for _ in range(MOST_OPENINGS):
            desks: list[Desk] = []
            try:
                for _ in range(self._desks):
                    desks.append(self._open_desk(self.path))
            except BaseException:
                _close(desks)
                raise
            if len({desk.about.digest for desk in desks}) == 1:
                return desks
            _close(desks)
        raise ParcelError(f"{self.path} was replaced {MOST_OPENINGS} times while it was opened: write it less often.")

    def revive(self) -> int:
        """Start anew what has died at desks that nobody asks just now; how many processes these were."""
        shift, started = self._shift, 0
        for desk in [] if shift is None else shift.desks:
            if shift is not None and shift.claim(desk):
                try:
                    started += desk.revive()
                finally:
                    shift.give(desk)
        return started

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place in line, held from before the body is read: the memory that bodies take is bounded as well."""
        if self._inside >= self._most:
            raise later(503, f"{self._inside} requests are being answered already: expected fewer. Ask again soon.")
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def ask(self, work: Callable[[Shift, Desk], Found]) -> Found:
        """The work done at the next free desk, away from the loop that serves the network."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._done, work)

    def _done(self, work: Callable[[Shift, Desk], Found]) -> Found:
        while True:
            self._is_open.wait()
            shift = self._shift
            if shift is None:
                raise later(503, "the service is ending: ask again soon.")
            desk = shift.take()
            if desk is None:
                continue
            try:
                return work(shift, desk)
            finally:
                shift.give(desk)

    def close(self) -> None:
        """End everything; what is under way is finished first."""
        self._closed = True
        with self._renewing:
            old, self._shift = self._shift, None
            self._is_open.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        if old is not None:
            old.end()


def _close(desks: list[Desk]) -> None:
    for desk in desks:
        desk.close()
