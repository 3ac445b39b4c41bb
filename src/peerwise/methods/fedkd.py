"""FedKD: a private teacher, and a student that travels compressed."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch
from torch import nn

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import alike, mean, replaced
from peerwise.methods.by_rounds import Budget
from peerwise.methods.low_rank import compressed, in_shape_of, rebuilt
from peerwise.methods.students import WithStudent, clip_each, divergence
from peerwise.models.nets import Net, net_parameters, net_weights
from peerwise.models.training import Batch, Optimizer
from peerwise.parcels import Parcel

SMALLEST_LOSS = 1e-6  # of both nets together, so that a site with nothing left to learn does not divide by zero


class FedKD(WithStudent):
    """Federated knowledge distillation (Wu et al., Nature Communications 2022).

    L_f = CE(f) + [KL(g || f) + MSE(h_f, W h_g)] / (CE(f) + CE(g))        f: teacher, private; it predicts
    L_g = CE(g) + [KL(f || g) + MSE(h_f, W h_g)] / (CE(f) + CE(g))        g: student, one architecture for all
    g <- T(mean over sites of T(g_i)), all alike        T: rank cut at the stated energy of each weight matrix

    h are embeddings, W a private map from the student's to the teacher's, learned with g. The energy grows linearly
    from ``energy_start`` in the first round to ``energy_end`` in the last. Sent and received: the factors of g's
    weights. Each loss teaches its own net, and the denominator is a weight that teaches nothing; gradients longer than
    10 are shortened to 10, as in published code. Departs from the paper: weights are compressed, as in published code,
    not their change, so that a site that missed rounds can go on from what it receives.
    """

    def __init__(
        self,
        energy_start: float = 0.95,
        energy_end: float = 0.98,
        student: str | None = None,
        **budget: Unpack[Budget],
    ) -> None:
        super().__init__(student, **budget)
        for name, value in (("energy_start", energy_start), ("energy_end", energy_end)):
            if not 0 < value <= 1:
                raise ConfigError(f"{name} is {value}: expected the share of energy to keep, above 0 and at most 1.")
        self.energy_start = energy_start
        self.energy_end = energy_end

    def energy(self, round: int) -> float:
        """The share of energy that is kept in this round."""
        return self.energy_start + (self.energy_end - self.energy_start) * round / max(1, self.rounds - 1)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        teacher, student = (site.state[key]["head.weight"].shape[1] for key in ("net", "student"))
        longest = student**-0.5
        site.state["map"] = site.rng("map").uniform(-longest, longest, (teacher, student)).astype(np.float32)

    def share(self, site: Site, round: int) -> Parcel:
        net, student = self.net(site), self.net(site, "student", self.student_recipe(site)).train()
        between = nn.Linear(student.width, net.width, bias=False, device=site.device)
        between.load_state_dict({"weight": torch.tensor(site.state["map"])})
        optimizer = self.new_optimizer([*net.parameters(), *student.parameters(), *between.parameters()])

        def update(batch: Batch) -> float:
            return distil_step(net, student, between, optimizer, batch)

        self.fit(site, net, round, update=update, optimizer=optimizer)
        site.state |= {"net": net_weights(net), "student": net_weights(student), "map": net_weights(between)["weight"]}
        return Parcel(weights=compressed(net_parameters(student), self.energy(round)))

    def read_parcel(self, parcel: Parcel, memory: Memory) -> Parcel:
        return Parcel(weights=rebuilt(parcel["weights"]))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        round = memory.get("round", 0)
        weights = compressed(mean(inbox, weigh=alike), self.energy(round))
        return Parcel(weights=weights), {"round": round + 1}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        here = site.state["student"]
        site.state["student"] = replaced(here, in_shape_of(here, rebuilt(inbox["weights"])))


def distil_step(net: Net, student: Net, between: nn.Linear, optimizer: Optimizer, batch: Batch) -> float:
    """One step of teacher, student and the map between their embeddings by L_f and L_g; L_f."""
    optimizer.zero_grad()
    seen, small_seen = net.embed(*batch[:-1]), student.embed(*batch[:-1])
    own, small, mapped = net.head(seen), student.head(small_seen), between(small_seen)
    own_entropy = nn.functional.cross_entropy(own, batch[-1])
    small_entropy = nn.functional.cross_entropy(small, batch[-1])
    apart = nn.functional.mse_loss
    both = (own_entropy + small_entropy).detach().clamp_min(SMALLEST_LOSS)
    own_loss = own_entropy + (divergence(small, own) + apart(seen, mapped.detach())) / both
    small_loss = small_entropy + (divergence(own, small) + apart(mapped, seen.detach())) / both
    (own_loss + small_loss).backward()  # type: ignore[no-untyped-call]
    clip_each(net, student, between)
    optimizer.step()
    return own_loss.item()
