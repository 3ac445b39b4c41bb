"""pFedMe: personal weights within reach of the common ones, which follow them."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch

from peerwise.data import Site
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import mean
from peerwise.methods.by_rounds import OPTIMIZERS, Budget
from peerwise.methods.moves import ByMoves, added, difference
from peerwise.methods.steps import Tensors, Update, copies, pulled_step, within
from peerwise.models.nets import Net, Weights, net_parameters, net_weights
from peerwise.models.training import Batch, Optimizer
from peerwise.parcels import Parcel


class PFedMe(ByMoves):
    """Personalised federated learning with Moreau envelopes (Dinh et al., NeurIPS 2020).

    each batch: K times theta <- theta - personal_lr (g(theta) + lam (theta - w)),  then w <- w - lam lr (w - theta)
    hub:        x <- (1 - beta) x + beta mean w_i

    Sent: w_i - x; received: x, as its way from the start. Answers come from theta, which starts each round at x and
    goes on from batch to batch. The inner steps are the ``optimizer``'s. ``beta`` = 0, the public code's default, never
    moves x; here it is 1. Departs from the paper: the mean weighs sites by their train rows, as its code does; that
    code's weight decay of 0.001 is left out.
    """

    def __init__(
        self,
        lam: float = 15.0,
        beta: float = 1.0,
        inner_steps: int = 5,
        personal_lr: float = 0.01,
        **budget: Unpack[Budget],
    ) -> None:
        super().__init__(**budget)
        self.lam = within("lam", lam, 0)
        self.beta = within("beta", beta, 0)
        self.inner_steps = int(within("inner_steps", inner_steps, 1))
        self.personal_lr = within("personal_lr", personal_lr, 1e-6)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["personal"] = site.state["net"]

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        before, followed = net_parameters(net), copies(net)
        inner = OPTIMIZERS[self.optimizer](net.parameters(), self.personal_lr)
        update = envelope_step(net, inner, followed, self.lam, self.lr, self.inner_steps)
        self.fit(site, net, round, optimizer=inner, update=update)
        site.state["personal"] = net_weights(net)
        common = {name: value.cpu().numpy() for name, value in zip(before, followed, strict=True)}
        site.state["net"] = {**site.state["personal"], **common}
        return Parcel(moves=difference(common, before), rows=len(site.train))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        moves = mean(inbox, "moves")
        total = added(
            memory.get("total", {name: np.zeros_like(move) for name, move in moves.items()}), moves, self.beta
        )
        return Parcel(total=total), {"total": total}

    def answering(self, site: Site) -> Weights:
        return site.state["personal"]  # type: ignore[no-any-return]


def envelope_step(net: Net, inner: Optimizer, followed: Tensors, lam: float, lr: float, inner_steps: int) -> Update:
    """K steps of theta (the net), then one of w (``followed``, changed in place)."""
    towards = pulled_step(net, inner, towards=followed, strength=lam)

    def step(batch: Batch) -> float:
        losses = [towards(batch) for _ in range(inner_steps)]
        theta = [parameter.data for parameter in net.parameters()]
        torch._foreach_lerp_(followed, theta, lam * lr)
        return losses[0]

    return step
