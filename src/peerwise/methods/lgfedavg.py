"""LG-FedAvg: private backbones under one averaged head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from peerwise.data import Site
from peerwise.methods.by_rounds import Budget
from peerwise.methods.embeddings import checked_width
from peerwise.methods.fedavg import FedAvg


class LGFedAvg(FedAvg):
    """Local representations, global head (Liang et al., 2020).

    head <- sum_i (n_i / n) head_i        n_i: train rows of site i, n: of all that took part

    Sent and received: the head alone. Departs from the paper: backbones of any width meet in an embedding of common
    width, so the head is one linear layer.
    """

    needs_same_nets = False
    needs_same_features = False

    def __init__(self, embedding: int = 128, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.embedding = checked_width(embedding)

    def travelling(self, site: Site) -> Sequence[str]:
        return [name for name in super().travelling(site) if name.startswith("head.")]
