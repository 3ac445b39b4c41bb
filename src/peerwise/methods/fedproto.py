"""FedProto: class means of embeddings travel, and attract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.data import Inputs, Site
from peerwise.errors import ConfigError, ParcelError
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.by_rounds import Budget, ByRounds, train_tensors
from peerwise.methods.embeddings import checked_width, class_means, nearest_probabilities, read_means, sent_means
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, in_parts, net_weights
from peerwise.models.training import Batch, Loss
from peerwise.parcels import Parcel


class FedProto(ByRounds):
    """Federated prototypes (Tan et al., AAAI 2022).

    loss = CE(f(x), y) + lam * mean over width of (h(x) - P_y)^2        P_c = mean over sites of local class means

    Prediction: the nearest P_c; p(c|x) = softmax of -||h(x) - P_c||^2. A class nobody has is unreachable, and its rows
    are pulled nowhere; a class whose sites are away keeps the P_c received last. Until one is received, the head
    answers. Sent: the mean embedding of each class that the site has, and which; received: P_c, and which. ``lam`` is
    the paper's; comparisons use 0.1 or 10. Local means count alike, as in the published code. Departs from the paper:
    local means are taken in a pass after training, not while the net still moves.
    """

    needs_same_features = False

    def __init__(self, lam: float = 1.0, embedding: int = 128, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        if not 0 <= lam < float("inf"):
            raise ConfigError(f"lam is {lam}: expected the weight of the pull, at least 0.")
        self.lam = lam
        self.embedding = checked_width(embedding)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["prototypes"] = np.full((len(site.classes), self.embedding or 0), np.nan, dtype=np.float32)

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        prototypes = torch.tensor(site.state["prototypes"], device=site.device)
        self.fit(site, net, round, loss=pulled_loss(prototypes, self.lam))
        site.state["net"] = net_weights(net)
        means, labels = class_means(net, train_tensors(site), len(site.classes))
        return Parcel(means=means, labels=labels)

    def read_parcel(self, parcel: Parcel, memory: Memory) -> Parcel:
        return read_means(parcel, self.embedding)

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        rows = [prototype_rows(torch.tensor(site.state["prototypes"]), site.train.y, self.lam) for site in sites]
        trained = self.fit_stacked(sites, round, rows=rows, row_loss=row_pull)
        for site, weights in zip(sites, trained, strict=True):
            site.state["net"] = weights
        return [Parcel(means=means, labels=labels) for means, labels in self.class_means_stacked(sites, trained)]

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        prototypes, labels = sent_means(inbox).by_class()
        return Parcel(prototypes=prototypes.astype(np.float32), labels=labels), memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        prototypes, here = inbox["prototypes"], site.state["prototypes"]
        if prototypes.shape[1:] != here.shape[1:]:
            raise ParcelError(
                f"prototypes of shape {prototypes.shape} were received: expected {here.shape[1]} numbers each."
            )
        known = inbox["labels"] < len(here)
        changed = here.copy()
        changed[inbox["labels"][known]] = prototypes[known]
        site.state["prototypes"] = changed

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        prototypes = site.state["prototypes"]
        if np.isnan(prototypes).any(axis=1).all():
            return super().predict_proba(site, X)
        net = self.net(site)
        embedded = in_parts(net, net.embed, tensors(X, site.device)).cpu().numpy()
        return nearest_probabilities(embedded, prototypes)

    def predict_proba_together(self, sites: Sequence[Site], inputs: Sequence[Inputs]) -> list[NDArray[np.float64]]:
        return [self.predict_proba(site, X) for site, X in zip(sites, inputs, strict=True)]


def pulled_loss(prototypes: Tensor, lam: float) -> Loss:
    """Cross entropy and the pull to the row's prototype in ``prototypes`` (classes, width); NaN: none is known."""
    places, pull = pulling(prototypes, lam)

    def loss(net: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(net, Net)
        embedded, y = net.embed(*batch[:-1]), batch[-1]
        logits: Tensor = net.head(embedded)
        return nn.functional.cross_entropy(logits, y) + row_pull(embedded, places[y], pull[y]).mean()

    return loss


def pulling(prototypes: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Where each class is pulled, and how strongly: not at all where no prototype is known."""
    known = ~torch.isnan(prototypes).any(dim=1)
    places = torch.where(known.unsqueeze(1), prototypes, 0.0)
    return places, lam * known.to(places.dtype)


def prototype_rows(prototypes: Tensor, y: NDArray[np.int64], lam: float) -> tuple[Tensor, Tensor]:
    """`pulling` for each row."""
    labels = torch.as_tensor(y)
    places, pull = pulling(prototypes, lam)
    return places[labels], pull[labels]


def row_pull(embedded: Tensor, places: Tensor, pull: Tensor) -> Tensor:
    return pull * (embedded - places).square().mean(dim=1)
