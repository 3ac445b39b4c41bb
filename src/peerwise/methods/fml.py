"""FML: a private net and a travelling one learn from each other."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from torch import nn

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import alike, mean, replaced
from peerwise.methods.by_rounds import Budget
from peerwise.methods.students import WithStudent, clip_each, divergence
from peerwise.models.nets import net_parameters, net_weights
from peerwise.models.training import Batch, Optimizer
from peerwise.parcels import Parcel


class FML(WithStudent):
    """Federated mutual learning (Shen et al., 2020).

    L_f = alpha CE(f) + (1 - alpha) KL(g || f)        f: the site's own net, private; it predicts
    L_g = beta CE(g) + (1 - beta) KL(f || g)          g: the student ("meme"), one architecture for all sites
    g <- mean over sites of g_i, all alike

    Each loss teaches its own net only, and KL is the mean over rows of the sum over classes, as in the paper; published
    code lets both losses teach both nets and divides KL by the number of classes too. Gradients longer than 10 are
    shortened to 10, as there. Sent and received: the parameters of g. Departs from the paper: none known.
    """

    def __init__(
        self, alpha: float = 0.5, beta: float = 0.5, student: str | None = None, **budget: Unpack[Budget]
    ) -> None:
        super().__init__(student, **budget)
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} is {value}: expected the share of the cross entropy, from 0 to 1.")
        self.alpha = alpha
        self.beta = beta

    def share(self, site: Site, round: int) -> Parcel:
        net, student = self.net(site), self.net(site, "student", self.student_recipe(site)).train()
        optimizer = self.new_optimizer([*net.parameters(), *student.parameters()])

        def update(batch: Batch) -> float:
            return mutual_step(net, student, optimizer, batch, self.alpha, self.beta)

        self.fit(site, net, round, update=update, optimizer=optimizer)
        site.state |= {"net": net_weights(net), "student": net_weights(student)}
        return Parcel(weights=net_parameters(student))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        return Parcel(weights=mean(inbox, weigh=alike)), memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        site.state["student"] = replaced(site.state["student"], inbox["weights"])


def mutual_step(
    net: nn.Module, student: nn.Module, optimizer: Optimizer, batch: Batch, alpha: float, beta: float
) -> float:
    """One step of both nets by L_f and L_g; L_f."""
    optimizer.zero_grad()
    own, small = net(*batch[:-1]), student(*batch[:-1])
    entropy = nn.functional.cross_entropy
    own_loss = alpha * entropy(own, batch[-1]) + (1 - alpha) * divergence(small, own)
    small_loss = beta * entropy(small, batch[-1]) + (1 - beta) * divergence(own, small)
    (own_loss + small_loss).backward()  # type: ignore[no-untyped-call]
    clip_each(net, student)
    optimizer.step()
    return own_loss.item()
