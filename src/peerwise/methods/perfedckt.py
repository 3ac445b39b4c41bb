"""PerFed-CKT: logits on public rows, averaged among sites that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn import functional

from peerwise.data import Site
from peerwise.errors import ConfigError, DataError, ParcelError
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.co_training import CoTraining, check_topic, public, topic
from peerwise.models.fitted import tensors
from peerwise.models.nets import in_parts, net_weights
from peerwise.models.training import Batch, Loss
from peerwise.parcels import Parcel

Logits = NDArray[np.float32]


class PerFedCKT(CoTraining):
    """Personalised federated learning by clustered knowledge transfer (Cho et al., 2021).

    loss = CE + lam mean_x sum_c H(s_i(x)_c - mean of s_c over the cluster of i)        s: logits on public rows
    H(d) = d^2 / 2 where |d| <= 1, else |d| - 1/2

    Sites are clustered anew in every round by k-means over their logits on all public rows. Sent and received: |U| C
    float32 values. The loss on public rows is taken over as many of them a step as there are own rows. The paper leaves
    the number of clusters and lam open; logits are not normalised. Departs from the paper: it has d^2 / 2 everywhere,
    by which logits that once lie far apart throw each other further with every step until they are no numbers.
    """

    addresses_sites = True

    def __init__(self, clusters: int = 2, lam: float = 0.5, period: int = 1, **budget: Unpack[Budget]) -> None:
        super().__init__(period, **budget)
        if clusters < 1:
            raise ConfigError(f"clusters is {clusters}: expected at least 1.")
        if lam <= 0:
            raise ConfigError(f"lam is {lam}: expected above 0, or peers have no part in the loss.")
        self.clusters = clusters
        self.lam = lam

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            if not self.is_net(site):
                raise DataError(
                    f"site {site.name!r} trains {self.recipe(site)!r}, which is no neural network: PerFed-CKT teaches "
                    f"logits by gradients. Add a net to its models, or use fedmosaic or fedct, which take any model."
                )

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        wanted: Logits | None = site.state.get("cluster")
        self.fit(site, net, round, extra_loss=None if wanted is None else self._pull(site, wanted, round))
        site.state["net"] = net_weights(net)
        if not self.shares_in(round):
            return Parcel()
        logits = in_parts(net, net, tensors(public(site), site.device))
        return Parcel(logits=logits.cpu().numpy(), **self.about(site))

    def _pull(self, site: Site, wanted: Logits, round: int) -> Loss:
        inputs = tensors(public(site), site.device)
        goal = torch.tensor(wanted, device=site.device)
        rng = site.rng(f"public {round}")

        def loss(net: nn.Module, batch: Batch) -> Tensor:
            picked = torch.as_tensor(rng.permutation(len(goal))[: len(batch[-1])])
            said: Tensor = net(*(tensor[picked] for tensor in inputs))
            return self.lam * functional.huber_loss(said, goal[picked], reduction="none").sum(dim=1).mean()

        return loss

    def read_opinion(self, parcel: Parcel, rows: int, classes: int) -> dict[str, Any]:
        logits = parcel["logits"]
        if not isinstance(logits, np.ndarray) or logits.shape != (rows, classes):
            shape = getattr(logits, "shape", None)
            raise ParcelError(f"logits of shape {shape}: expected {(rows, classes)}, one for each row and class.")
        return {"logits": logits.astype(np.float32)}

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Inbox, Memory]:
        logits = {name: inbox[name]["logits"] for name in sorted(inbox)}
        names, about = list(logits), topic(inbox[min(inbox)])
        count = min(self.clusters, len({logits[name].tobytes() for name in names}))
        means = cluster_means(np.stack([logits[name] for name in names]), count, int(rng.integers(2**31)))
        return {name: Parcel(cluster=means[place], **about) for place, name in enumerate(names)}, memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        if "cluster" not in inbox:
            return
        check_topic(site, inbox)
        site.state["cluster"] = inbox["cluster"]


def cluster_means(logits: Logits, clusters: int, seed: int) -> Logits:
    """(sites, |U|, C) -> for each site the mean of its cluster."""
    flat = logits.reshape(len(logits), -1)
    member = KMeans(clusters, n_init=10, random_state=seed).fit_predict(flat)
    return np.stack([logits[member == mine].mean(axis=0, dtype=np.float64) for mine in member]).astype(np.float32)
