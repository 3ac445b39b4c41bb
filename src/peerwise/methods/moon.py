"""MOON: FedAvg whose sites keep their embeddings near the common net's and away from their own last ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, softplus

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import within
from peerwise.models.nets import Net, Weights, net_weights
from peerwise.models.training import Batch
from peerwise.parcels import Parcel


class Moon(FedAvg):
    """Model-contrastive federated learning (Li et al., CVPR 2021).

    loss = CE + mu mean -log(e^(cos(z, z_x)/tau) / (e^(cos(z, z_x)/tau) + e^(cos(z, z_p)/tau)))

    z, z_x, z_p: embeddings of a row by the net in training, the net received and the site's net as last trained (at
    first the start, so that the first round is FedAvg's). Sent and received: the parameters, averaged as in FedAvg.
    Departs from the paper: z is the embedding that the head sees, without a projection layer of its own.
    """

    def __init__(self, mu: float = 1.0, tau: float = 0.5, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.mu = within("mu", mu, 0)
        self.tau = within("tau", tau, 1e-3)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["previous"] = site.state["net"]

    def trained(self, site: Site, weights: Weights) -> Parcel:
        site.state["previous"] = weights
        return super().trained(site, weights)

    def learn(self, site: Site, net: Net, round: int) -> None:
        received, previous = self.net_with(site, net_weights(net)).eval(), self.net(site, "previous").eval()

        def loss(net: nn.Module, batch: Batch) -> Tensor:
            assert isinstance(net, Net)
            z = net.embed(*batch[:-1])
            with torch.no_grad():
                near, away = received.embed(*batch[:-1]), previous.embed(*batch[:-1])
            return cross_entropy(net.head(z), batch[-1]) + self.mu * contrast(z, near, away, self.tau)

        self.fit(site, net, round, loss=loss)

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        near, away = (self.embedded_stacked(sites, [site.state[key] for site in sites]) for key in ("net", "previous"))
        rows = list(zip(near, away, strict=True))
        found = self.fit_stacked(sites, round, rows=rows, row_loss=partial(row_contrast, self.mu, self.tau))
        return [self.trained(site, weights) for site, weights in zip(sites, found, strict=True)]


def contrast(z: Tensor, near: Tensor, away: Tensor, tau: float) -> Tensor:
    """-log(e^a / (e^a + e^b)) = log(1 + e^(b - a)), a and b the cosines over tau; the mean over rows."""
    return row_contrast(1.0, tau, z, near, away).mean()


def row_contrast(mu: float, tau: float, z: Tensor, near: Tensor, away: Tensor) -> Tensor:
    gap = cosine_similarity(z, away) - cosine_similarity(z, near)
    return mu * softplus(gap / tau)
