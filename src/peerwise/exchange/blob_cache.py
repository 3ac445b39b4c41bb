"""Blobs that were fetched, on disk by content: the same bytes are not fetched twice, nor kept in memory."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from peerwise.exchange.shelf import known_blob
from peerwise.parcels import sha256 as sha256_of
from peerwise.parcels import write_atomic


class BlobCache:
    """A file a blob. What was damaged is as if it were not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def read(self, sha256: str, size: int) -> bytes | None:
        path = self.folder / known_blob(sha256)
        try:
            if path.stat().st_size != size:
                return None
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return data if sha256_of(data) == sha256 else None

    def add(self, sha256: str, data: bytes) -> None:
        write_atomic(self.folder / known_blob(sha256), data, durable=False)  # it can be fetched again

    def keep_only(self, wanted: Collection[str]) -> None:
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)
