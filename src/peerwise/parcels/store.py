"""A folder that keeps trees: blobs once by content, manifests by name, every write whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from peerwise.errors import ParcelError, StorageError
from peerwise.parcels.later import Later
from peerwise.parcels.tree import blob_names, narrowed, pack, pack_to, sha256, unpack

Parts = Mapping[str, Any]
UNFINISHED = ".unfinished"  # the ending of a file that is being written


def write_atomic(path: Path, *parts: bytes | memoryview, durable: bool = True, private: bool = False) -> None:
    """Write beside, flush, rename: a reader sees the old file or the whole new one, also after a crash. Where it need
    not be ``durable`` it is not flushed, which is much faster: a power cut, and that alone, may then damage it. A
    ``private`` file is its owner's alone, from its first byte on."""
    mode = 0o600 if private else 0o666
    try:
        try:
            _write_atomic(path, parts, durable, mode)
        except FileNotFoundError:  # somebody has swept leftovers, and took the unfinished file for one
            _write_atomic(path, parts, durable, mode)
    except OSError as error:
        room = sum(map(len, parts))
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}): expected room for {room} bytes in a folder "
            f"that may be written. Free some space or choose another folder, and run again: what is there is whole."
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left half-written; only for a folder that nobody else writes to."""
    for path in folder.rglob(f".{'?' * 32}{UNFINISHED}"):
        path.unlink(missing_ok=True)


def _write_atomic(path: Path, parts: Sequence[bytes | memoryview], durable: bool, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}{UNFINISHED}")
    try:
        # Not tempfile: its files are for their owner alone, and a shared folder is read by others.
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            file.writelines(parts)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """So that the names of new files survive a power cut; Windows has no such call, and opens no folders."""
    if os.name == "nt":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Store:
    """``folder/blobs/<sha256>`` and one ``<name>.json`` manifest a tree."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def save(self, name: str, tree: Mapping[str, Any]) -> None:
        """Blobs first, each as it comes: a manifest that is there can always be read whole."""
        target = self._manifest(name)
        write_atomic(target, pack_to(tree, self._keep))

    def save_packed(self, name: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        """Blobs first: a manifest that is there can always be read whole. A blob that is there is written again only
        if it was damaged."""
        target = self._manifest(name)
        for key, data in blobs.items():
            self._keep(key, [data])
        write_atomic(target, manifest)

    def _keep(self, key: str, parts: Sequence[bytes | memoryview]) -> None:
        path = self._blob(key)
        if not path.is_file() or path.read_bytes() != b"".join(parts):
            write_atomic(path, *parts)

    def load_packed(self, name: str) -> tuple[bytes, dict[str, bytes]]:
        manifest = self._read(name)
        return manifest, self._blobs(manifest)

    def load_item(self, name: str, item: str, *, later: bool = False) -> Any:
        """One item of a tree; no blob is read that it does not need. ``later``: models are verified now, and read from
        here whenever they are asked for."""
        manifest = narrowed(self._read(name), item)
        return unpack(manifest, self._later(manifest) if later else self._blobs(manifest))[item]

    def remove(self, name: str) -> None:
        """Remove a tree; its blobs stay until `remove_unused`, as another may have them too."""
        self._manifest(name).unlink(missing_ok=True)

    def remove_unused(self) -> None:
        """Remove the blobs that no tree names; only for a folder that nobody else writes to."""
        trees = [path for path in self.folder.rglob("*.json") if not path.name.startswith(".")]
        used = {key for path in trees for key in blob_names(path.read_bytes())}
        for path in (self.folder / "blobs").glob("*"):
            if path.name not in used:
                path.unlink(missing_ok=True)

    def _read(self, name: str) -> bytes:
        path = self._manifest(name)
        if not path.is_file():
            raise ParcelError(f"{path} is not there: expected a folder that Peerwise wrote.")
        return path.read_bytes()

    def _blobs(self, manifest: bytes) -> dict[str, bytes]:
        return {key: self._blob(key).read_bytes() for key in blob_names(manifest) if self._blob(key).is_file()}

    def _later(self, manifest: bytes) -> Later:
        there = [key for key in blob_names(manifest) if self._blob(key).is_file()]
        return Later({key: partial(self._read_blob, key) for key in there})

    def _read_blob(self, key: str) -> bytes:
        try:
            return self._blob(key).read_bytes()
        except FileNotFoundError as error:
            raise ParcelError(f"blob {key[:12]} is gone from {self.folder}: it was replaced. Run again.") from error

    def size(self, name: str) -> int:
        """Bytes of a tree: its manifest and those of its blobs that are there."""
        manifest = self._manifest(name).read_bytes()
        blobs = [self._blob(key) for key in blob_names(manifest)]
        return len(manifest) + sum(blob.stat().st_size for blob in blobs if blob.is_file())

    def load(self, name: str) -> dict[str, Any]:
        return unpack(*self.load_packed(name))

    def has(self, name: str) -> bool:
        return self._manifest(name).is_file()

    def _blob(self, key: str) -> Path:
        if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
            raise ParcelError(f"{key[:80]!r} is no sha256: expected 64 hexadecimal digits.")
        return self.folder / "blobs" / key

    def _manifest(self, name: str) -> Path:
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise ParcelError(f"{name!r} cannot name a tree: expected a path inside the folder, such as 'a/b'.")
        return self.folder / f"{name}.json"


class Keep:
    """Results kept by content: the same inputs are never worked on twice.

    ``keep(parts, work)`` returns the tree that ``work()`` made for these parts, from the folder if it is there.
    Without a folder everything is kept in memory for the life of the object. ``on_work(key, parts)`` is called after
    work was done and kept.
    """

    def __init__(self, folder: str | Path | None = None, on_work: Callable[[str, Parts], None] | None = None) -> None:
        self._on_work = on_work
        self._store = Store(folder) if folder is not None else None
        self._memory: dict[str, dict[str, Any]] = {}

    def __call__(self, parts: Parts, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        key = kept_key(parts)
        if self._store is None:
            if key not in self._memory:
                self._memory[key] = work()
            return self._memory[key]
        name = kept_name(key)
        if not self._store.has(name):
            self._store.save(name, work())
            if self._on_work:
                self._on_work(key, parts)
        return self._store.load(name)


def kept_key(parts: Parts) -> str:
    """The name under which the result of work on these parts is kept."""
    return sha256(pack(parts)[0])


def kept_name(key: str) -> str:
    return f"kept/{key}"
