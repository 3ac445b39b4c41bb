"""One file for one tree, with checksums that are verified on reading: quick to write, and damage is noticed.

mark  checksum  length of the list  list (JSON: bytes of the manifest, bytes of each blob by name)  manifest  blobs...

A blob's name is its checksum and a number that tells blobs with the same checksum apart, as long as a sha256, so that a
tree weighs here what it weighs when it is sent. It is no proof against anybody's intent: these files never cross a
border.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from peerwise.errors import ParcelError
from peerwise.parcels.parcel import Parcel, size
from peerwise.parcels.store import write_atomic
from peerwise.parcels.tree import Parts, pack_parts, unpack_own

MARK = b"peerwise tree 1\n"
HEAD = struct.Struct("<II")  # checksum of list and manifest, length of the list
ALIGNED = 8  # so that the arrays, which come first, lie where processors like them


@dataclass(frozen=True)
class Packed:
    """What was read from a file, and is what was written."""

    manifest: bytes
    blobs: Mapping[str, memoryview]

    def tree(self) -> dict[str, Any]:
        """Its arrays share the memory of this; they may be written to."""
        return unpack_own(self.manifest, self.blobs)

    def parcel(self) -> Parcel:
        return Parcel.of_size(size(self.manifest, self.blobs), self.tree())

    def copy(self) -> Packed:
        return Packed(self.manifest, {name: memoryview(bytearray(blob)) for name, blob in self.blobs.items()})


def write_tree(path: Path, tree: Mapping[str, Any]) -> int:
    """Whole or not at all, also when this process is killed; not flushed, so a power cut may damage it. The bytes that
    it would take to send the tree."""
    manifest, parts = pack_parts(tree, _Names())
    blobs = {name: sum(map(len, pieces)) for name, pieces in parts.items()}
    listed = json.dumps({"manifest": len(manifest), "blobs": blobs}).encode()
    listed += b" " * (-(len(MARK) + HEAD.size + len(listed) + len(manifest)) % ALIGNED)
    head = HEAD.pack(zlib.crc32(listed + manifest), len(listed))
    write_atomic(path, MARK + head + listed + manifest, *chain(*parts.values()), durable=False)
    return len(manifest) + sum(blobs.values())


def read_packed(path: Path) -> Packed:
    """A file that is missing or not as it was written is refused."""
    try:
        data = _bytes(path)
    except FileNotFoundError as error:
        raise ParcelError(f"{path} is not there: expected a file that Peerwise wrote. Run again.") from error
    begin = len(MARK) + HEAD.size
    if len(data) < begin or data[: len(MARK)] != MARK:
        raise _damaged(path)
    checksum, length = HEAD.unpack(data[len(MARK) : begin])
    try:
        sizes = json.loads(bytes(data[begin : begin + length]))
        place = begin + length + sizes["manifest"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if zlib.crc32(data[begin:place]) != checksum:
        raise _damaged(path)
    manifest = bytes(data[begin + length : place])
    blobs: dict[str, memoryview] = {}
    for name, length in sizes["blobs"].items():
        blobs[name] = data[place : place + length]
        place += length
    if place != len(data) or any(_checksum([blob], _number(name)) != name for name, blob in blobs.items()):
        raise _damaged(path)
    return Packed(manifest, blobs)


def read_tree(path: Path) -> dict[str, Any]:
    return read_packed(path).tree()


def _bytes(path: Path) -> memoryview:
    """Such as may be written to."""
    with path.open("rb", buffering=0) as file:
        data = memoryview(bytearray(os.fstat(file.fileno()).st_size))
        return data[: file.readinto(data)]


class _Names:
    """One name for equal bytes, another for others, also where their checksums are the same."""

    def __init__(self) -> None:
        self.given: dict[str, Parts] = {}

    def __call__(self, parts: Parts) -> str:
        number = 0
        while (other := self.given.setdefault(name := _checksum(parts, number), parts)) is not parts:
            if b"".join(other) == b"".join(parts):
                break
            number += 1
        return name


def _number(name: str) -> int:
    return int(name[8:16], 16)


def _checksum(parts: Parts, number: int) -> str:
    found, length = 0, 0
    for part in parts:
        found = zlib.crc32(part, found)
        length += len(part)
    return f"{found:08x}{number:08x}{length:048x}"


def _damaged(path: Path) -> ParcelError:
    return ParcelError(f"{path} is damaged: expected the bytes that were written. Was there a power cut? Run again.")
