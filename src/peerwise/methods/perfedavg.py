"""Per-FedAvg: common weights from which one step on a site's own rows leads far."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget, train_tensors
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import Update, gradient, gradient_at, step_along, within
from peerwise.models.nets import Net, Weights, net_weights
from peerwise.models.sgd import SGD
from peerwise.models.training import Batch, Optimizer, train
from peerwise.parcels import Parcel


class PerFedAvg(FedAvg):
    """Personalised federated learning by meta-learning (Fallah et al., NeurIPS 2020), first order.

    each batch in two halves:  w' = w - inner_lr g_1(w),   w <- w - lr g_2(w')

    Sent and received: the parameters, averaged as in FedAvg. Answers come from the common weights after one step of
    ``inner_lr`` on one batch of train rows, drawn by the site's seed for each round. A batch of fewer than four rows
    serves as both halves. Departs from the paper: the second-order term is left out, as in its variant "FO". The public
    code trains twice a round; here it is once, the budget of all methods.
    """

    def __init__(self, inner_lr: float = 0.01, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.inner_lr = within("inner_lr", inner_lr, 1e-6)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["personal"] = site.state["net"]

    def learn(self, site: Site, net: Net, round: int) -> None:
        optimizer = self.new_optimizer(net.parameters())
        self.fit(site, net, round, update=meta_step(net, optimizer, self.inner_lr))

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        super().absorb(site, round, inbox)
        site.state["personal"] = self.adapted(site, round)

    def adapted(self, site: Site, round: int) -> dict[str, NDArray[np.float32]]:
        """The common weights after one step on a batch of the site's train rows."""
        net = self.net(site)
        rows = site.rng(f"adapt {round}").permutation(len(site.train))[: self.batch_size]
        batch = [values[torch.as_tensor(rows, device=values.device)] for values in train_tensors(site)]
        step = SGD(net.parameters(), self.inner_lr)
        seed = site.seed_for(f"adapt {round}")
        train(net, batch, optimizer=step, epochs=1, batch_size=len(rows), patience=None, seed=seed)
        return net_weights(net)

    def answering(self, site: Site) -> Weights:
        return site.state["personal"]  # type: ignore[no-any-return]


def meta_step(net: Net, optimizer: Optimizer, inner_lr: float) -> Update:
    """A step along g_2(w - inner_lr g_1(w))."""

    def step(batch: Batch) -> float:
        first, second = halves(batch)
        loss, along = gradient(net, first)
        there = torch._foreach_add([parameter.data for parameter in net.parameters()], along, alpha=-inner_lr)
        step_along(net, optimizer, gradient_at(net, second, list(there))[1])
        return loss

    return step


def halves(batch: Batch) -> tuple[Batch, Batch]:
    rows = len(batch[0])
    if rows < 4:  # BatchNorm needs two rows
        return batch, batch
    return tuple(part[: rows // 2] for part in batch), tuple(part[rows // 2 :] for part in batch)
