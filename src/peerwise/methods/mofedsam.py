"""MoFedSAM: FedSAM whose steps also go on in the direction of the last round."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch

from peerwise.data import Site
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import mean
from peerwise.methods.by_rounds import Budget
from peerwise.methods.moves import ByMoves, added, scaled
from peerwise.methods.steps import Tensors, Update, in_order, sharp_gradient, step_along, within
from peerwise.models.nets import Net
from peerwise.models.training import Batch, Optimizer, steps_an_epoch
from peerwise.parcels import Parcel


class MoFedSAM(ByMoves):
    """FedSAM with momentum (Qu et al., ICML 2022).

    each step goes along beta g(w + rho g/||g||) + (1 - beta) D,   D = -(x - x_before) / (lr K)

    x, x_before: the common weights of this round and the last; K: the site's steps in a round. Sent: w_i - x; received:
    x (as its way from the start) and x - x_before. D has the scale of a gradient under plain SGD. Departs from the
    paper: in the first round, where there is no D, the step is FedSAM's and not beta times it; K is each site's own.
    """

    def __init__(self, rho: float = 0.05, beta: float = 0.1, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.rho = within("rho", rho, 0)
        self.beta = within("beta", beta, 1e-3, 1)

    def learn(self, site: Site, net: Net, round: int) -> None:
        optimizer = self.new_optimizer(net.parameters())
        going = None
        if "move" in site.state:
            steps = self.local_epochs * steps_an_epoch(len(site.train), self.batch_size)
            going = in_order(net, scaled(site.state["move"], -1.0 / (self.lr * steps)))
        self.fit(site, net, round, update=momentum_step(net, optimizer, self.rho, self.beta, going))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        move = mean(inbox, "moves")
        total = added(memory.get("total"), move)
        return Parcel(total=total, move=move), {"total": total}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        super().absorb(site, round, inbox)
        site.state["move"] = inbox["move"]


def momentum_step(net: Net, optimizer: Optimizer, rho: float, beta: float, going: Tensors | None) -> Update:
    """A step along beta g(w + rho g/||g||) + (1 - beta) going; along the first alone where ``going`` is None."""

    def step(batch: Batch) -> float:
        loss, along = sharp_gradient(net, batch, rho)
        if going is not None:
            torch._foreach_mul_(along, beta)
            torch._foreach_add_(along, going, alpha=1 - beta)
        step_along(net, optimizer, along)
        return loss

    return step
