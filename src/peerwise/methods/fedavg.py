"""FedAvg: everybody's weights, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.methods.averaging import mean, note_left_out, replaced, told
from peerwise.methods.base import Inbox, Memory
from peerwise.methods.by_rounds import ByRounds
from peerwise.models.nets import Net, net_parameters, net_weights
from peerwise.parcels import Parcel


class FedAvg(ByRounds):
    """Federated averaging (McMahan et al., AISTATS 2017).

    w <- sum_i (n_i / n) w_i        n_i: train rows of site i, n: of all that took part

    Each round starts from w at every site. Sent and heard: the parameters. Departs from the paper: the running
    statistics of BatchNorm stay local, as in the published comparisons.
    """

    needs_same_nets = True

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        self.learn(site, net, round)
        site.state["net"] = net_weights(net)
        return Parcel(weights=self.shared(net), rows=len(site.train))

    def learn(self, site: Site, net: Net, round: int) -> None:
        """This round's training, from the common weights."""
        self.fit(site, net, round)

    def shared(self, net: Net) -> dict[str, Any]:
        """The parameters that travel."""
        return net_parameters(net)

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        weights, left_out = mean(inbox)
        return told(left_out, weights=weights), memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        note_left_out(site, inbox)
        site.state["net"] = replaced(site.state["net"], inbox["weights"])
