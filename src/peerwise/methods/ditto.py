"""Ditto: FedAvg, and beside it a personal net at every site that is held near the common one."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import copies, pulled_step, within
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, net_probabilities, net_weights


class Ditto(FedAvg):
    """Fair and robust federated learning through personalisation (Li et al., ICML 2021).

    v <- v - lr (g(v) + mu (v - x)), then w as in FedAvg        x: the weights received, v: the personal net

    Each takes ``local_epochs`` a round, in the same order of rows. Sent and heard: the parameters of w. Answers come
    from v. ``mu`` (lambda in the paper) is of the range that the paper searches (0.05 to 2). Departs from the paper:
    mu is the same at all sites.
    """

    def __init__(self, mu: float = 1.0, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.mu = within("mu", mu, 0)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["personal"] = site.state["net"]

    def learn(self, site: Site, net: Net, round: int) -> None:
        personal = self.net(site, "personal")
        optimizer = self.new_optimizer(personal.parameters())
        pull = pulled_step(personal, optimizer, towards=copies(net), strength=self.mu)
        self.fit(site, personal, round, update=pull)
        site.state["personal"] = net_weights(personal)
        super().learn(site, net, round)

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return net_probabilities(self.net(site, "personal"), tensors(X, site.device))
