"""What one site gets, and the steps that several partitions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Indices
from peerwise.errors import PartitionError

Counts = NDArray[np.int64]
REDRAWS = 1000


@dataclass(frozen=True)
class Share:
    """Row numbers of one site; ``features`` are the column numbers it sees, or None for all."""

    rows: Indices
    name: str
    features: tuple[int, ...] | None = None


def numbered(parts: Sequence[Indices]) -> list[Share]:
    """Shares called site-0, site-1, ..., padded so that names sort as numbers do."""
    width = len(str(len(parts) - 1))
    return [Share(np.sort(rows), f"site-{place:0{width}d}") for place, rows in enumerate(parts)]


def positive(value: float, name: str) -> None:
    if not (np.isfinite(value) and value > 0):
        raise PartitionError(f"{name}={value}; use a number above 0.")


def enough_rows(rows: int, sites: int, min_rows: int) -> None:
    if min_rows < 1:
        raise PartitionError(f"min_rows={min_rows}; use at least 1.")
    if rows < sites * min_rows:
        raise PartitionError(
            f"{rows} rows cannot give {sites} sites {min_rows} rows each; use fewer sites or a smaller min_rows."
        )


def redraw(draw: Callable[[], Counts], min_rows: int, remedy: str) -> Counts:
    """Draw counts (sites, classes) until every site has ``min_rows``, a bounded number of times."""
    smallest = 0
    for _ in range(REDRAWS):
        counts = draw()
        smallest = max(smallest, int(counts.sum(axis=1).min()))
        if smallest >= min_rows:
            return counts
    raise PartitionError(
        f"{REDRAWS} draws gave no split with {min_rows} rows at every site (best: {smallest}); {remedy}."
    )


def cut_by_counts(y: NDArray[np.int64], counts: Counts, rng: np.random.Generator) -> list[Share]:
    """Deal the shuffled rows of each class so that site i gets ``counts[i, c]`` of class c, and leave out the rest."""
    parts: list[list[Indices]] = [[] for _ in counts]
    for label in range(counts.shape[1]):
        rows = rng.permutation(np.flatnonzero(y == label))[: counts[:, label].sum()]
        for part, piece in zip(parts, np.split(rows, np.cumsum(counts[:-1, label])), strict=True):
            part.append(piece)
    return numbered([np.concatenate(part) for part in parts])


def even(total: int, parts: int) -> Counts:
    """``total`` cut into parts that differ by at most one, the larger ones first.

    >>> even(7, 3).tolist()
    [3, 2, 2]
    """
    return np.array([total // parts + (place < total % parts) for place in range(parts)], dtype=np.int64)


def deal_kinds(sites: int, kinds: int, each: int, at_least: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which of ``kinds`` (classes, columns) each site owns: ``each`` of them, every kind by ``at_least`` sites.

    Redraws as published; where chance does not get there, a short kind takes the place of one that has owners to spare.
    Needs sites * each >= kinds * at_least.
    """
    for _ in range(100):
        owns = np.zeros((sites, kinds), dtype=bool)
        for row in owns:
            row[rng.choice(kinds, each, replace=False)] = True
        if owns.sum(axis=0).min() >= at_least:
            return owns
    while (owners := owns.sum(axis=0)).min() < at_least:
        short, spare = int(owners.argmin()), int(owners.argmax())
        site = rng.choice(np.flatnonzero(owns[:, spare] & ~owns[:, short]))
        owns[site, [short, spare]] = True, False
    return owns
