"""CoTraining: what methods have in common in which sites label public rows and learn from all labels."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.data import Inputs, Site, digest
from peerwise.errors import ConfigError, DataError
from peerwise.federation.method import Memory
from peerwise.methods.any_model import AnyModel
from peerwise.methods.by_rounds import Budget
from peerwise.methods.refitting import refitted
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, net_weights
from peerwise.models.training import Batch, Loss
from peerwise.parcels import Parcel

Labels = NDArray[np.int64]
Probabilities = NDArray[np.float64]
PublicBatches = Callable[[int], tuple[tuple[Tensor, ...], Tensor]]  # so many public rows and their labels


class CoTraining(AnyModel):
    """Sites agree on public rows U without labels (``site.public``, the same everywhere, nobody's own), say what they
    think of them in every ``period``-th round, and learn from the consensus beside their own rows. Without a ``period``
    it is halfway through and at the end: before they have learned something themselves, sites agree on one class for
    all rows and never get away from it. On validation rows this was better than every tenth of 40 and of 60 rounds.

    A site's model is its neural network, trained a little in every round, or, where it has none, its first model of any
    other kind, fitted anew in every round to own rows and pseudo-labelled public rows with weights.
    """

    def __init__(self, period: int | None = None, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        if period is not None and period < 1:
            raise ConfigError(f"period is {period}: expected at least 1 round between two messages.")
        self.period = period

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            if site.public is None or not len(site.public):
                raise DataError(
                    f"site {site.name!r} has no public rows: {self.called} needs rows without labels that all sites "
                    f"have. Set some aside, e.g. public=500 (--public 500)."
                )
        known = Counter(digest(public(site)) for site in sites)
        for site in sites:
            if (mine := digest(public(site))) != (most := known.most_common(1)[0][0]):
                raise DataError(
                    f"site {site.name!r} has other public rows (sha256 {mine[:12]}) than most ({most[:12]}): "
                    f"{self.called} needs the same everywhere. Give all sites the same file."
                )

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["public"] = digest(public(site))

    @property
    def every(self) -> int:
        """Rounds between two messages."""
        return max(1, self.rounds // 2) if self.period is None else self.period

    def shares_in(self, round: int) -> bool:
        return (round + 1) % self.every == 0

    def learn(self, site: Site, round: int, labels: Labels | None, weight: float, *, mixed: bool = False) -> None:
        """One round's training: mean loss on own rows + ``weight`` x that on public rows with these labels, -1 being
        none. ``mixed``: the mean over one batch of both instead, as large a part of it public as own."""
        site.state.pop("changed", None)  # of the round before
        known = np.flatnonzero(labels >= 0) if labels is not None else np.empty(0, dtype=np.int64)
        if labels is None or not len(known) or weight == 0:
            known, labels = known[:0], None
        if not self.is_net(site):
            extra = None
            if labels is not None:
                extra = (public(site)[known], labels[known], weight * len(site.train) / len(known))
            site.state["model"] = refitted(site, self.recipe(site), extra, site.seed_for("fit"))
            return
        net = self.net(site)
        batches = None if labels is None else _public_batches(site, known, labels[known], round)
        self.fit_with(site, net, round, batches, weight, mixed)
        site.state["net"] = net_weights(net)

    def fit_with(
        self, site: Site, net: Net, round: int, batches: PublicBatches | None, weight: float, mixed: bool
    ) -> None:
        """`fit` with public batches beside the own ones, if there are any."""
        if batches is None:
            self.fit(site, net, round)
        else:
            self.fit(site, net, round, loss=_mixed_loss(batches) if mixed else _sum_loss(batches, weight))

    def losses(self, site: Site, X: Inputs, y: NDArray[Any]) -> NDArray[np.float64]:
        """Cross entropy of each row."""
        chosen = self.predict_proba(site, X)[np.arange(len(y)), y]
        return np.asarray(-np.log(np.maximum(chosen, 1e-12)))

    def adopt(self, site: Site, labels: Labels) -> None:
        """Take the consensus over for the rounds to come, and note how much of it is new."""
        before: Labels | None = site.state.get("consensus")
        site.state["changed"] = 1.0 if before is None else float(np.mean(labels != before))
        site.state["consensus"] = labels

    @abstractmethod
    def read_opinion(self, parcel: Parcel, rows: int, classes: int) -> dict[str, Any]:
        """What a parcel says of these public rows."""

    def read_parcel(self, parcel: Parcel, memory: Memory) -> Parcel:
        rows, classes = int(parcel["rows"]), int(parcel["classes"])
        opinion = self.read_opinion(parcel, rows, classes)
        return Parcel(**opinion, public=str(parcel["public"]), rows=rows, classes=classes)

    def must_agree(self, parcel: Parcel) -> Mapping[str, Hashable]:
        return topic(parcel)

    def curves(self, site: Site) -> dict[str, float]:
        return {"changed pseudo-labels": site.state["changed"]} if "changed" in site.state else {}

    def about(self, site: Site) -> dict[str, Any]:
        """Which public rows and classes a message is about, so that only those of the same are combined."""
        return {"public": site.state["public"], "rows": len(public(site)), "classes": len(site.classes)}


def public(site: Site) -> Inputs:
    assert site.public is not None, "check_sites comes first"
    return site.public


def topic(parcel: Parcel) -> dict[str, Any]:
    """Which public rows a parcel is about, and how many classes."""
    return {name: parcel[name] for name in ("public", "rows", "classes")}


def check_topic(site: Site, told: Parcel) -> None:
    if told["public"] != site.state["public"]:
        raise DataError(
            f"the consensus is about public rows {told['public'][:12]}, site {site.name!r} has "
            f"{site.state['public'][:12]}: expected the same. Fetch the public rows that the others have."
        )


def _public_batches(site: Site, known: Labels, labels: Labels, round: int) -> PublicBatches:
    """Random public rows with their labels, as many as asked for and there are, without a hand in the net's chance."""
    inputs = tensors(public(site)[known], site.device)
    said = torch.tensor(labels, dtype=torch.int64, device=site.device)
    rng = site.rng(f"public {round}")
    order: list[int] = []

    def draw(own: int) -> tuple[tuple[Tensor, ...], Tensor]:
        nonlocal order
        if len(order) < min(own, len(said)):
            order = rng.permutation(len(said)).tolist()
        picked = torch.as_tensor(order[:own])
        order = order[own:]
        return tuple(tensor[picked] for tensor in inputs), said[picked]

    return draw


def _sum_loss(batches: PublicBatches, weight: float) -> Loss:
    def loss(net: nn.Module, batch: Batch) -> Tensor:
        inputs, said = batches(len(batch[-1]))
        own = nn.functional.cross_entropy(net(*batch[:-1]), batch[-1])
        return own + weight * nn.functional.cross_entropy(net(*inputs), said)

    return loss


def _mixed_loss(batches: PublicBatches) -> Loss:
    def loss(net: nn.Module, batch: Batch) -> Tensor:
        inputs, said = batches(len(batch[-1]))
        both = [torch.cat(pair) for pair in zip(batch[:-1], inputs, strict=True)]
        return nn.functional.cross_entropy(net(*both), torch.cat([batch[-1], said]))

    return loss
