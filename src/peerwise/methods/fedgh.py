"""FedGH: one head for all, learned at the hub from class means."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.federation.cleaning import shapes
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import Weights, alike, mean, replaced
from peerwise.methods.by_rounds import Budget, ByRounds, train_tensors
from peerwise.methods.embeddings import Labels, SentMeans, checked_width, class_means, read_means, sent_means
from peerwise.models.nets import net_parameters, net_weights
from peerwise.models.sgd import SGD
from peerwise.models.training import train
from peerwise.parcels import Parcel


class FedGH(ByRounds):
    """Federated generalized header (Yi et al., ACM Multimedia 2023).

    The gradient-harmonized FedGH of the FedSOV paper's table 11 is another method of the same name, which is not here.

    Sites: CE, then m_c = mean of h(x) over own rows of class c. Hub: head <- head - server_lr grad CE(head(m_c), c),
    one pass over all pairs (m_c, c) of all sites. Backbones are private, the hub's head replaces the sites'.

    Sent: m_c and c for the classes that the site has; until a site has received the hub's head, also the head all sites
    start from, because the hub has no other. Received: the head. Departs from the paper: none known.
    """

    needs_same_features = False

    def __init__(self, server_lr: float = 0.01, embedding: int = 128, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        if not server_lr > 0:
            raise ConfigError(f"server_lr is {server_lr}: expected a learning rate above 0.")
        self.server_lr = server_lr
        self.embedding = checked_width(embedding)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state["first_head"] = {name: site.state["net"][name] for name in ("head.weight", "head.bias")}

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        self.fit(site, net, round)
        site.state["net"] = net_weights(net)
        return self.sent(site, *class_means(net, train_tensors(site), len(site.classes)))

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        trained = self.fit_stacked(sites, round)
        for site, weights in zip(sites, trained, strict=True):
            site.state["net"] = weights
        means = self.class_means_stacked(sites, trained)
        return [self.sent(site, *found) for site, found in zip(sites, means, strict=True)]

    def sent(self, site: Site, means: NDArray[np.float32], labels: Labels) -> Parcel:
        first = {"head": site.state["first_head"]} if "first_head" in site.state else {}
        return Parcel(means=means, labels=labels, **first)

    def read_parcel(self, parcel: Parcel, memory: Memory) -> Parcel:
        """The means; and before the hub has a head, the one that the site started from."""
        head = memory["head"] if memory else parcel["head"]
        classes, width = head["head.weight"].shape
        means = read_means(parcel, width, classes)
        return means if memory else Parcel(**means, head=head)

    def must_agree(self, parcel: Parcel) -> Mapping[str, Hashable]:
        return shapes(parcel["head"]) if "head" in parcel else {}

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        head = memory["head"] if memory else mean(inbox, "head", alike)
        head = trained_head(head, sent_means(inbox), self.server_lr, self.batch_size, int(rng.integers(2**31)))
        return Parcel(head=head), {"head": head}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        site.state["net"] = replaced(site.state["net"], inbox["head"])
        site.state.pop("first_head", None)


def trained_head(head: dict[str, Any], sent: SentMeans, lr: float, batch_size: int, seed: int) -> Weights:
    """``head`` after one pass of SGD over the class means, in an order drawn by ``seed``."""
    classes, width = head["head.weight"].shape
    net = nn.ModuleDict({"head": nn.Linear(width, classes)})
    net.load_state_dict({name: torch.tensor(value) for name, value in head.items()})
    pairs = (torch.from_numpy(sent.means), torch.from_numpy(sent.labels))
    optimizer = SGD(net.parameters(), lr)
    train(net["head"], pairs, optimizer=optimizer, epochs=1, batch_size=batch_size, patience=None, seed=seed)
    return net_parameters(net)
