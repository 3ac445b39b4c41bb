"""The partition where sites see different columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.share import Share, deal_kinds, enough_rows, even, numbered
from peerwise.errors import PartitionError


def vertical(
    dataset: Dataset,
    sites: int,
    rng: np.random.Generator,
    *,
    share_of_columns: float = 0.5,
    same_rows: bool = False,
) -> list[Share]:
    """Rows are shared out at random in equal parts, and each site sees only a share of the columns, by name.

    Every column is seen by some site where ``sites`` times the share allows it. With ``same_rows`` every site has all
    rows (several registers of the same persons): a row that one site tests on is then a row that another trains on,
    unless all are tested on common rows that no site has.
    """
    width = len(dataset.features)
    if width < 2:
        raise PartitionError(f"{dataset.name} has {width} named columns; vertical needs a table with at least two.")
    if not 0 < share_of_columns <= 1:
        raise PartitionError(f"share_of_columns={share_of_columns}; use a number above 0, at most 1.")
    enough_rows(len(dataset), 1 if same_rows else sites, 1)
    each = max(1, round(share_of_columns * width))
    owns = deal_kinds(sites, width, each, 1 if sites * each >= width else 0, rng)
    if same_rows:
        parts = [np.arange(len(dataset))] * sites
    else:
        parts = np.split(rng.permutation(len(dataset)), np.cumsum(even(len(dataset), sites))[:-1])
    return [
        replace(share, features=tuple(int(place) for place in np.flatnonzero(seen)))
        for share, seen in zip(numbered(parts), owns, strict=True)
    ]
