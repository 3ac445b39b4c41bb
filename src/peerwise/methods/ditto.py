"""Ditto: FedAvg, and beside it a personal net at every site that is held near the common one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import within
from peerwise.models.nets import Net, Weights, net_weights
from peerwise.models.stacked import Pull
from peerwise.parcels import Parcel


class Ditto(FedAvg):
    """Fair and robust federated learning through personalisation (Li et al., ICML 2021).

    v <- v - lr (g(v) + mu (v - x)), then w as in FedAvg        x: the weights received, v: the personal net

    Each takes ``local_epochs`` a round, in the same order of rows. Sent and received: the parameters of w. Answers come
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
        self.fit(site, personal, round, pull=self.personal_pull(site))
        site.state["personal"] = net_weights(personal)
        super().learn(site, net, round)

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        pulls = [self.personal_pull(site) for site in sites]
        personal = self.fit_stacked(sites, round, key="personal", pulls=pulls)
        parcels = super().share_stacked(sites, round)
        for site, weights in zip(sites, personal, strict=True):
            site.state["personal"] = weights
        return parcels

    def personal_pull(self, site: Site) -> Pull:
        return Pull(towards=site.state["net"], strength=self.mu)

    def answering(self, site: Site) -> Weights:
        return site.state["personal"]  # type: ignore[no-any-return]
