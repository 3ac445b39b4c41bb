"""ByMoves: averaging for methods whose hub must know how far the sites went in a round."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import Weights, by_rows, mean, replaced
from peerwise.methods.fedavg import FedAvg
from peerwise.parcels import Parcel


class ByMoves(FedAvg):
    """FedAvg in moves: x_t = x_0 + total_t, total_t = sum over rounds of the mean of (w_i - x).

    The hub does not know x_0, with which all sites start; so sites send w_i - x and receive the total. Who joins late
    needs nothing else.
    """

    travels = "moves"

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["start"] = {name: site.state["net"][name] for name in self.travelling(site)}

    def trained(self, site: Site, weights: Weights) -> Parcel:
        moves = self.moves(site, weights)
        site.state["net"] = weights
        return Parcel(moves=moves, rows=len(site.train))

    def moves(self, site: Site, weights: Weights) -> Weights:
        """How far the parameters have gone from those received."""
        received = site.state["net"]
        return {name: _single(weights[name] - received[name]) for name in site.state["start"]}

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        total = added(memory.get("total"), mean(inbox, "moves"))
        return Parcel(total=total), {**memory, "total": total}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        replaced(site.state["start"], inbox["total"])  # refuses another net's names and shapes
        site.state["net"] = replaced(site.state["net"], added(site.state["start"], inbox["total"]))


def added(arrays: Weights | None, news: Weights, factor: float = 1.0) -> Weights:
    """arrays + factor news, by name; no arrays count as zeros."""
    if arrays is None:
        return {name: _single(factor * array) for name, array in news.items()}
    return {name: _single(arrays[name] + factor * array) for name, array in news.items()}


def difference(arrays: Weights, others: Weights) -> Weights:
    return added(arrays, others, -1.0)


def scaled(arrays: Weights, factor: float) -> Weights:
    return added(None, arrays, factor)


def zeros(arrays: Weights) -> Weights:
    return {name: np.zeros_like(array) for name, array in arrays.items()}


def rows_by_sender(inbox: Inbox) -> dict[str, float]:
    return {name: by_rows(inbox[name]) for name in sorted(inbox)}


def running_mean(
    before: Weights | None, known: dict[str, float], changes: Weights, senders: dict[str, float]
) -> tuple[Weights, dict[str, float]]:
    """The mean by rows of something over all sites that ever shared, when these ``senders`` changed theirs by
    ``changes`` on average; those that have never shared count as zero. Also the rows of all that ever shared."""
    everybody = {**known, **senders}
    rows = sum(everybody.values())
    kept = scaled(before, sum(known.values()) / rows) if before is not None else None
    return added(kept, changes, sum(senders.values()) / rows), everybody


def _single(array: Any) -> Any:
    return np.asarray(array, dtype=np.float32)
