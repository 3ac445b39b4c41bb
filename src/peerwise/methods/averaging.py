"""Means over sites of what they sent: weighted, one parcel in memory at a time, a bad sender left out and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site
from peerwise.errors import ParcelError
from peerwise.methods.base import Inbox
from peerwise.methods.pool_models import PEERS_LEFT_OUT, full_name
from peerwise.parcels import Parcel

Weights = dict[str, NDArray[Any]]
Weigh = Callable[[Parcel], float]
LARGEST = 1e6  # no weight, embedding or logit of a net that still learns is beyond; a few steps further nets overflow
HEAVIEST = 1e12
MOST_SAID = 300  # letters of what a site's parcel made us say


def by_rows(parcel: Parcel) -> float:
    return float(parcel["rows"])


def alike(parcel: Parcel) -> float:
    return 1.0


@dataclass
class _Sum:
    """Of parcels whose arrays have the same names and shapes."""

    total: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    weight: float = 0.0
    senders: list[str] = field(default_factory=list)

    def add(self, sender: str, arrays: Weights, weight: float) -> None:
        for name, array in arrays.items():
            term = np.asarray(array, dtype=np.float64) * weight
            self.total[name] = self.total[name] + term if name in self.total else term
        self.weight += weight
        self.senders.append(sender)


def mean(inbox: Inbox, item: str = "weights", weigh: Weigh = by_rows) -> tuple[Weights, dict[str, str]]:
    """sum_i w_i a_i / sum_i w_i of the named arrays ``parcel[item]``, in float32; and the senders left out, with the
    reason: arrays that are not finite or hold numbers beyond `LARGEST`, or that have other names or shapes than those
    of most senders."""
    sums: dict[tuple[Any, ...], _Sum] = {}
    left_out: dict[str, str] = {}
    for sender in sorted(inbox):
        try:
            parcel = inbox[sender]
            arrays, weight = _arrays(parcel, item), weigh(parcel)
            if not 0 < weight <= HEAVIEST:
                raise ParcelError(f"weight {weight}: expected a number above 0, at most {HEAVIEST:g}.")
        except Exception as error:  # whatever a peer may send
            left_out[full_name("*", sender)] = f"{item}: {error}"[:MOST_SAID]
            continue
        shapes = tuple((name, arrays[name].shape) for name in sorted(arrays))
        sums.setdefault(shapes, _Sum()).add(sender, arrays, weight)
    if not sums:
        why = "; ".join(dict.fromkeys(left_out.values())).rstrip(".")
        raise ParcelError(f"no {item} of {len(left_out)} sites can be averaged: {why or 'nobody sent any'}.")
    most = max(sums.values(), key=lambda each: len(each.senders))
    for other in sums.values():
        if other is not most:
            why = f"{item} of other names or shapes than those of {len(most.senders)} other sites"
            left_out |= {full_name("*", sender): why for sender in other.senders}
    return {name: (total / most.weight).astype(np.float32) for name, total in most.total.items()}, left_out


def told(left_out: dict[str, str], **items: Any) -> Parcel:
    """What all sites are told, with the senders left out only where there are any."""
    return Parcel(**items, **({"left_out": left_out} if left_out else {}))


def note_left_out(site: Site, inbox: Parcel) -> None:
    """Keep, for the results, whom the federation had to do without."""
    if "left_out" in inbox:
        site.state[PEERS_LEFT_OUT] = {**site.state.get(PEERS_LEFT_OUT, {}), **inbox["left_out"]}


def replaced(weights: Weights, news: Weights) -> Weights:
    """``weights`` with the arrays of ``news`` in their places; names and shapes must be those that are there."""
    for name, array in news.items():
        if name not in weights or weights[name].shape != array.shape:
            here = weights[name].shape if name in weights else "nothing"
            raise ParcelError(f"{name!r} of shape {array.shape} was told, here it is {here}: expected the same net.")
    return {**weights, **news}


def _arrays(parcel: Parcel, item: str) -> Weights:
    arrays = parcel[item]
    if not isinstance(arrays, dict) or not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ParcelError(f"a {type(arrays).__name__}: expected arrays by name.")
    for name, array in arrays.items():
        check_numbers(array, repr(name[:80]))
    return arrays


def check_numbers(array: NDArray[Any], what: str) -> None:
    """Refuse what would carry every net that learns from it to infinity."""
    if array.dtype.kind not in "fiub":
        raise ParcelError(f"{what} is of {array.dtype}: expected numbers.")
    if not np.isfinite(array).all():
        raise ParcelError(f"{what} holds non-finite values.")
    if array.size and not (array.min() >= -LARGEST and array.max() <= LARGEST):
        raise ParcelError(f"{what} holds numbers from {array.min()} to {array.max()}: expected {LARGEST:g} at most.")
