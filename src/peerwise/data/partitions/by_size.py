"""The partition that skews how many rows a site has."""

from __future__ import annotations

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.share import Share, enough_rows, numbered
from peerwise.errors import PartitionError


def quantity(
    dataset: Dataset,
    sites: int,
    rng: np.random.Generator,
    *,
    exponent: float = 1.0,
    power: float | None = None,
    min_rows: int = 10,
) -> list[Share]:
    """The r-th largest site gets rows in proportion to r ** -exponent, above ``min_rows``; labels at random.

    With ``power`` (above 0, at most 1, which is equal sizes) instead of an exponent, the k-th of K sites gets
    (k/K) ** power - ((k-1)/K) ** power of them, as where each row falls to a site by a draw from a power distribution:
    one site has most of the rows and the others are nearly alike.
    """
    enough_rows(len(dataset), sites, min_rows)
    if not (np.isfinite(exponent) and exponent >= 0):
        raise PartitionError(f"exponent={exponent}; use 0 (equal sizes) or more.")
    if power is not None and not 0 < power <= 1:
        raise PartitionError(f"power={power}; use a number above 0, at most 1 (equal sizes).")
    place = np.arange(1, sites + 1, dtype=float)
    up_to = np.cumsum(place**-exponent) if power is None else place**power
    spare = len(dataset) - sites * min_rows
    ends = np.round(up_to / up_to[-1] * spare).astype(np.int64)
    sizes = rng.permutation(min_rows + np.diff(ends, prepend=0))
    return numbered(np.split(rng.permutation(len(dataset)), np.cumsum(sizes)[:-1]))
