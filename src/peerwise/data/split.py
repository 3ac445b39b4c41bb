"""Train, validation and test rows of one site: stratified, by group, or by time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Indices
from peerwise.errors import DataError

Parts = tuple[Indices, Indices, Indices]
FRACTIONS = (0.6, 0.2, 0.2)


def split_rows(
    y: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    fractions: tuple[float, float, float] = FRACTIONS,
    group: NDArray[Any] | None = None,
    time: NDArray[Any] | None = None,
) -> Parts:
    """Row numbers of train, validation and test.

    Stratified by class; a class with one row goes to train. With ``group`` no group is split. With ``time`` the
    oldest rows are train and the newest test. A site with any row at all has a training row.
    """
    check_fractions(fractions)
    if time is not None:
        part = _by_time(np.asarray(time), group, fractions)
    elif group is not None:
        part = _by_group(y, group, fractions, rng)
    else:
        part = _stratified(y, fractions, rng)
    return (np.flatnonzero(part == 0), np.flatnonzero(part == 1), np.flatnonzero(part == 2))


def check_fractions(fractions: tuple[float, ...]) -> None:
    if len(fractions) != 3 or min(fractions) < 0 or fractions[0] == 0 or not np.isclose(sum(fractions), 1.0):
        raise DataError(
            f"fractions are {fractions}; give three numbers that sum to 1, the first above 0, e.g. (0.6, 0.2, 0.2)."
        )


def _stratified(y: NDArray[np.int64], fractions: tuple[float, ...], rng: np.random.Generator) -> NDArray[np.int8]:
    part = np.zeros(len(y), dtype=np.int8)
    wanted, given = np.zeros(3), np.zeros(3)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        share = len(rows) * np.asarray(fractions)
        counts = np.floor(share + 1e-9).astype(int)
        wanted += share
        open_parts = np.asarray(fractions) > 0
        while counts.sum() < len(rows):
            # ties go to test before validation: a site without test rows cannot be scored at all
            lack = np.where(open_parts, wanted - given - counts, -np.inf)
            best = 0 if counts[0] == 0 else 2 - int(np.argmax(lack[::-1].round(9)))
            counts[best] += 1
            open_parts[best] = False
        part[rows] = np.repeat([0, 1, 2], counts)
        given += counts
    return part


def _by_group(
    y: NDArray[np.int64], group: NDArray[Any], fractions: tuple[float, ...], rng: np.random.Generator
) -> NDArray[np.int8]:
    """Whole groups, large ones first, each to the part that lacks the largest share of what it should have of the
    classes the group has: so every part has large groups, and not the train rows alone."""
    names, member = np.unique(group, return_inverse=True)
    labels, code = np.unique(y, return_inverse=True)
    counts = np.zeros((len(names), len(labels)))
    np.add.at(counts, (member, code), 1)
    total = np.maximum(counts.sum(axis=0), 1)
    wanted = np.outer(fractions, total)
    lack = wanted.copy()
    preferred = [part for part in (0, 2, 1) if fractions[part] > 0]  # among equals: without test rows nothing is scored
    place = np.zeros(len(names), dtype=np.int8)
    order = rng.permutation(len(names))
    for one in order[np.argsort(-counts[order].sum(axis=1), kind="stable")]:
        score = (lack[preferred] / wanted[preferred] / total) @ counts[one]
        place[one] = preferred[int(np.argmax(score.round(12)))]
        lack[place[one]] -= counts[one]
    if len(names) and not (place == 0).any():
        place[order[0]] = 0
    return place[member]


def _by_time(time: NDArray[Any], group: NDArray[Any] | None, fractions: tuple[float, ...]) -> NDArray[np.int8]:
    """The oldest rows train. A group counts by its last row, so that no training row is newer than the cut."""
    if time.dtype.kind not in "iufM":
        raise DataError(f"time values are {time.dtype}; use numbers or dates.")
    if np.isnat(time).any() if time.dtype.kind == "M" else np.isnan(time.astype(float)).any():
        raise DataError("some rows have no time; drop them or split without time.")
    member = np.arange(len(time)) if group is None else np.unique(group, return_inverse=True)[1]
    units = int(member.max()) + 1 if len(member) else 0
    sizes = np.bincount(member, minlength=units)
    order_in_time = np.argsort(time, kind="stable")
    last = np.zeros(units, dtype=np.int64)
    last[member[order_in_time]] = np.arange(len(time))
    order = np.argsort(last, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    cuts = np.round(np.cumsum(fractions)[:2] * len(time))
    place = np.zeros(units, dtype=np.int8)
    place[order] = (before >= max(cuts[0], 1)).astype(np.int8) + (before >= max(cuts[1], 1))
    if fractions[1] == 0:
        place[place == 1] = 2
    return place[member]
