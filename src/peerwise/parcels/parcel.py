"""Parcel: all that crosses a border. Named items (JSON values, arrays, model bytes), never code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from peerwise.parcels.tree import MOST_SENT, Blobs, frozen, pack, packed_size, unpack


class Parcel(Mapping[str, Any]):
    """What a site shares in one round.

    >>> import numpy as np
    >>> parcel = Parcel(counts=np.array([3, 4]), note="two classes")
    >>> parcel["note"], parcel["counts"].tolist(), Parcel.decode(*parcel.encode()) == parcel
    ('two classes', [3, 4], True)
    """

    def __init__(self, /, **items: Any) -> None:
        self._items = items
        self._size: int | None = None

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parcel) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode()[0])

    def __repr__(self) -> str:
        return f"Parcel({', '.join(self)}; {self.nbytes:,} bytes)"

    def encode(self) -> tuple[bytes, Blobs]:
        """The manifest and its blobs, as they are sent."""
        return self._encoded

    @cached_property
    def _encoded(self) -> tuple[bytes, Blobs]:
        return pack(self._items)

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: the manifest and every blob; an empty parcel costs nothing because none is sent."""
        if not self._items:
            return 0
        if self._size is None:
            self._size = packed_size(self._items)
        return self._size

    def frozen(self) -> Parcel:
        """The parcel as it would arrive elsewhere, without the journey: its arrays are shared and cannot be changed."""
        return Parcel.of_size(self.nbytes, frozen(self._items))

    @classmethod
    def decode(cls, manifest: bytes, blobs: Mapping[str, bytes]) -> Parcel:
        return cls.of_size(size(manifest, blobs), unpack(manifest, blobs, MOST_SENT))

    @classmethod
    def of_size(cls, nbytes: int, items: Mapping[str, Any]) -> Parcel:
        """With items whose encoding is known to take so many bytes."""
        parcel = cls(**items)
        parcel._size = nbytes
        return parcel


def size(manifest: bytes, blobs: Mapping[str, bytes | memoryview]) -> int:
    return len(manifest) + sum(map(len, blobs.values()))
