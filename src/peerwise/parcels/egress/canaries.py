"""Do these bytes hold a row? Whatever is sent can be searched, in whatever form numbers take on the way."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Inputs, Rows, Sequences
from peerwise.parcels.egress.search import Canaries

_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{40,}={0,2}")
_LETTERS = re.compile(rb"[A-DF-Za-df-z]")
VARIED = 5
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){40,}")


def holds_rows(data: bytes, rows: Rows | Inputs) -> list[int]:
    """Which rows are in these bytes: as float32, float64 or whole numbers of 8 to 64 bits at any offset, floats in
    either byte order, or as decimal text, also within base64 and hexadecimal text. See `Canaries` for what counts as a
    row; a whole row byte by byte always does, if it has five different values."""
    X = rows.X if isinstance(rows, Rows) else rows
    parts = [X.static, X.series] if isinstance(X, Sequences) else [np.asarray(X)]
    held = np.zeros(len(X), dtype=np.bool_)
    for canaries in [Canaries.of(part) for part in parts if part.size]:
        for text in (data, *_decoded(data)):
            for numbers in _readings(text):
                held |= canaries.held_by(numbers)
    for part in parts:
        held |= [_literally(data, row) for row in part.reshape(len(X), -1)]
    return [int(row) for row in np.flatnonzero(held)]


def _literally(data: bytes, row: NDArray[Any]) -> bool:
    """Whether the row is there byte by byte, also one of common values, which Canaries would put down to chance."""
    if len(np.unique(row[np.isfinite(row)])) < VARIED:
        return False
    return any(row.astype(kind).tobytes() in data for kind in ("<f4", "<f8"))


def _readings(data: bytes) -> Iterator[NDArray[np.float64]]:
    for kind in ("<f4", "<f8", ">f4", ">f8", "<i4", "<i8", "<i2", "u1"):
        size = np.dtype(kind).itemsize
        for offset in range(size):
            count = (len(data) - offset) // size
            if count > 0:
                with np.errstate(all="ignore"):
                    numbers = np.frombuffer(data, kind, count, offset).astype(np.float64)
                yield np.where(np.isfinite(numbers), numbers, np.nan)
    yield np.array([float(text) for text in _NUMBER.findall(_BASE64.sub(_unless_encoded, data))])


def _unless_encoded(run: re.Match[bytes]) -> bytes:
    """Blank out digests and other encoded bytes, which `_decoded` reads: their digits are no decimal numbers. Numbers
    that are joined by names, such as x63_y145, stay."""
    text = run.group()
    return text if b"_" in text or b"-" in text or not _LETTERS.search(text) else b" "


def _decoded(data: bytes) -> Iterator[bytes]:
    for text in _BASE64.findall(data):
        bare = text.rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_")
        yield base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4) if len(bare) % 4 != 1 else bare[:-1])
    for text in _HEX.findall(data):
        yield bytes.fromhex(text.decode())
