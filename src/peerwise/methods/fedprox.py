"""FedProx: FedAvg whose sites are held near the common weights."""

from __future__ import annotations

from typing import Unpack

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import within
from peerwise.models.stacked import Pull


class FedProx(FedAvg):
    """Federated optimisation with a proximal term (Li et al., MLSys 2020).

    loss = CE + (mu / 2) ||w - x||^2, so each step goes along g(w) + mu (w - x)        x: the weights received

    Sent and received: the parameters, averaged as in FedAvg. ``mu`` is one of the values that the paper searches
    (0.001 to 1). Departs from the paper: all sites do the same number of epochs.
    """

    def __init__(self, mu: float = 0.01, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.mu = within("mu", mu, 0)

    def pull(self, site: Site) -> Pull:
        return Pull(towards=site.state["net"], strength=self.mu)
