"""ByMoves: averaging for methods whose hub must know how far the sites went in a round."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.methods.averaging import Weights, by_rows, mean, note_left_out, replaced, told
from peerwise.methods.base import Inbox, Memory
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.pool_models import full_name
from peerwise.models.nets import net_parameters, net_weights
from peerwise.parcels import Parcel


class ByMoves(FedAvg):
    """FedAvg told in moves: x_t = x_0 + total_t, total_t = sum over rounds of the mean of (w_i - x).

    The hub does not know x_0, with which all sites start; so sites send w_i - x and hear the total. Who joins late
    needs nothing else.
    """

    def start(self, site: Site, rng: np.random.Generator) -> None:
        net = self.new_net(site, rng)
        site.state["net"] = net_weights(net)
        site.state["start"] = net_parameters(net)

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        before = net_parameters(net)
        self.learn(site, net, round)
        site.state["net"] = net_weights(net)
        return Parcel(moves=difference(net_parameters(net), before), rows=len(site.train))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        moves, left_out = mean(inbox, "moves")
        total = added(memory.get("total"), moves)
        return told(left_out, total=total), {**memory, "total": total}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        note_left_out(site, inbox)
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


def senders(inbox: Inbox, left_out: dict[str, str]) -> dict[str, float]:
    """Those whose parcels counted, with their rows."""
    return {name: by_rows(inbox[name]) for name in sorted(inbox) if full_name("*", name) not in left_out}


def running_mean(
    before: Weights | None, known: dict[str, float], changes: Weights, heard: dict[str, float]
) -> tuple[Weights, dict[str, float]]:
    """The mean by rows of something over all sites that ever spoke, when those ``heard`` changed theirs by ``changes``
    on average; whoever had not spoken had zero. Also the rows of all that ever spoke."""
    everybody = {**known, **heard}
    rows = sum(everybody.values())
    kept = scaled(before, sum(known.values()) / rows) if before is not None else None
    return added(kept, changes, sum(heard.values()) / rows), everybody


def _single(array: Any) -> Any:
    return np.asarray(array, dtype=np.float32)
