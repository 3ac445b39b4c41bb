"""A folder that all sites see: a directory, a network share, or any fsspec URL. Others may write to it, so it is read
with care."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from filelock import FileLock, Timeout

from peerwise.errors import ConfigError, ExchangeError, ParcelError, StorageError, reason
from peerwise.parcels.signed import strict_json
from peerwise.parcels.signed.fields import NAME
from peerwise.parcels.store import UNFINISHED, remove_leftovers, write_atomic
from peerwise.transport.base import MOST_MANIFEST, Blob, Transport, checked_sha256

SECONDS = 120.0
LOCK_SECONDS = 60.0  # to wait for another process of this site
PIECE = 1 << 20  # bytes read at a time, so that a slow stream is noticed
MOST_ENTRIES = 10_000
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO)  # nothing, or no plain file
Result = TypeVar("Result")


class FolderTransport(Transport):
    """``<site>/manifests/<topic>.json`` and ``<site>/blobs/<sha256>``: a site writes to its own folder alone, so who
    may write where can be left to the file system. Blobs are written before the manifest that names them and removed
    after it is replaced; ``<site>/lists/<topic>.json`` names the blobs that a topic needs, for the site itself.

    No read takes longer than ``seconds``.
    """

    def __init__(self, url: str | Path, name: str, *, seconds: float = SECONDS) -> None:
        super().__init__(name)
        self._files = _files_at(url)
        self._seconds = seconds

    def _publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        keys = set(blobs)
        with self._files.locked(self.name):
            before = self._needed(topic)
            if not keys <= before:
                self._write_needed(topic, before | keys)
            for key, data in blobs.items():
                path = f"{self.name}/blobs/{key}"
                if self._files.read(path, len(data) + 1) != data:
                    self._files.write(path, data)
            self._files.write(f"{self.name}/manifests/{topic}.json", manifest)
            if unneeded := before - keys:
                topics = [file.removesuffix(".json") for file in self._files.names(f"{self.name}/lists")]
                for key in unneeded.difference(*(self._needed(other) for other in topics if other != topic)):
                    self._files.remove(f"{self.name}/blobs/{key}")
                self._write_needed(topic, keys)

    def _fetch(self, site: str, topic: str) -> tuple[bytes, Blob] | None:
        manifest = self._read(f"{site}/manifests/{topic}.json", MOST_MANIFEST + 1)
        return None if manifest is None else (manifest, partial(self._blob, site))

    def _blob(self, site: str, sha256: str, size: int) -> bytes | None:
        return self._read(f"{site}/blobs/{sha256}", size + 1)

    def piece(self, sha256: str, offset: int, most: int) -> bytes | None:
        """A part of one of this site's own blobs; None if it is not there."""
        return self._files.read(f"{self.name}/blobs/{checked_sha256(sha256)}", most, offset)

    def _list(self, topic: str) -> Iterable[str]:
        file = f"{topic}.json"

        def sites() -> Iterator[str]:
            for name in self._files.names("", folders=True):
                if NAME.fullmatch(name) and file in self._files.names(f"{name}/manifests"):
                    yield name

        return _within(self._seconds, "listing the sites", lambda: [*sites()])

    def _read(self, path: str, most: int) -> bytes | None:
        until = time.monotonic() + self._seconds
        return _within(self._seconds, f"reading {path}", lambda: self._files.read(path, most, until=until))

    def _needed(self, topic: str) -> set[str]:
        data = self._files.read(f"{self.name}/lists/{topic}.json", MOST_MANIFEST)
        try:
            return set() if data is None else set(map(checked_sha256, strict_json(data, what="the list")))
        except (ParcelError, ValueError, TypeError, AttributeError) as error:
            raise ExchangeError(
                f"{self.name}/lists/{topic}.json does not list blobs ({error}): expected what Peerwise wrote. Remove "
                f"it, and the blobs that {topic!r} no longer needs stay where they are."
            ) from error

    def _write_needed(self, topic: str, blobs: set[str]) -> None:
        self._files.write(f"{self.name}/lists/{topic}.json", json.dumps(sorted(blobs)).encode())


def _within(seconds: float, what: str, call: Callable[[], Result]) -> Result:
    """What ``call`` returns, or ExchangeError when it takes longer: a share that hangs must not hang its readers. A
    thread that hangs is left behind, and does not keep the process from ending."""
    results: list[Result] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:  # raised in the caller's thread below
            errors.append(error)

    thread = threading.Thread(target=run, name="peerwise reading", daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise ExchangeError(f"{what} took longer than {seconds:g} seconds: is the folder reachable? Try again later.")


def _files_at(url: str | Path) -> _LocalFiles | _RemoteFiles:
    if isinstance(url, Path):
        return _LocalFiles(url)
    from fsspec.core import url_to_fs  # here, because importing it takes a while
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    try:
        system, root = url_to_fs(url, use_listings_cache=False) if "://" in url else url_to_fs(url)
    except (ValueError, ImportError, TypeError, OSError) as error:
        raise ConfigError(
            f"{url!r} cannot be used as a shared folder ({reason(error)}): expected a path or an fsspec URL such as "
            f"'file:///mnt/share' or 's3://bucket/folder'; install what fsspec needs for it."
        ) from error
    while isinstance(system, DirFileSystem):  # its own folder is named twice in a chained URL
        same = root.strip("/") == system.path.strip("/")
        system, root = system.fs, system.path if same else system._join(root)
    return _LocalFiles(Path(root)) if isinstance(system, LocalFileSystem) else _RemoteFiles(system, root)


class _LocalFiles:
    """Files below a directory. Paths are relative, with '/'; whatever is no plain file or folder is absent."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, most: int, offset: int = 0, until: float = float("inf")) -> bytes | None:
        """At most so many bytes; None if there is no such file. ``until`` is a time of the monotonic clock."""
        if self._is_behind_link(path):
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would block
        try:
            handle = os.open(self._root / path, flags)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise
        with os.fdopen(handle, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            file.seek(offset)
            return _read_pieces(file, most, until)

    def write(self, path: str, data: bytes) -> None:
        """Whole or not at all; durable on return."""
        write_atomic(self._own(path), data)

    def remove(self, path: str) -> None:
        self._own(path).unlink(missing_ok=True)

    def names(self, folder: str, *, folders: bool = False) -> list[str]:
        """Names of the files in a folder, or of its folders; none if it is not there."""
        if self._is_behind_link(f"{folder}/file"):
            return []
        try:
            with os.scandir(self._root / folder) as found:
                entries = list(islice(found, MOST_ENTRIES))
        except (FileNotFoundError, NotADirectoryError):
            return []
        plain = [entry for entry in entries if not entry.name.startswith(".")]
        right = os.DirEntry.is_dir if folders else os.DirEntry.is_file
        return sorted(entry.name for entry in plain if right(entry, follow_symlinks=False))

    @contextmanager
    def locked(self, folder: str) -> Iterator[None]:
        """While it lasts no other process or thread of this site writes in the folder."""
        own = self._own(f"{folder}/.lock").parent
        try:
            own.mkdir(parents=True, exist_ok=True)
            with FileLock(own / ".lock", timeout=LOCK_SECONDS):
                remove_leftovers(own)
                yield
        except Timeout as error:
            raise ExchangeError(
                f"{own} is being written by another process for {LOCK_SECONDS:g} seconds: expected it to end. "
                f"Is one hanging?"
            ) from error
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                f"{own} cannot be written ({error.strerror or error}): expected a folder this user may write to."
            ) from error

    def _own(self, path: str) -> Path:
        """Refuse symlinks: they could redirect our writes and deletes."""
        if self._is_behind_link(path):
            raise StorageError(
                f"{(self._root / path).parent} is behind a link: expected folders that Peerwise made. Find out who put "
                f"the link there, and remove it."
            )
        return self._root / path

    def _is_behind_link(self, path: str) -> bool:
        return any((self._root / parent).is_symlink() for parent in list(Path(path).parents)[:-1])


class _RemoteFiles:
    """The same on any other file system of fsspec. It has no locks: one process at a time may write for a site."""

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._lock = threading.Lock()

    def read(self, path: str, most: int, offset: int = 0, until: float = float("inf")) -> bytes | None:
        try:
            with self._system.open(f"{self._root}/{path}", "rb", compression=None) as file:
                if offset:
                    file.seek(offset)
                return _read_pieces(file, most, until)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        target = f"{self._root}/{path}"
        folder = target.rpartition("/")[0]
        temporary = f"{folder}/.{uuid.uuid4().hex}{UNFINISHED}"
        try:
            self._system.makedirs(folder, exist_ok=True)
            self._system.pipe_file(temporary, data)
            self._system.mv(temporary, target)
        except Exception as error:  # each file system has errors of its own
            with contextlib.suppress(Exception):
                self._system.rm_file(temporary)
            raise StorageError(
                f"{target} cannot be written ({reason(error)}): expected room for {len(data)} bytes where this site "
                f"may write. Check the address and its permissions, and run again."
            ) from error

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(f"{self._root}/{path}")

    def names(self, folder: str, *, folders: bool = False) -> list[str]:
        path = f"{self._root}/{folder}".rstrip("/")
        self._system.invalidate_cache(path)
        try:
            found = self._system.ls(path, detail=True)[:MOST_ENTRIES]
        except (FileNotFoundError, NotADirectoryError):
            return []
        kind = "directory" if folders else "file"
        names = [entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == kind]
        return sorted(name for name in names if not name.startswith("."))

    def locked(self, folder: str) -> AbstractContextManager[Any]:
        return self._lock


def _read_pieces(file: IO[bytes], most: int, until: float) -> bytes:
    """Up to ``most`` bytes, and never more whatever the file holds."""
    found = bytearray()
    while len(found) < most and (piece := file.read(min(PIECE, most - len(found)))):
        found += piece[: most - len(found)]
        if time.monotonic() > until:
            raise ExchangeError(f"reading came as far as {len(found)} bytes in the time that it had. Try again later.")
    return bytes(found)
