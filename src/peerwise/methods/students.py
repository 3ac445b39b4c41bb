"""WithStudent: what methods share in which a small net travels and the site's own net learns beside it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from peerwise.data import Site
from peerwise.data.rows import Kind
from peerwise.errors import ConfigError, DataError
from peerwise.federation.cleaning import shapes
from peerwise.methods.by_rounds import Budget, ByRounds
from peerwise.models import ZOO, find_recipe
from peerwise.models.nets import net_weights
from peerwise.parcels import Parcel

STUDENTS: dict[Kind, str] = {"image": "cnn8", "table": "mlp", "sequence": "cnn1d"}
LONGEST_GRADIENT = 10.0


class WithStudent(ByRounds):
    """The student has one architecture everywhere, by default a light one for the kind of rows, and lives in
    ``site.state["student"]``; the site's own net is private and predicts."""

    def __init__(self, student: str | None = None, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        if student is not None and not find_recipe(student).by_epochs:
            nets = sorted(name for name, recipe in ZOO.items() if recipe.by_epochs)
            raise ConfigError(f"student is {student!r}, no neural network: expected one of {', '.join(nets)}.")
        self.student = student

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            kind = find_recipe(self.student_recipe(site)).kind
            if kind != site.kind:
                raise DataError(
                    f"student {self.student!r} takes {kind} rows, site {site.name!r} has {site.kind} rows: expected a "
                    f"net for these, such as student={STUDENTS[site.kind]!r}."
                )

    def student_recipe(self, site: Site) -> str:
        return self.student or STUDENTS[site.kind]

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["student"] = net_weights(self.new_net(site, rng, self.student_recipe(site)))

    def must_agree(self, parcel: Parcel) -> Mapping[str, Hashable]:
        return shapes(parcel["weights"])


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    """KL(target || answer) of the probabilities, summed over classes, mean over rows; the target does not learn."""
    answer, aim = nn.functional.log_softmax(logits, dim=1), nn.functional.log_softmax(target.detach(), dim=1)
    return nn.functional.kl_div(answer, aim, reduction="batchmean", log_target=True)


def clip_each(*nets: nn.Module) -> None:
    """Shorten each net's gradient to a length of 10 where it is longer."""
    for net in nets:
        torch.nn.utils.clip_grad_norm_(net.parameters(), LONGEST_GRADIENT)
