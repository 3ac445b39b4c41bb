"""FedDyn: FedAvg with a regulariser that each site adapts, so that local and common optima agree."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from peerwise.data import Site
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import Weights, mean
from peerwise.methods.by_rounds import Budget
from peerwise.methods.moves import ByMoves, added, rows_by_sender, running_mean, scaled, zeros
from peerwise.methods.steps import within
from peerwise.models.stacked import Pull
from peerwise.parcels import Parcel


class FedDyn(ByMoves):
    """Federated learning with dynamic regularisation (Acar et al., ICLR 2021).

    loss:  CE - <h_i, w> + (alpha / 2) ||w - x||^2           x: the weights received
    site:  h_i <- h_i - alpha (w_i - x)                      h_i = 0 at first
    hub:   h <- h - alpha (1 / all) sum_participants (w_i - x),  x <- mean w_i - h / alpha

    Sent: w_i - x; received: x, as its way from the start. "All" are the sites that ever shared. In the first round with
    everybody, x goes twice as far as FedAvg's. Departs from the paper: means weigh sites by their train rows, so that
    the goal is FedAvg's.
    """

    def __init__(self, alpha: float = 0.01, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.alpha = within("alpha", alpha, 1e-6)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["slope"] = zeros(site.state["start"])

    def pull(self, site: Site) -> Pull:
        return Pull(towards=site.state["net"], strength=self.alpha, push=scaled(site.state["slope"], -1.0))

    def trained(self, site: Site, weights: Weights) -> Parcel:
        parcel = super().trained(site, weights)
        site.state["slope"] = added(site.state["slope"], parcel["moves"], -self.alpha)
        return parcel

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        moves = mean(inbox, "moves")
        changes, senders = scaled(moves, -self.alpha), rows_by_sender(inbox)
        slope, everybody = running_mean(memory.get("slope"), memory.get("sites", {}), changes, senders)
        total = added(added(memory.get("total"), moves), slope, -1.0 / self.alpha)
        return Parcel(total=total), {"total": total, "slope": slope, "sites": everybody}
