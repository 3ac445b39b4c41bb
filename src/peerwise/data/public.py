"""Public rows: unlabelled, common to all sites and at none of them, set aside before the rest is shared out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.share import positive
from peerwise.data.rows import Indices, digest
from peerwise.errors import PartitionError


@dataclass(frozen=True, eq=False)
class PublicSet:
    """What all sites must agree on: the name of the public rows, the sha256 of their inputs (all columns, also where
    a site sees some only), and which rows of the data set they are."""

    name: str
    sha256: str
    rows: Indices


def public_set(dataset: Dataset, rows: Indices) -> PublicSet:
    return PublicSet(f"{dataset.name}/public-{len(rows)}", digest(dataset.X[rows]), rows)


def set_aside(
    dataset: Dataset, public: int, rng: np.random.Generator, alpha: float | None = None
) -> tuple[Indices, Indices]:
    """The public rows and the rest: whole groups where there are groups, so at least ``public`` rows.

    ``alpha`` None: drawn at random. Otherwise the classes' shares of the public rows are drawn from Dirichlet(alpha)
    (small: some classes are rare or absent), with at most half of any class, so that the sites lose none; a group that
    would take more is left to them.
    """
    everything = np.arange(len(dataset))
    if public == 0:
        return everything[:0], everything
    if not 0 < public < len(dataset):
        raise PartitionError(
            f"public={public} rows cannot be set aside from {len(dataset)}; use a number from 0 to {len(dataset) - 1}."
        )
    member = np.unique(everything if dataset.group is None else dataset.group, return_inverse=True)[1]
    order = rng.permutation(int(member.max()) + 1)
    sizes = np.bincount(member)
    chosen = _first(order, sizes, public) if alpha is None else _skewed(dataset, member, order, public, alpha, rng)
    taken = np.isin(member, chosen)
    if taken.all():
        raise PartitionError(f"public={public} would take every group; use a smaller number.")
    return everything[taken], everything[~taken]


def _first(order: Indices, sizes: Indices, rows: int) -> Indices:
    """As many of these groups as it takes for so many rows."""
    return order[: int(np.searchsorted(np.cumsum(sizes[order]), rows)) + 1] if rows else order[:0]


def _skewed(
    dataset: Dataset, member: Indices, order: Indices, public: int, alpha: float, rng: np.random.Generator
) -> Indices:
    """Groups of each class (its most frequent one) up to that class's share; then any, if there were too few."""
    positive(alpha, "public_alpha")
    table = np.zeros((len(order), len(dataset.classes)), dtype=np.int64)
    np.add.at(table, (member, dataset.y), 1)
    home, sizes = table.argmax(axis=1), table.sum(axis=1)
    room = table.sum(axis=0) // 2
    if public > room.sum():
        raise PartitionError(
            f"public={public} with public_alpha={alpha:g}: half of each class stays at the sites, so at most "
            f"{room.sum()} of the {len(dataset)} rows can be set aside. Use fewer, or leave public_alpha out."
        )
    present = np.flatnonzero(room)
    shares = np.zeros(len(room))
    shares[present] = rng.dirichlet(np.full(len(present), alpha))
    counts = _within(public, shares, room)
    chosen: list[int] = []
    for label, count in enumerate(counts):
        chosen += _fitting(order[home[order] == label], table, count, room)
    chosen += _fitting(order[~np.isin(order, chosen)], table, public - int(sizes[chosen].sum()), room)
    if (number := int(sizes[chosen].sum())) < public:
        raise PartitionError(
            f"public={public} with public_alpha={alpha:g}: half of each class stays at the sites, so of these groups "
            f"only some with {number} rows together can be set aside. Use fewer, or leave public_alpha out."
        )
    return np.array(chosen, dtype=np.int64)


def _fitting(groups: Indices, table: NDArray[np.int64], rows: int, room: NDArray[np.int64]) -> list[int]:
    """The first of these groups for which there is ``room`` (which becomes less) until there are so many rows."""
    found: list[int] = []
    for group in groups:
        if rows <= 0:
            break
        if (table[group] <= room).all():
            found.append(int(group))
            rows -= int(table[group].sum())
            room -= table[group]
    return found


def _within(total: int, shares: NDArray[np.float64], room: NDArray[np.int64]) -> NDArray[np.int64]:
    """``total`` by these shares in whole numbers, none above its room; what does not fit goes to the others.

    >>> _within(10, np.array([0.9, 0.1, 0.0]), np.array([4, 3, 9])).tolist()
    [4, 3, 3]
    """
    counts = np.zeros_like(room)
    while (left := total - int(counts.sum())) > 0:
        free = room - counts
        weight = np.where(free > 0, shares, 0)
        weight = weight if weight.sum() > 0 else free.astype(float)
        wish = left * weight / weight.sum()
        more = np.floor(wish).astype(np.int64)
        more[np.argsort(more - wish, kind="stable")[: left - int(more.sum())]] += 1
        counts += np.minimum(more, free)
    return counts
