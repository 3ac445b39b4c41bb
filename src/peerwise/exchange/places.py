"""Files in a folder that others may write to: a directory or any file system that fsspec knows, read with care."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

from filelock import FileLock, Timeout

from peerwise.errors import ConfigError, ExchangeError, StorageError, reason
from peerwise.parcels.store import UNFINISHED, remove_leftovers, write_atomic

PIECE = 1 << 20  # bytes read at a time, so that a slow stream is noticed
MOST_ENTRIES = 10_000
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO)  # nothing, or nothing plain
PATIENCE = 60.0  # seconds to wait for another process of this site


class Place(Protocol):
    """Paths are relative, with '/'. Whatever is no plain file or folder is as if it were not there."""

    def read(self, path: str, most: int, offset: int = 0, until: float = float("inf")) -> bytes | None:
        """At most so many bytes; None if there is no such file. ``until`` is a time of the monotonic clock."""

    def write(self, path: str, data: bytes) -> None:
        """Whole or not at all; there to stay on return."""

    def remove(self, path: str) -> None:
        """It may be gone already."""

    def folders(self) -> list[str]:
        """Names of the folders at the top."""

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder, none if it is not there."""

    def alone(self, folder: str) -> AbstractContextManager[None]:
        """While it lasts nobody else who asks for the same writes in this folder."""


def place_of(url: str | Path) -> Place:
    """A directory, or where an fsspec URL points to."""
    if isinstance(url, Path):
        return LocalPlace(url)
    from fsspec.core import url_to_fs  # here, because importing it takes a while
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    try:
        system, root = url_to_fs(url, use_listings_cache=False) if "://" in url else url_to_fs(url)
    except (ValueError, ImportError, TypeError, OSError) as error:
        raise ConfigError(
            f"{url!r} is no place for an exchange ({reason(error)}): expected a folder or an fsspec URL such as "
            f"'file:///mnt/share' or 's3://bucket/folder'; install what fsspec needs for it."
        ) from error
    while isinstance(system, DirFileSystem):  # its own folder is named twice in a chained URL
        same = root.strip("/") == system.path.strip("/")
        system, root = system.fs, system.path if same else system._join(root)
    return LocalPlace(Path(root)) if isinstance(system, LocalFileSystem) else RemotePlace(system, root)


class LocalPlace:
    """A directory, also on a share that is mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str, most: int, offset: int = 0, until: float = float("inf")) -> bytes | None:
        if self._leads_away(path):
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would block
        try:
            handle = os.open(self.root / path, flags)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise
        with os.fdopen(handle, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            file.seek(offset)
            return _pieces(file, most, until)

    def write(self, path: str, data: bytes) -> None:
        self._stay(path)
        write_atomic(self.root / path, data)

    def remove(self, path: str) -> None:
        self._stay(path)
        (self.root / path).unlink(missing_ok=True)

    def _leads_away(self, path: str) -> bool:
        return any((self.root / parent).is_symlink() for parent in list(Path(path).parents)[:-1])

    def _stay(self, path: str) -> None:
        """Somebody else who may write here could have a site write over, or remove, files of its own elsewhere."""
        if self._leads_away(path):
            raise StorageError(
                f"{(self.root / path).parent} is behind a link: expected folders that Peerwise made. Find out who put "
                f"the link there, and remove it."
            )

    def folders(self) -> list[str]:
        return self._names("", folders=True)

    def files(self, folder: str) -> list[str]:
        return [] if (self.root / folder).is_symlink() else self._names(folder, folders=False)

    def _names(self, folder: str, folders: bool) -> list[str]:
        try:
            with os.scandir(self.root / folder) as found:
                entries = list(islice(found, MOST_ENTRIES))
        except (FileNotFoundError, NotADirectoryError):
            return []
        plain = [entry.name for entry in entries if not entry.name.startswith(".")]
        kind = {
            entry.name: entry.is_dir(follow_symlinks=False) if folders else entry.is_file(follow_symlinks=False)
            for entry in entries
        }
        return sorted(name for name in plain if kind[name])

    @contextmanager
    def alone(self, folder: str) -> Iterator[None]:
        own = self.root / folder
        self._stay(f"{folder}/.lock")
        try:
            own.mkdir(parents=True, exist_ok=True)
            lock = FileLock(own / ".lock", timeout=PATIENCE)
            with lock:
                remove_leftovers(own)
                yield
        except Timeout as error:
            raise ExchangeError(
                f"{own} is being written by another process for {PATIENCE:g} seconds: expected it to end. "
                f"Is one hanging?"
            ) from error
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"{own} cannot be written ({error.strerror or error}): expected a folder of ours."
            ) from error


class RemotePlace:
    """Any other file system of fsspec. One process at a time may write for a site: there are no locks between them."""

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._turn = threading.Lock()

    def read(self, path: str, most: int, offset: int = 0, until: float = float("inf")) -> bytes | None:
        try:
            with self._system.open(self._path(path), "rb", compression=None) as file:
                if offset:
                    file.seek(offset)
                return _pieces(file, most, until)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        target = self._path(path)
        folder = target.rpartition("/")[0]
        beside = f"{folder}/.{uuid.uuid4().hex}{UNFINISHED}"
        try:
            self._system.makedirs(folder, exist_ok=True)
            self._system.pipe_file(beside, data)
            self._system.mv(beside, target)
        except Exception as error:  # each file system has errors of its own
            with contextlib.suppress(Exception):
                self._system.rm_file(beside)
            raise StorageError(
                f"{target} cannot be written ({reason(error)}): expected room for {len(data)} bytes in a place that "
                f"may be written. Check the address and its permissions, and run again."
            ) from error

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._path(path))

    def folders(self) -> list[str]:
        return self._names(self._root, "directory")

    def files(self, folder: str) -> list[str]:
        return self._names(self._path(folder), "file")

    def _names(self, folder: str, kind: str) -> list[str]:
        self._system.invalidate_cache(folder)
        try:
            found = self._system.ls(folder, detail=True)[:MOST_ENTRIES]
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = [entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == kind]
        return sorted(name for name in names if not name.startswith("."))

    @contextmanager
    def alone(self, folder: str) -> Iterator[None]:
        with self._turn:
            yield

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


def _pieces(file: IO[bytes], most: int, until: float) -> bytes:
    """Up to ``most`` bytes, and never more whatever the file holds."""
    found = bytearray()
    while len(found) < most and (piece := file.read(min(PIECE, most - len(found)))):
        found += piece[: most - len(found)]
        if time.monotonic() > until:
            raise ExchangeError(f"reading came as far as {len(found)} bytes in the time that it had. Try again later.")
    return bytes(found)
