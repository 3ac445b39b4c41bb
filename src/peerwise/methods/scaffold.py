"""SCAFFOLD: FedAvg whose sites correct their steps by how their gradients differ from everybody's."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import Weights, mean
from peerwise.methods.by_rounds import Budget
from peerwise.methods.moves import ByMoves, added, difference, rows_by_sender, running_mean, scaled, zeros
from peerwise.models.stacked import Pull
from peerwise.models.training import steps_an_epoch
from peerwise.parcels import Parcel

MARK = "control of "


class Scaffold(ByMoves):
    """Stochastic controlled averaging (Karimireddy et al., ICML 2020), its second option for the controls.

    step:  w <- w - lr (g(w) - c_i + c)                      K steps, from the weights x received
    site:  c_i <- c_i - c + (x - w) / (K lr)                 c_i = 0 at first
    hub:   x <- x + mean (w - x),  c <- c + (rows of participants / rows of all) mean (change of c_i)

    Sent: w - x and the change of c_i; received: x (as its way from the start) and c: twice FedAvg's traffic. "All" are
    the sites that ever shared. The formulas hold for plain SGD, so another optimiser is refused. Departs from the
    paper: means weigh sites by their train rows, so that the goal and the first round are FedAvg's.
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

    def pull(self, site: Site) -> Pull:
        return Pull(push=difference(site.state["common control"], site.state["control"]))

    def trained(self, site: Site, weights: Weights) -> Parcel:
        steps = self.local_epochs * steps_an_epoch(len(site.train), self.batch_size)
        moves = self.moves(site, weights)
        change = control_change(moves, site.state["common control"], steps, self.lr)
        site.state["net"] = weights
        site.state["control"] = added(site.state["control"], change)
        marked = {MARK + name: array for name, array in change.items()}
        return Parcel(moves={**moves, **marked}, rows=len(site.train))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        means = mean(inbox, "moves")
        changes = {name.removeprefix(MARK): array for name, array in means.items() if name.startswith(MARK)}
        total = added(memory.get("total"), {name: means[name] for name in changes})
        senders = rows_by_sender(inbox)
        control, everybody = running_mean(memory.get("control"), memory.get("sites", {}), changes, senders)
        return Parcel(total=total, control=control), {"total": total, "control": control, "sites": everybody}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        super().absorb(site, round, inbox)
        site.state["common control"] = inbox["control"]


def control_change(moves: Weights, common: Weights, steps: int, lr: float) -> Weights:
    """c_i(new) - c_i = -c - (w - x) / (K lr)."""
    return added(scaled(common, -1.0), moves, -1.0 / (steps * lr))
