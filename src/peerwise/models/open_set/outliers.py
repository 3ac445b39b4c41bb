"""The made-up outliers for each kind of rows: one coarse and one smooth way to destroy them, and the size of a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from peerwise.data.rows import Feature, Inputs, Kind
from peerwise.errors import DataError
from peerwise.models.open_set.destroy import Negative, destroyed
from peerwise.models.open_set.rearrange import shuffled
from peerwise.models.open_set.table_rows import blended, permuted

WHITE = 255.0


@dataclass(frozen=True)
class Outliers:
    """``destroyed`` and ``smooth``: rows -> as many outliers; ``unit``: the range of a pixel, or each column's spread,
    in which the steps of an attack are measured."""

    destroyed: Negative
    smooth: Negative
    unit: Tensor


def outliers_for(
    kind: Kind, X: Inputs, features: tuple[Feature, ...] = (), *, grids: tuple[int, ...] = (2, 4), band: int = 1
) -> Outliers:
    """Those for rows like ``X``, the site's train rows. ``grids`` and ``band`` are those of shuffled images."""
    if kind == "image":
        return Outliers(destroyed, partial(shuffled, grids=grids, band=band), torch.tensor(WHITE))
    if kind != "table":
        raise DataError(
            f"no outliers are known for {kind} rows: expected images or tables. Use a method that needs none, such as "
            f"peerwise or fedavg."
        )
    table = np.ma.masked_invalid(np.asarray(X, dtype=np.float64))
    spread = np.ma.filled(table.std(axis=0), 0.0)
    categorical = torch.tensor([bool(feature.categories) for feature in features] or [False] * table.shape[1])
    unit = torch.as_tensor(np.where(spread > 0, spread, 1.0), dtype=torch.float32)
    return Outliers(permuted, partial(blended, categorical=categorical), unit)
