"""FedTGP: prototypes that the hub learns, to be far apart."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.errors import ConfigError
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.embeddings import Labels, SentMeans, sent_means
from peerwise.methods.fedproto import FedProto
from peerwise.models.nets import net_weights
from peerwise.models.sgd import SGD
from peerwise.models.training import Batch, Loss, train
from peerwise.parcels import Parcel


class FedTGP(FedProto):
    """Trainable global prototypes (Zhang et al., AAAI 2024).

    Sites: as `FedProto`. The hub learns P = linear(ReLU(linear(v))), v a vector for each class, by SGD on

    mean over class means m sent, of class c, of -log softmax_c( -||m - P_k|| - margin [k = c] )
    margin = min(max_c gap_c, threshold)        gap_c: from the mean of class c's means to that of the nearest class

    Sent and received: as in `FedProto`. The hub remembers its net. ``lam`` is the paper's, published scripts use 10;
    the gap to the nearest class is the published code's.
    Departs from the paper: a class that nobody ever had has no prototype and repels nothing.
    """

    def __init__(
        self,
        lam: float = 0.1,
        server_epochs: int = 100,
        threshold: float = 100.0,
        embedding: int = 128,
        **budget: Unpack[Budget],
    ) -> None:
        super().__init__(lam, embedding, **budget)
        if server_epochs < 1:
            raise ConfigError(f"server_epochs is {server_epochs}: expected at least 1.")
        if not threshold >= 0:
            raise ConfigError(f"threshold is {threshold}: expected the largest margin, at least 0.")
        self.server_epochs = server_epochs
        self.threshold = threshold

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        sent = sent_means(inbox)
        labels = np.union1d(memory.get("labels", []), sent.labels).astype(np.int64)
        net = _generator(memory, labels, sent.means.shape[1], rng)
        pairs = (torch.from_numpy(sent.means), torch.from_numpy(np.searchsorted(labels, sent.labels)))
        train(
            net,
            pairs,
            loss=margin_loss(adaptive_margin(sent, self.threshold)),
            optimizer=SGD(net.parameters(), self.lr),
            epochs=self.server_epochs,
            batch_size=self.batch_size,
            patience=None,
            seed=int(rng.integers(2**31)),
        )
        with torch.no_grad():
            prototypes = net().numpy()
        return Parcel(prototypes=prototypes, labels=labels), {"labels": labels, "net": net_weights(net)}


class Generator(nn.Module):
    """Prototypes (classes, width) from one trainable vector a class."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        super().__init__()
        width = vectors.shape[1]
        self.vectors = nn.Parameter(torch.from_numpy(vectors))
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self) -> Tensor:
        prototypes: Tensor = self.layers(self.vectors)
        return prototypes


def adaptive_margin(sent: SentMeans, threshold: float) -> float:
    """The largest distance from a class to its nearest other class, at most ``threshold``; 0 for one class alone."""
    centres, labels = sent.by_class()
    if len(labels) < 2:
        return 0.0
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    return float(min(apart.min(axis=1).max(), threshold))


def margin_loss(margin: float) -> Loss:
    """Cross entropy of -distance to every prototype, that to the own class made longer by ``margin``."""

    def loss(net: nn.Module, batch: Batch) -> Tensor:
        means, places = batch
        distances = torch.cdist(means, net(), compute_mode="donot_use_mm_for_euclid_dist")
        own = nn.functional.one_hot(places, distances.shape[1]).to(distances.dtype)
        return nn.functional.cross_entropy(-(distances + margin * own), places)

    return loss


def _generator(memory: dict[str, Any], labels: Labels, width: int, rng: np.random.Generator) -> Generator:
    """The hub's net as it was left, with a fresh vector for each class that is new."""
    vectors = rng.standard_normal((len(labels), width)).astype(np.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))
        net = Generator(vectors)
    if memory:
        vectors[np.searchsorted(labels, memory["labels"])] = memory["net"]["vectors"]
        learned = {**memory["net"], "vectors": vectors}
        net.load_state_dict({name: torch.tensor(value) for name, value in learned.items()})
    return net
