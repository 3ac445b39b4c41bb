"""Subgroups: to which part of the people (sex, ward, age band) each row of a data set belongs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Dataset, Sequences
from peerwise.errors import ConfigError, choices

FEW = 10  # a number with at most so many different values is told by its values, any other by its quartiles


def subgroups(data: Dataset, column: str) -> NDArray[np.str_]:
    """Each row's subgroup by a named column: a feature, a kept column, or "site".

    Text and categories stand for themselves. A number with more than ten different values is cut at the quartiles of
    the whole data set ("up to 47", "47 to 54": above 47 and at most 54, ..., "above 60"), so that a subgroup means the
    same at every site; where one value fills a quartile there are fewer ("up to 0", "above 0"). A missing value is
    "missing".
    """
    named = [feature.name for feature in data.features]
    kept = data.columns.get(column)
    if kept is not None and np.issubdtype(kept.dtype, np.number):
        return _of_numbers(kept)
    found = data.column(column)
    if found is not None:
        return found
    if column in named and not isinstance(data.X, Sequences):
        return _of_numbers(np.asarray(data.X)[:, named.index(column)])
    known = {*data.column_names(), *([] if isinstance(data.X, Sequences) else named)}
    if not known:
        raise ConfigError(f"subgroup is {column!r}: data set {data.name!r} has no named columns. Leave it out.")
    raise ConfigError(f"subgroup: {choices(column, known, 'column')}")


def _of_numbers(numbers: NDArray[np.number]) -> NDArray[np.str_]:
    values = numbers.astype(np.float64) + 0.0  # minus zero, which equals zero, would be told as "-0"
    there = np.isfinite(values)
    different = np.unique(values[there])
    if len(different) <= FEW:
        return np.array([f"{value:g}" if known else "missing" for value, known in zip(values, there, strict=True)])
    cuts = np.unique(np.quantile(values[there], (0.25, 0.5, 0.75)))
    between = [f"{low:g} to {high:g}" for low, high in pairwise(cuts)]
    names = np.array([f"up to {cuts[0]:g}", *between, f"above {cuts[-1]:g}", "missing"])
    place = np.searchsorted(cuts, values, side="left")
    return np.asarray(names[np.where(there, place, len(names) - 1)])
