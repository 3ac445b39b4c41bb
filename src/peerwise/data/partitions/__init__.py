"""Ways to share a data set out among sites, each one small function ``fn(dataset, sites, rng, *, ...) -> shares``.

A partition's parameters are the keyword-only arguments of its function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.by_column import feature_shift, hybrid, natural
from peerwise.data.partitions.by_feature import vertical
from peerwise.data.partitions.by_label import dirichlet, disjoint, equal_label_skew, exdir, pathological
from peerwise.data.partitions.by_size import quantity
from peerwise.data.partitions.share import Share
from peerwise.errors import PartitionError, choices
from peerwise.registry import find_registered, path_of

__all__ = ["PARTITIONS", "Partition", "Share", "partition_function", "partition_parameters", "partition_rows"]

Partition = Callable[..., list[Share]]

PARTITIONS: dict[str, Partition] = {
    "exdir": exdir,
    "dirichlet": dirichlet,
    "pathological": pathological,
    "disjoint": disjoint,
    "quantity": quantity,
    "equal_label_skew": equal_label_skew,
    "natural": natural,
    "vertical": vertical,
    "feature_shift": feature_shift,
    "hybrid": hybrid,
}
COUNT_THEIR_SITES = ("natural", "hybrid")  # as many as the data have
DEFAULT_SITES = 10


def partition_parameters(partition: str | Partition) -> dict[str, Any]:
    """The parameters of a partition and their defaults."""
    parameters = inspect.signature(partition_function(partition)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def partition_function(partition: str | Partition) -> Partition:
    found: Any = find_registered(partition, "partitions") if isinstance(partition, str) else partition
    if not callable(found):
        raise PartitionError(f"partition {partition!r} is a {type(found).__name__}: expected a function.")
    function: Partition = found
    return function


def partition_rows(
    dataset: Dataset, partition: str | Partition, sites: int | None, rng: np.random.Generator, **params: Any
) -> list[Share]:
    """Shares of the rows by the partition of this name, or by this function; where rows have a group, a group is never
    torn apart.

    Drawn partitions then share out groups, a group counting as one row of its commonest class. Natural sites are a
    fact and stay as they are.
    """
    share_out = partition_function(partition)
    name = partition if isinstance(partition, str) else path_of(partition)
    known = partition_parameters(share_out)
    for given in params:
        if given not in known:
            raise PartitionError(f"partition {name!r}: {choices(given, known, 'parameter')}")
    if sites is not None and (not isinstance(sites, int | np.integer) or sites < 1):
        raise PartitionError(f"sites={sites!r}; use a whole number of at least 1.")
    if name == "natural":
        return natural(dataset, sites, rng, **params)
    wanted = DEFAULT_SITES if sites is None and name not in COUNT_THEIR_SITES else sites
    if dataset.group is None:
        return _checked(share_out(dataset, wanted, rng, **params), name, len(dataset))
    member = _units(dataset, params.get("column", known.get("column")))
    units = _one_row_a_group(dataset, member)
    shares = _checked(share_out(units, wanted, rng, **params), name, len(units))
    return [replace(share, rows=np.flatnonzero(np.isin(member, share.rows))) for share in shares]


def _checked(shares: Any, name: str, rows: int) -> list[Share]:
    expected = f"partition {name!r} {{}}: expected a list of peerwise.data.Share(rows, name), rows counted from 0"
    if not isinstance(shares, list | tuple) or not all(isinstance(share, Share) for share in shares) or not shares:
        raise PartitionError(expected.format(f"returned {str(shares)[:60]}") + ".")
    names = [share.name for share in shares]
    if odd := [each for each in names if not isinstance(each, str)]:
        raise PartitionError(expected.format(f"calls a site {str(odd[0])[:60]}") + ", name a text.")
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise PartitionError(expected.format(f"has two sites called {twice[0]!r}") + ", each site once.")
    for share in shares:
        if len(share.rows) and not 0 <= np.min(share.rows) <= np.max(share.rows) < rows:
            wrong = expected.format(f"gives site {share.name!r} rows {np.min(share.rows)} to {np.max(share.rows)}")
            raise PartitionError(f"{wrong}, of {rows}.")
        if len(np.unique(share.rows)) < len(share.rows):
            raise PartitionError(expected.format(f"gives site {share.name!r} a row twice") + ", each row once.")
    return list(shares)


def _units(dataset: Dataset, column: str | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for each group; a partition by domain may cut a group at the domain's border."""
    keys = [np.unique(np.asarray(dataset.group), return_inverse=True)[1]]
    domain = None if column is None else dataset.column(column)
    if domain is not None:
        keys.append(np.unique(domain, return_inverse=True)[1])
    member: np.ndarray[tuple[int], np.dtype[np.int64]]
    member = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return member


def _one_row_a_group(dataset: Dataset, member: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Dataset:
    counts = np.zeros((int(member.max()) + 1, len(dataset.classes)), dtype=np.int64)
    np.add.at(counts, (member, dataset.y), 1)
    first = np.unique(member, return_index=True)[1]
    return replace(dataset.take(first), y=counts.argmax(axis=1).astype(np.int64))
