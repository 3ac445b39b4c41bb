"""The partition that skews how many rows a site has."""

from __future__ import annotations

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.share import Share, enough_rows, numbered
from peerwise.errors import PartitionError


def quantity(
    dataset: Dataset, sites: int, rng: np.random.Generator, *, exponent: float = 1.0, min_rows: int = 10
) -> list[Share]:
    """The r-th largest site gets rows in proportion to r ** -exponent, above ``min_rows``; labels at random."""
    enough_rows(len(dataset), sites, min_rows)
    if not (np.isfinite(exponent) and exponent >= 0):
        raise PartitionError(f"exponent={exponent}; use 0 (equal sizes) or more.")
    weight = np.arange(1, sites + 1, dtype=float) ** -exponent
    spare = len(dataset) - sites * min_rows
    ends = np.round(np.cumsum(weight) / weight.sum() * spare).astype(np.int64)
    sizes = rng.permutation(min_rows + np.diff(ends, prepend=0))
    return numbered(np.split(rng.permutation(len(dataset)), np.cumsum(sizes)[:-1]))
