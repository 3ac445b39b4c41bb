"""A bundle that is written anew is opened beside the old one and takes its place; a broken one does not."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from contextlib import suppress
from pathlib import Path

from peerwise.errors import PeerwiseError, reason
from peerwise.serve.counting import Counts
from peerwise.serve.guard import Log, kinds
from peerwise.serve.room import Room, Shift

EVERY = 1.0  # seconds
FIRST, LAST = 2.0, 64.0  # seconds until a bundle that could not be opened is tried again, twice as many each time

Seen = tuple[object, ...]


class Watch:
    """Opens the bundle, and looks after it in a thread of its own."""

    def __init__(self, room: Room, counts: Counts, log: Log) -> None:
        self._room, self._counts, self._log = room, counts, log
        self._manifest = room.path
        self._seen: Seen = ()
        self._digest = ""
        self._pause, self._due, self._why = FIRST, math.inf, ""
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look, name="peerwise-bundle", daemon=True)

    def open(self) -> Shift:
        """For the first time; whatever is wrong with it is the caller's to tell."""
        from peerwise.serve.opening import manifest_of  # takes long to import, and is done while the app is made

        self._manifest = manifest_of(self._room.path)
        self._has_changed()
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
            if self._ended.is_set():
                return
            if self._has_changed() or wanted:
                self._pause, self._why = FIRST, ""
                self._renew()
            elif time.monotonic() >= self._due:  # it may have been copied here, its manifest before its blobs
                self._renew()
            self._counts.restarts.inc(self._room.revive())

    def _has_changed(self) -> bool:
        """Since this was last asked. That is before the bundle is opened: what changes meanwhile is found next time."""
        now, digest = seen(self._manifest), self._digest
        if now and now != self._seen:
            with suppress(OSError):
                self._seen, self._digest = now, hashlib.sha256(self._manifest.read_bytes()).hexdigest()
        return self._digest != digest

    def _renew(self) -> None:
        try:
            shift = self._opened()
        except Exception as error:
            why = reason(error) if isinstance(error, PeerwiseError) else kinds(error)
            if why != self._why:  # once, however often it is tried
                self._counts.reloads.labels("failed").inc()
                self._log.say(f"the new bundle cannot be used, and the old one answers on: {why}")
            self._why = why
            self._due = time.monotonic() + self._pause if self._pause <= LAST else math.inf
            self._pause *= 2
        else:
            self._due = math.inf
            self._counts.reloads.labels("ok").inc()
            self._log.say(f"a new bundle answers: {shift.about.digest[:12]}")

    def _opened(self) -> Shift:
        shift = self._room.open()
        self._counts.serves(shift.about.digest, shift.about.site, shift.about.method)
        return shift


def seen(manifest: Path) -> Seen:
    """What changes whenever it is written; while there is none, nothing."""
    try:
        status = manifest.stat()
    except OSError:
        return ()
    return (status.st_mtime_ns, status.st_ino, status.st_size)
