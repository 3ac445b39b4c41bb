"""FedBN: FedAvg that leaves normalisation to each site."""

from __future__ import annotations

from collections.abc import Sequence

from peerwise.data import Site
from peerwise.methods.fedavg import FedAvg
from peerwise.models.nets import batch_norm_names


class FedBN(FedAvg):
    """Federated learning with local batch normalisation (Li et al., ICLR 2021).

    w <- sum_i (n_i / n) w_i for every parameter that is not of a BatchNorm layer; those stay at their site

    Sent and received: the other parameters. Layers are found by their type, not by their name, so a net that calls them
    otherwise does not turn into FedAvg unnoticed; a net without BatchNorm is FedAvg. Departs from the paper: none.
    """

    def travelling(self, site: Site) -> Sequence[str]:
        own = batch_norm_names(self.blank(site))
        return [name for name in super().travelling(site) if name not in own]
