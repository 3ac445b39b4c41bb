"""FedDyn: FedAvg with a regulariser that each site adapts, so that local and common optima agree."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from peerwise.data import Site
from peerwise.methods.averaging import mean, told
from peerwise.methods.base import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.moves import ByMoves, added, difference, running_mean, scaled, senders, zeros
from peerwise.methods.steps import copies, in_order, pulled_step, within
from peerwise.models.nets import Net, net_parameters
from peerwise.parcels import Parcel


class FedDyn(ByMoves):
    """Federated learning with dynamic regularisation (Acar et al., ICLR 2021).

    loss:  CE - <h_i, w> + (alpha / 2) ||w - x||^2           x: the weights received
    site:  h_i <- h_i - alpha (w_i - x)                      h_i = 0 at first
    hub:   h <- h - alpha (1 / all) sum_participants (w_i - x),  x <- mean w_i - h / alpha

    Sent: w_i - x; heard: x, as its way from the start. "All" are the sites that ever spoke. In the first round with
    everybody, x goes twice as far as FedAvg's. Departs from the paper: means weigh sites by their train rows, so that
    the goal is FedAvg's.
    """

    def __init__(self, alpha: float = 0.01, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.alpha = within("alpha", alpha, 1e-6)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["slope"] = zeros(site.state["start"])

    def learn(self, site: Site, net: Net, round: int) -> None:
        slope, before = site.state["slope"], net_parameters(net)
        optimizer = self.new_optimizer(net.parameters())
        push = in_order(net, scaled(slope, -1.0))
        update = pulled_step(net, optimizer, towards=copies(net), strength=self.alpha, push=push)
        self.fit(site, net, round, update=update)
        site.state["slope"] = added(slope, difference(net_parameters(net), before), -self.alpha)

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        moves, left_out = mean(inbox, "moves")
        changes, heard = scaled(moves, -self.alpha), senders(inbox, left_out)
        slope, everybody = running_mean(memory.get("slope"), memory.get("sites", {}), changes, heard)
        total = added(added(memory.get("total"), moves), slope, -1.0 / self.alpha)
        return told(left_out, total=total), {"total": total, "slope": slope, "sites": everybody}
