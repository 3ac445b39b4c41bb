"""The ledger: who decided what, when and why, in lines that nobody can change unnoticed."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from peerwise.errors import ParcelError, StorageError
from peerwise.parcels.store import sync_folder
from peerwise.parcels.strict import canonical, strict_json
from peerwise.parcels.tree import sha256

MOST_LINE = 64 << 10
PATIENCE = 60.0  # seconds to wait for another process
START = "0" * 64
_OWN = {"line", "what", "who", "when", "before", "sha256"}


class Ledger:
    """Lines of canonical JSON, appended and never changed. Each carries the sha256 of the line before it (``before``)
    and of itself (``sha256``), so that `check` finds the first line that was changed, removed or put in.

    What it cannot notice is somebody who may write the file and makes all lines anew from some line on: `head`, kept
    elsewhere, tells that.
    """

    def __init__(self, path: str | Path, *, site: str = "", clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self.site = site
        self._clock = clock

    def add(self, what: str, *, why: str = "", **facts: Any) -> dict[str, Any]:
        """Append one line; when this returns it is on disk."""
        if _OWN & set(facts):
            raise ParcelError(f"{sorted(_OWN & set(facts))} are the ledger's own: expected facts of other names.")
        said = {**facts, "what": what, "why": why, "who": _who(self.site), "when": int(self._clock())}
        with locked(self.path), self._open() as file:
            last, before, torn = _last(file, self.path)
            if torn:
                why = "what followed the last whole line was cut off: its writer was killed, or had no room"
                note = {"what": "mended", "why": why, "bytes": torn, "who": said["who"], "when": said["when"]}
                mended = _append(file, note, last, before)
                last, before = last + 1, sha256(canonical(mended))
            return _append(file, said, last, before)

    def lines(self) -> list[dict[str, Any]]:
        """All lines, oldest first; one that is being written now is not among them."""
        return [_parsed(raw, number) for number, raw in enumerate(self.raw(), 1)]

    def raw(self) -> list[bytes]:
        if not self.path.exists():
            return []
        return self.path.read_bytes().split(b"\n")[:-1]

    def head(self) -> str:
        """The sha256 of the last line."""
        lines = self.raw()
        return sha256(lines[-1]) if lines else START

    def check(self) -> int:
        """How many lines there are, all as they were written; ParcelError names the first that is not."""
        before, lines = START, self.raw()
        for number, raw in enumerate(lines, 1):
            line = _parsed(raw, number)
            if not _is_own(raw, line) or line.get("line") != number:
                raise _changed(self.path, number)
            if line.get("before") != before:
                raise _changed(self.path, max(1, number - 1))
            before = sha256(raw)
        return len(lines)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            fresh = not self.path.exists()
            with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
                if fresh or not os.fstat(file.fileno()).st_size:
                    sync_folder(self.path.parent)
                yield file
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"the ledger {self.path} cannot be written ({error.strerror or error}): expected room for a line. "
                f"Free some space and run again: what is there is whole, and nothing was done that it does not tell."
            ) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone among the processes of this machine that write this file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock", timeout=PATIENCE)
        lock.acquire()
    except Timeout as error:
        raise StorageError(
            f"{path} is in use by another process for {PATIENCE:.0f} seconds: wait for it to end, and run again."
        ) from error
    except OSError as error:
        raise StorageError(f"{path} cannot be locked ({error}): expected a folder that may be written.") from error
    try:
        yield
    finally:
        lock.release()


def _append(file: BinaryIO, said: dict[str, Any], last: int, before: str) -> dict[str, Any]:
    line = {**said, "line": last + 1, "before": before}
    line["sha256"] = sha256(canonical(line))
    raw = canonical(line)
    if len(raw) >= MOST_LINE:
        raise ParcelError(f"a line of {len(raw)} bytes is too long for the ledger: expected less than {MOST_LINE}.")
    end = file.seek(0, os.SEEK_END)
    try:
        _write(file, raw + b"\n")
        os.fsync(file.fileno())
    except OSError:
        file.truncate(end)
        raise
    return line


def _write(file: BinaryIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _last(file: BinaryIO, path: Path) -> tuple[int, str, int]:
    """Number and sha256 of the last whole line, and how many bytes after it were cut off: they are what was left of a
    line whose writer was killed before it was told that the line is kept."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - 2 * MOST_LINE)
    file.seek(begin)
    tail = file.read(size - begin)
    end = tail.rfind(b"\n") + 1
    start = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
    if begin and not start:  # no line is that long: nothing is cut off what Peerwise did not write
        raise StorageError(
            f"the ledger {path} does not end in a line of less than {MOST_LINE} bytes: expected what Peerwise wrote. "
            f"Put it back from a copy, or move it away to begin a new one."
        )
    last, before = _place(file, tail[start : end - 1]) if end else (0, START)
    torn = tail[end:]
    if torn and _follows(torn, last, before):
        _write(file, b"\n")
        return last + 1, sha256(torn), 0
    if torn:
        file.truncate(size - len(torn))
    return last, before, len(torn)


def _place(file: BinaryIO, raw: bytes) -> tuple[int, str]:
    try:
        number = _parsed(raw, 0).get("line")
    except ParcelError:
        number = None
    if type(number) is not int:  # that line was changed, which `check` tells; those after it are counted on
        file.seek(0)
        number = file.read().count(b"\n")
    return number, sha256(raw)


def _follows(raw: bytes, last: int, before: str) -> bool:
    """Whether this is a whole line but for its end."""
    try:
        line = _parsed(raw, 0)
    except ParcelError:
        return False
    return line.get("line") == last + 1 and line.get("before") == before and _is_own(raw, line)


def _is_own(raw: bytes, line: dict[str, Any]) -> bool:
    body = {name: value for name, value in line.items() if name != "sha256"}
    return line.get("sha256") == sha256(canonical(body)) and raw == canonical(line)


def _parsed(raw: bytes, number: int) -> dict[str, Any]:
    try:
        line = strict_json(raw, most_bytes=MOST_LINE, what=f"line {number} of the ledger")
    except ParcelError as error:
        raise ParcelError(f"line {number} of the ledger was changed or is damaged ({error}).") from error
    if not isinstance(line, dict):
        raise ParcelError(f"line {number} of the ledger was changed: expected an object.")
    return line


def _changed(path: Path, number: int) -> ParcelError:
    return ParcelError(
        f"line {number} of the ledger {path} was changed, removed or put in: expected what Peerwise wrote. "
        f"Compare it with a copy of the ledger, and find out who can write to that file."
    )


def _who(site: str) -> str:
    # Not from the environment, where anybody can say to be anybody.
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"user {os.getuid()}"
    return f"{user}@{site}" if site else user
