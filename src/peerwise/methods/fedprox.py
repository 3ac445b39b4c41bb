"""FedProx: FedAvg whose sites are held near the common weights."""

from __future__ import annotations

from typing import Unpack

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import copies, pulled_step, within
from peerwise.models.nets import Net


class FedProx(FedAvg):
    """Federated optimisation with a proximal term (Li et al., MLSys 2020).

    loss = CE + (mu / 2) ||w - x||^2, so each step goes along g(w) + mu (w - x)        x: the weights received

    Sent and heard: the parameters, averaged as in FedAvg. ``mu`` is one of the values that the paper searches
    (0.001 to 1). Departs from the paper: all sites do the same number of epochs.
    """

    def __init__(self, mu: float = 0.01, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.mu = within("mu", mu, 0)

    def learn(self, site: Site, net: Net, round: int) -> None:
        optimizer = self.new_optimizer(net.parameters())
        self.fit(site, net, round, update=pulled_step(net, optimizer, towards=copies(net), strength=self.mu))
