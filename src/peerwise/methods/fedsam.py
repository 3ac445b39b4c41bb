"""FedSAM: FedAvg whose sites look for flat minima."""

from __future__ import annotations

from typing import Unpack

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import sharp_gradient, step_along, within
from peerwise.models.nets import Net
from peerwise.models.training import Batch


class FedSAM(FedAvg):
    """Sharpness-aware federated averaging (Qu et al., ICML 2022; Caldarola et al., ECCV 2022).

    each step goes along g(w + rho g(w) / ||g(w)||)

    Sent and received: the parameters, averaged as in FedAvg. Both gradients see the same batch and the same dropout,
    and BatchNorm remembers the first look alone. Departs from the paper: none.
    """

    def __init__(self, rho: float = 0.05, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.rho = within("rho", rho, 0)

    def learn(self, site: Site, net: Net, round: int) -> None:
        optimizer = self.new_optimizer(net.parameters())

        def step(batch: Batch) -> float:
            loss, sharp = sharp_gradient(net, batch, self.rho)
            step_along(net, optimizer, sharp)
            return loss

        self.fit(site, net, round, update=step)
