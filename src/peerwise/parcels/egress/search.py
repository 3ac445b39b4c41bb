"""Are there rows among these numbers? One search for tensors, attributes, raw bytes and text alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CHANCE = 1e-2  # how often numbers that only look like the rows may be taken for one of them
MOST_COLUMNS = 256  # of wide rows (pixels) so many are looked at, spread evenly
MOST_SEEDS = 32  # columns of a row from which a search starts
MOST_PAIRS = 10_000_000
FEW_ROWS = 5  # the medians of fewer rows than this are one of them
SPARSE = 100  # and a value of so few rows is not thought to be common for that


@dataclass(frozen=True)
class Canaries:
    """Rows to look for, ``values (n, columns)``, where ``columns`` are their places in the whole row.

    A row is held by a sequence of numbers if, laid at some place along it, at least half of the row's telling values,
    and four of them, meet their equals; if three of these differ from each other; and if that is no chance: by the
    column's own frequencies, sum of -log p(value) > log(rows * places / CHANCE), where places are those of the sequence
    that hold any telling value of the rows. Without the factor of rows it is enough where at least four rows are there
    with all their known values, and ten times as many as by chance. Zero, and a column's mean, median and most frequent
    value, tell nothing, as these are what a model rightly holds of its rows (imputation, scaling). So rows of yes and
    no alone are not found here, see `whole_rows`.
    """

    values: Floats
    columns: NDArray[np.int64]
    tolerance: Floats

    @classmethod
    def of(cls, rows: NDArray[Any], precision: float = 1e-6) -> Canaries:
        flat = np.asarray(rows).reshape(len(rows), -1)
        width = flat.shape[1]
        columns = np.unique(np.linspace(0, width - 1, min(width, MOST_COLUMNS)).round().astype(np.int64))
        values = flat[:, columns].astype(np.float64)
        values[~np.isfinite(values)] = np.nan
        known = np.isfinite(values)
        spread = np.array(
            [column[there].std() if there.any() else 0.0 for column, there in zip(values.T, known.T, strict=True)]
        )
        return cls(
            values, columns, precision * spread + precision * np.abs(np.nan_to_num(values)).max(axis=0, initial=0)
        )

    @cached_property
    def telling(self) -> Floats:
        """-log of how frequent each value is in its column; nothing for zero, unknown and statistics."""
        found = np.zeros(self.values.shape)
        for place, (column, near) in enumerate(zip(self.values.T, self.tolerance, strict=True)):
            ordered = np.sort(column[np.isfinite(column)])
            if not len(ordered):
                continue
            alike = np.searchsorted(ordered, column + near, "right") - np.searchsorted(ordered, column - near, "left")
            few = len(column) < FEW_ROWS
            told = -np.log(np.clip(alike, 1, None) / (SPARSE if few else len(column)))
            common = [0.0] if few else [0.0, *_statistics(ordered)]
            plain = np.any([np.abs(column - value) <= near for value in common], axis=0)
            found[:, place] = np.where(plain | ~np.isfinite(column), 0.0, np.maximum(told, 0.0))
        return found

    @cached_property
    def needed(self) -> NDArray[np.int64]:
        telling = (self.telling > 0).sum(axis=1)
        return np.asarray(np.minimum(telling, np.maximum(4, -(-telling // 2))))

    @cached_property
    def seeds(self) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], Floats]:
        """Values, their rows, their columns and tolerances, sorted by value: every row's most telling ones."""
        width = self.values.shape[1]
        most = min(width, max(8, width // 2 + 1), MOST_SEEDS)
        column = np.argsort(-self.telling, axis=1, kind="stable")[:, :most]
        row = np.repeat(np.arange(len(self.values)), most).reshape(column.shape)
        kept = np.take_along_axis(self.telling, column, axis=1) > 0
        row, column = row[kept], column[kept]
        order = np.argsort(self.values[row, column], kind="stable")
        row, column = row[order], column[order]
        return self.values[row, column], row, column, self.tolerance[column]

    def held_by(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the rows the sequence ``numbers`` holds."""
        held = np.zeros(len(self.values), dtype=np.bool_)
        sequence = np.ascontiguousarray(numbers, dtype=np.float64).ravel()
        if len(sequence) < min(4, self.values.shape[1]) or not len(self.seeds[0]):
            return held
        places, start, row = _candidates(sequence, self)
        limit = np.log(max(len(held), 1)) + np.log1p(places) - np.log(CHANCE)
        whole = np.zeros_like(held)
        step = max(1, 2_000_000 // len(self.columns))
        for begin in range(0, len(start), step):
            part = slice(begin, begin + step)
            good, full = self._are_there(sequence, start[part], row[part], limit)
            held[row[part][good]] = whole[row[part][full]] = True
        by_chance = places * np.exp(-self.telling.sum(axis=1))
        rare = by_chance < CHANCE
        whole &= rare
        return held | whole if whole.sum() >= max(4, 10 * by_chance[rare].sum()) else held

    def _are_there(
        self, sequence: Floats, start: NDArray[np.int64], row: NDArray[np.int64], limit: float
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each row, laid there, is held; and whether all its known values are there."""
        at = start[:, None] + self.columns
        inside = (at >= 0) & (at < len(sequence))
        there = sequence[np.clip(at, 0, len(sequence) - 1)]
        equal = inside & (np.abs(there - self.values[row]) <= self.tolerance)
        told = np.where(equal, self.telling[row], 0.0)
        full = (equal | np.isnan(self.values[row])).all(axis=1)
        good = ((told > 0).sum(axis=1) >= self.needed[row]) & (told.sum(axis=1) > limit)
        for place in np.flatnonzero(good | full):
            varied = len(np.unique(there[place][told[place] > 0])) >= min(3, self.values.shape[1])
            good[place] &= varied
            full[place] &= varied
        return good, full


def _statistics(ordered: Floats) -> list[float]:
    values, counts = np.unique(ordered, return_counts=True)
    middle = len(ordered) // 2
    return [ordered.mean(), np.median(ordered), ordered[middle], ordered[middle - 1], values[counts.argmax()]]


def _candidates(sequence: Floats, canaries: Canaries) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """How many places hold a seed; and where to lay which row, such that two of its seeds meet their equals."""
    value, row, column, near = canaries.seeds
    unique, first, count = np.unique(value, return_index=True, return_counts=True)
    right = np.searchsorted(unique, sequence).clip(0, len(unique) - 1)
    left = np.maximum(right - 1, 0)
    is_right = np.abs(sequence - unique[right]) <= near[first[right]]
    is_left = (np.abs(sequence - unique[left]) <= near[first[left]]) & (left != right)
    places = np.concatenate([np.flatnonzero(is_right), np.flatnonzero(is_left)])
    seeds = np.concatenate([right[is_right], left[is_left]])
    # Values that are common both here and in the rows are left out first, should there be too many pairs to look at.
    pairs = np.bincount(seeds, minlength=len(unique)) * count
    cheap = np.argsort(pairs, kind="stable")
    allowed = np.zeros(len(unique), dtype=np.bool_)
    allowed[cheap[np.cumsum(pairs[cheap]) <= MOST_PAIRS]] = True
    kept = allowed[seeds]
    places, seeds = places[kept], seeds[kept]
    each = count[seeds]
    offset = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
    which = np.repeat(first[seeds], each) + offset
    start = np.repeat(places, each) - canaries.columns[column[which]]
    width = int(canaries.columns[-1]) + 1
    key, times = np.unique((start + width) * len(canaries.values) + row[which], return_counts=True)
    key = key[times >= min(2, canaries.values.shape[1])]
    return int((is_right | is_left).sum()), key // len(canaries.values) - width, key % len(canaries.values)


def whole_rows(table: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows a table of the same width is made of: at least half of its lines, and four that differ, are equal to a
    row, number by number in float32."""
    held = np.zeros(len(rows), dtype=np.bool_)
    if table.ndim != 2 or table.shape[1] != rows.shape[1] or len(table) < 4:
        return held
    lines = [line.tobytes() for line in np.ascontiguousarray(table, dtype=np.float32) + np.float32(0)]
    known: dict[bytes, list[int]] = {}
    for place, row in enumerate(np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)):
        if np.count_nonzero(row) > 1:  # else an identity matrix would be a table of them
            known.setdefault(row.tobytes(), []).append(place)
    met = [line for line in lines if line in known]
    if len(set(met)) >= 4 and 2 * len(met) >= len(lines):
        held[[place for line in set(met) for place in known[line]]] = True
    return held
