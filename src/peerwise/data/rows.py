"""Rows: inputs with their labels, however the inputs are shaped.

Three kinds of input, each a plain array so that a model can travel without code:

* ``table``: float32 ``(n, features)``; NaN is a missing value, a category is its code in ``Feature.categories``
* ``image``: uint8 ``(n, channels, height, width)``, 0..255; networks scale inside
* ``sequence``: `Sequences`, static ``(n, s)`` beside series ``(n, time, f)``, float32
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["table", "image", "sequence"]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """One named column of a table: a number, or a category with its known values in code order."""

    name: str
    categories: tuple[str, ...] = ()

    @property
    def is_category(self) -> bool:
        return bool(self.categories)


@dataclass(frozen=True)
class Sequences:
    """Static inputs beside time series; indexes and has a length like an array."""

    static: NDArray[np.float32]
    series: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Any) -> Sequences:
        return Sequences(self.static[rows], self.series[rows])


Inputs = NDArray[Any] | Sequences


@dataclass(frozen=True)
class Rows:
    """Inputs ``X`` and their class codes ``y``; rows of one ``group`` (a patient) must never be told apart."""

    X: Inputs
    y: NDArray[np.int64]
    group: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> Rows:
        return Rows(self.X[rows], self.y[rows], None if self.group is None else self.group[rows])


def digest(X: Inputs, y: NDArray[Any] | None = None) -> str:
    """sha256 of inputs and labels: the same rows have the same digest, whatever object holds them."""
    parts = [X.static, X.series] if isinstance(X, Sequences) else [np.asarray(X)]
    total = hashlib.sha256()
    for part in parts if y is None else [*parts, y]:
        total.update(f"{part.dtype.str}{part.shape}".encode())
        total.update(np.ascontiguousarray(part).data)
    return total.hexdigest()


def concatenate(parts: list[Inputs]) -> Inputs:
    """One array, or one `Sequences`, from several of the same kind."""
    if isinstance(parts[0], Sequences):
        pairs = [part for part in parts if isinstance(part, Sequences)]
        return Sequences(np.concatenate([p.static for p in pairs]), np.concatenate([p.series for p in pairs]))
    return np.concatenate([np.asarray(part) for part in parts])
