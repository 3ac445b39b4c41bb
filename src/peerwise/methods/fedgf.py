"""FedGF: between the flatness that a site sees and the flatness of the common loss."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch

from peerwise.data import Site
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import Weights, mean
from peerwise.methods.by_rounds import Budget
from peerwise.methods.moves import ByMoves, added, scaled
from peerwise.methods.steps import (
    Tensors,
    Update,
    gradient,
    gradient_at,
    in_order,
    same_chance,
    step_along,
    uphill,
    within,
)
from peerwise.models.nets import Net
from peerwise.models.training import Batch, Optimizer
from peerwise.parcels import Parcel


class FedGF(ByMoves):
    """Rethinking the flat minima searching in federated learning (Lee and Yoon, ICML 2024).

    site:  each step goes along g(c x~ + (1 - c) w^),   w^ = w + rho g(w)/||g(w)||,   x~ = x + rho D/||D||
    hub:   D = x_before - x,   c = mean over the last ``window`` rounds of [mean_i ||w_i - x_before|| > threshold]

    Sent: w_i - x; received: x (as its way from the start), D and c. The first round, without x~, is FedSAM's, and so
    is every round with c = 0. Paper and code leave the threshold to be tuned: ``None`` is the mean ||w_i - x|| of the
    first round, so c rises once sites go further than they did at first; where they never do, set it lower. With c near
    1 all steps of a round follow one gradient, which a large lr does not survive. One rho serves both perturbations.
    Departs from the paper: none known.
    """

    def __init__(
        self, rho: float = 0.05, threshold: float | None = None, window: int = 30, **budget: Unpack[Budget]
    ) -> None:
        super().__init__(**budget)
        self.rho = within("rho", rho, 0)
        self.threshold = threshold if threshold is None else within("threshold", threshold, 0)
        self.window = int(within("window", window, 1))

    def learn(self, site: Site, net: Net, round: int) -> None:
        optimizer = self.new_optimizer(net.parameters())
        common, part = None, site.state.get("common part", 0.0)
        if "move" in site.state:
            common = uphill(net, in_order(net, scaled(site.state["move"], -1.0)), self.rho)
        self.fit(site, net, round, update=common_step(net, optimizer, self.rho, common, part))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        move = mean(inbox, "moves")
        total = added(memory.get("total"), move)
        lengths = [length(inbox[name]["moves"]) for name in sorted(inbox)]
        gone = float(np.mean(lengths))
        threshold = memory.get("threshold", gone if self.threshold is None else self.threshold)
        diverged = [*memory.get("diverged", []), gone > threshold][-self.window :]
        kept = {"total": total, "threshold": threshold, "diverged": diverged}
        return Parcel(total=total, move=move, part=float(np.mean(diverged))), kept

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        super().absorb(site, round, inbox)
        site.state["move"], site.state["common part"] = inbox["move"], inbox["part"]

    def curves(self, site: Site) -> dict[str, float]:
        return {"common part": site.state["common part"]}


def common_step(net: Net, optimizer: Optimizer, rho: float, common: Tensors | None, part: float) -> Update:
    """A step along g(part common + (1 - part) (w + rho g/||g||))."""

    def step(batch: Batch) -> float:
        with same_chance(batch):
            loss, flat = gradient(net, batch)
        there = uphill(net, flat, rho)
        if common is not None:
            torch._foreach_lerp_(there, common, part)
        step_along(net, optimizer, gradient_at(net, batch, there)[1])
        return loss

    return step


def length(arrays: Weights) -> float:
    return float(np.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays.values())))
