"""APFL: every site answers with a mixture of its own net and the common one, and learns the mixture."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from peerwise.data import Inputs, Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import Tensors, copies, gradient, same_chance, step_along, within
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, net_probabilities, net_weights
from peerwise.models.training import Batch, Optimizer


class APFL(FedAvg):
    """Adaptive personalised federated learning (Deng et al., 2020).

    m = a v + (1 - a) w;   w <- w - lr g(w),   v <- v - lr a g(m) at every step
    a <- clip(a - lr <v - w, g(m)>, 0, 1) at the first step of a round

    Sent and received: the parameters of w, averaged as in FedAvg. Answers come from m with the w last received. As in
    the paper, v is kept and only mixed to differentiate and to predict; PFLlib mixes it into v for good, and starts
    with a = 1, which shares nothing. Here a starts at 0.5 and is learned once a round, both as in the authors' code,
    which also adds 0.02 a to its slope; that is left out. ``adapt=False`` keeps a as it is. Departs from the paper:
    none known.
    """

    def __init__(self, alpha: float = 0.5, adapt: bool = True, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.alpha = within("alpha", alpha, 0, 1)
        self.adapt = adapt

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["personal"], site.state["alpha"] = site.state["net"], float(self.alpha)

    def learn(self, site: Site, net: Net, round: int) -> None:
        # `mixed` holds m; its buffers, what BatchNorm saw under m, are kept with v.
        mixed = self.net(site, "personal").train()
        own = nn.ParameterList(copies(mixed))
        optimizers = self.new_optimizer(net.parameters()), self.new_optimizer(own)
        alpha, first = site.state["alpha"], True

        def step(batch: Batch) -> float:
            nonlocal alpha, first
            loss, slope = mixture_step(net, mixed, own, alpha, optimizers, batch)
            if first and self.adapt:
                alpha = min(1.0, max(0.0, alpha - self.lr * slope))
            first = False
            return loss

        self.fit(site, net, round, update=step)
        set_parameters(mixed, list(own))
        site.state["personal"], site.state["alpha"] = net_weights(mixed), alpha

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        common, mixed = self.net(site), self.net(site, "personal")
        set_parameters(mixed, mixture(list(mixed.parameters()), list(common.parameters()), site.state["alpha"]))
        return net_probabilities(mixed, tensors(X, site.device))

    def curves(self, site: Site) -> dict[str, float]:
        return {"alpha": site.state["alpha"]}


def mixture_step(
    net: nn.Module,
    mixed: nn.Module,
    own: nn.ParameterList,
    alpha: float,
    optimizers: tuple[Optimizer, Optimizer],
    batch: Batch,
) -> tuple[float, float]:
    """One step of w (in ``net``) and of v (``own``); the mixture's loss and its slope <v - w, g(m)> before the step."""
    with same_chance(batch):
        common_slope = gradient(net, batch)[1]
    common: Tensors = list(net.parameters())
    set_parameters(mixed, mixture(list(own), common, alpha))
    loss, along = gradient(mixed, batch)
    with torch.no_grad():
        apart = torch._foreach_sub(list(own), common)
        slope = sum((gap * value).sum() for gap, value in zip(apart, along, strict=True))
    step_along(net, optimizers[0], common_slope)
    step_along(own, optimizers[1], list(torch._foreach_mul(along, alpha)))
    return loss, float(slope)


@torch.no_grad()
def mixture(own: Tensors, common: Tensors, alpha: float) -> Tensors:
    return list(torch._foreach_add(torch._foreach_mul(own, alpha), common, alpha=1 - alpha))


@torch.no_grad()
def set_parameters(net: nn.Module, values: Tensors) -> None:
    torch._foreach_copy_(list(net.parameters()), values)
