"""Means over sites of what they sent, weighted, with one parcel in memory at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.errors import ParcelError
from peerwise.federation.method import Inbox
from peerwise.parcels import Parcel

Weights = dict[str, NDArray[Any]]
Weigh = Callable[[Parcel], float]
MOST_ROWS = 1e12


def by_rows(parcel: Parcel) -> float:
    return float(parcel["rows"])


def alike(parcel: Parcel) -> float:
    return 1.0


def check_rows(parcel: Parcel) -> None:
    """Refuse a number of rows that would outweigh everybody, or that nobody has."""
    if not 0 < by_rows(parcel) <= MOST_ROWS:
        raise ParcelError(f"rows is {parcel['rows']}: expected a number above 0, at most {MOST_ROWS:g}.")


def mean(inbox: Inbox, item: str = "weights", weigh: Weigh = by_rows) -> Weights:
    """sum_i w_i a_i / sum_i w_i of the named arrays ``parcel[item]``, in float32."""
    total: dict[str, torch.Tensor] = {}
    term: dict[str, torch.Tensor] = {}  # room for one sender's
    weights = 0.0
    for sender in sorted(inbox):
        parcel = inbox[sender]
        weight = weigh(parcel)
        for name, array in parcel[item].items():
            if name not in total:
                total[name] = torch.zeros(array.shape, dtype=torch.float64)
                term[name] = torch.empty_like(total[name])
            # numpy casts, torch multiplies and adds in one pass: so half the time
            np.copyto(term[name].numpy(), array)
            total[name].add_(term[name], alpha=weight)
        weights += weight
    return {name: (summed / weights).numpy().astype(np.float32) for name, summed in total.items()}


def replaced(weights: Weights, news: Weights) -> Weights:
    """``weights`` with the arrays of ``news`` in their places; names and shapes must be those that are there."""
    for name, array in news.items():
        if name not in weights or weights[name].shape != array.shape:
            here = weights[name].shape if name in weights else "nothing"
            raise ParcelError(f"{name!r} arrived with shape {array.shape}, here it is {here}: expected the same net.")
    return {**weights, **news}
