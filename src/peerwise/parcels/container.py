"""One file for one tree, with a checksum that is verified on reading: quick to write, and damage is noticed.

mark  checksum of the rest  length of the head  head (JSON: the tree, and the arrays and bytes that follow)  data...

An array or a bytes value that a tree holds in many places is written once, and is one object again when it is read;
read-only arrays stay read-only. These files never cross a border: the checksum is no proof against intent.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError
from peerwise.parcels.store import write_atomic
from peerwise.parcels.tree import check_names, native_dtype, plain_value

MARK = b"peerwise tree 2\n"
CHECKSUM = LENGTH = struct.Struct("<I")
ALIGNED = 8  # so that arrays lie where processors like them


def write_tree(path: Path, tree: Mapping[str, Any], *, durable: bool = False) -> None:
    """Whole or not at all, also when this process is killed; only a ``durable`` file survives a power cut."""
    writer = _Writer()
    body = writer.encoded(tree, "")
    head = json.dumps({"body": body, "data": writer.about}, separators=(",", ":"), allow_nan=False).encode()
    begin = len(MARK) + CHECKSUM.size + LENGTH.size
    head += b" " * (-(begin + len(head)) % ALIGNED)
    parts = [LENGTH.pack(len(head)), head, *writer.parts]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    write_atomic(path, MARK + CHECKSUM.pack(checksum), *parts, durable=durable)


def read_tree(path: Path) -> dict[str, Any]:
    """The tree; its arrays share the memory of what was read. A missing or damaged file is refused."""
    try:
        data = _bytes(path)
    except FileNotFoundError as error:
        raise ParcelError(f"{path} is not there: expected a file that Peerwise wrote. Run again.") from error
    checked, begin = len(MARK) + CHECKSUM.size, len(MARK) + CHECKSUM.size + LENGTH.size
    if len(data) < begin or data[: len(MARK)] != MARK:
        raise _damaged(path)
    if CHECKSUM.unpack(data[len(MARK) : checked]) != (zlib.crc32(data[checked:]),):
        raise _damaged(path)
    (length,) = LENGTH.unpack(data[checked:begin])
    head = json.loads(bytes(data[begin : begin + length]))
    tree: dict[str, Any] = _decoded(head["body"], _values(data[begin + length :], head["data"]))
    return tree


@dataclass
class _Writer:
    """``about``: for each value written its type ("bytes", or an array's dtype, shape and whether it may be changed)
    and its size; ``parts``: their bytes, each filled up to `ALIGNED`."""

    about: list[list[Any]] = field(default_factory=list)
    parts: list[bytes | memoryview] = field(default_factory=list)
    arrays: dict[int, int] = field(default_factory=dict)  # places by id; the tree keeps the arrays alive meanwhile
    blobs: dict[bytes, int] = field(default_factory=dict)

    def encoded(self, node: Any, path: str) -> Any:
        if isinstance(node, np.ndarray):
            return {"$": self._array(node, path)}
        if isinstance(node, bytes):
            if node not in self.blobs:
                self.blobs[node] = self._add(["bytes", len(node)], node, len(node))
            return {"$": self.blobs[node]}
        if isinstance(node, Mapping):
            check_names(node)
            return {key: self.encoded(value, f"{path}/{key}") for key, value in node.items()}
        if isinstance(node, list | tuple):
            return [self.encoded(value, f"{path}/{place}") for place, value in enumerate(node)]
        return plain_value(node, path)

    def _array(self, array: NDArray[Any], path: str) -> int:
        place = self.arrays.get(id(array))
        if place is None:
            native = np.asarray(array, dtype=native_dtype(array, path), order="C")
            about = [native.dtype.str, native.nbytes, list(native.shape), bool(array.flags.writeable)]
            part = native.reshape(-1).view(np.uint8).data if native.nbytes else b""
            place = self.arrays[id(array)] = self._add(about, part, native.nbytes)
        return place

    def _add(self, about: list[Any], part: bytes | memoryview, size: int) -> int:
        self.about.append(about)
        self.parts.append(part)
        if size % ALIGNED:
            self.parts.append(bytes(-size % ALIGNED))
        return len(self.about) - 1


def _values(data: memoryview, about: list[list[Any]]) -> list[Any]:
    found: list[Any] = []
    begin = 0
    for kind, size, *rest in about:
        part = data[begin : begin + size]
        begin += size + -size % ALIGNED
        if kind == "bytes":
            found.append(bytes(part))
            continue
        shape, writeable = rest
        array = np.frombuffer(part, kind).reshape(shape)
        array.flags.writeable = writeable
        found.append(array)
    return found


def _decoded(node: Any, values: list[Any]) -> Any:
    if isinstance(node, dict):
        if "$" in node:
            return values[node["$"]]
        return {key: _decoded(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_decoded(value, values) for value in node]
    return node


def _bytes(path: Path) -> memoryview:
    """Such as may be written to."""
    with path.open("rb", buffering=0) as file:
        data = memoryview(bytearray(os.fstat(file.fileno()).st_size))
        return data[: file.readinto(data)]


def _damaged(path: Path) -> ParcelError:
    return ParcelError(f"{path} is damaged: expected the bytes that were written. Was there a power cut? Run again.")
