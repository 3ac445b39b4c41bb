"""SCAFFOLD: FedAvg whose sites correct their steps by how their gradients differ from everybody's."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.methods.averaging import Weights, mean, told
from peerwise.methods.base import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.moves import ByMoves, added, difference, running_mean, scaled, senders, zeros
from peerwise.methods.steps import copies, in_order, pulled_step
from peerwise.models.nets import net_parameters, net_weights
from peerwise.models.training import Batch
from peerwise.parcels import Parcel

MARK = "control of "


class Scaffold(ByMoves):
    """Stochastic controlled averaging (Karimireddy et al., ICML 2020), its second option for the controls.

    step:  w <- w - lr (g(w) - c_i + c)                      K steps, from the weights x received
    site:  c_i <- c_i - c + (x - w) / (K lr)                 c_i = 0 at first
    hub:   x <- x + mean (w - x),  c <- c + (rows of participants / rows of all) mean (change of c_i)

    Sent: w - x and the change of c_i; heard: x (as its way from the start) and c: twice FedAvg's traffic. "All" are the
    sites that ever spoke. The formulas hold for plain SGD, so another optimiser is refused. Departs from the paper:
    means weigh sites by their train rows, so that the goal and the first round are FedAvg's.
    """

    def __init__(self, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        if self.optimizer != "sgd":
            raise ConfigError(
                f"optimizer is {self.optimizer!r}: SCAFFOLD's controls are sums of plain gradient steps. Use 'sgd'."
            )

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["control"] = zeros(site.state["start"])
        site.state["common control"] = zeros(site.state["start"])

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        before, own, common = net_parameters(net), site.state["control"], site.state["common control"]
        optimizer = self.new_optimizer(net.parameters())
        push = in_order(net, difference(common, own))
        plain = pulled_step(net, optimizer, towards=copies(net), strength=0.0, push=push)
        steps = 0

        def step(batch: Batch) -> float:
            nonlocal steps
            steps += 1
            return plain(batch)

        self.fit(site, net, round, update=step)
        moves = difference(net_parameters(net), before)
        change = control_change(moves, common, steps, self.lr)
        site.state["net"] = net_weights(net)
        site.state["control"] = added(own, change)
        marked = {MARK + name: array for name, array in change.items()}
        return Parcel(moves={**moves, **marked}, rows=len(site.train))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        means, left_out = mean(inbox, "moves")
        changes = {name.removeprefix(MARK): array for name, array in means.items() if name.startswith(MARK)}
        total = added(memory.get("total"), {name: means[name] for name in changes})
        heard = senders(inbox, left_out)
        control, everybody = running_mean(memory.get("control"), memory.get("sites", {}), changes, heard)
        return told(left_out, total=total, control=control), {"total": total, "control": control, "sites": everybody}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        super().absorb(site, round, inbox)
        site.state["common control"] = inbox["control"]


def control_change(moves: Weights, common: Weights, steps: int, lr: float) -> Weights:
    """c_i(new) - c_i = -c - (w - x) / (K lr)."""
    return added(scaled(common, -1.0), moves, -1.0 / (steps * lr))
