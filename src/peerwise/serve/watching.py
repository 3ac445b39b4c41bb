"""A bundle that is written anew is opened beside the old one and takes its place; a broken one does not."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from pathlib import Path

from peerwise.errors import PeerwiseError, reason
from peerwise.serve.counting import Counts
from peerwise.serve.guard import Log, kinds
from peerwise.serve.room import Room, Shift

MANIFESTS = ("bundle.json", "bundle/bundle.json")  # of a saved learner, and of a site's folder
EVERY = 1.0  # seconds

Seen = tuple[object, ...]


class Watch:
    """Opens the bundle, and looks after it in a thread of its own."""

    def __init__(self, room: Room, counts: Counts, log: Log) -> None:
        self._room, self._counts, self._log = room, counts, log
        self._seen: Seen = ()
        self._digest = ""
        self._looking = threading.Lock()
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look, name="peerwise-bundle", daemon=True)
        room.on_damage = self._renewed_since

    def open(self) -> Shift:
        """For the first time; whatever is wrong with it is the caller's to tell."""
        self._seen, self._digest = seen(self._room.path), digest(self._room.path)
        shift = self._opened()
        self._thread.start()
        return shift

    def reload(self) -> None:
        """Soon, and whether or not the bundle has changed."""
        self._wanted.set()

    def end(self) -> None:
        self._ended.set()
        self._wanted.set()

    def _look(self) -> None:
        while not self._ended.is_set():
            wanted = self._wanted.wait(EVERY)
            self._wanted.clear()
            if not self._ended.is_set():
                with self._looking:
                    self._renew(wanted)

    def _renewed_since(self, shift: Shift) -> bool:
        with self._looking:
            if self._room.shift is shift:
                self._renew(wanted=False)
        return self._room.shift is not shift

    def _renew(self, wanted: bool) -> None:
        now = seen(self._room.path)  # before it is opened: what changes meanwhile is found the next time
        if now == self._seen and not wanted:
            return
        self._seen, before, self._digest = now, self._digest, digest(self._room.path)
        if self._digest == before and not wanted:
            return
        try:
            shift = self._opened()
        except Exception as error:
            self._counts.reloads.labels("failed").inc()
            why = reason(error) if isinstance(error, PeerwiseError) else kinds(error)
            self._log.say(f"the new bundle cannot be used, and the old one answers on: {why}")
        else:
            self._counts.reloads.labels("ok").inc()
            self._log.say(f"a new bundle answers: {shift.about.digest[:12]}")

    def _opened(self) -> Shift:
        shift = self._room.open()
        self._counts.serves(shift.about.digest, shift.about.site, shift.about.method)
        return shift


def seen(path: Path) -> Seen:
    """Of the manifests what changes whenever one is written."""
    found: list[object] = []
    for name in MANIFESTS:
        with suppress(OSError):
            status = (path / name).stat()
            found.append((name, status.st_mtime_ns, status.st_ino, status.st_size))
    return tuple(found)


def digest(path: Path) -> str:
    total = hashlib.sha256()
    for name in MANIFESTS:
        with suppress(OSError):
            total.update((path / name).read_bytes())
    return total.hexdigest()
