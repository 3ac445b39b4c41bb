"""FedAvg: everybody's weights, averaged."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.federation.cleaning import shapes
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.averaging import check_rows, mean, replaced
from peerwise.methods.by_rounds import ByRounds
from peerwise.models.nets import Net, Weights, net_weights, parameter_names
from peerwise.models.stacked import Pull
from peerwise.parcels import Parcel


class FedAvg(ByRounds):
    """Federated averaging (McMahan et al., AISTATS 2017).

    w <- sum_i (n_i / n) w_i        n_i: train rows of site i, n: of all that took part

    Each round starts from w at every site. Sent and received: the parameters. Departs from the paper: the running
    statistics of BatchNorm stay local, as in the published comparisons.
    """

    needs_same_nets = True
    travels = "weights"  # the item of a parcel that is averaged

    def share(self, site: Site, round: int) -> Parcel:
        net = self.net(site)
        self.learn(site, net, round)
        return self.trained(site, net_weights(net))

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        found = self.fit_stacked(sites, round, pulls=[self.pull(site) for site in sites])
        return [self.trained(site, weights) for site, weights in zip(sites, found, strict=True)]

    def learn(self, site: Site, net: Net, round: int) -> None:
        """This round's training, from the common weights."""
        self.fit(site, net, round, pull=self.pull(site))

    def pull(self, site: Site) -> Pull | None:
        """What each step adds to the gradient of the cross entropy."""
        return None

    def trained(self, site: Site, weights: Weights) -> Parcel:
        """Keep the weights after this round's training, and send those that travel."""
        site.state["net"] = weights
        return Parcel(weights={name: weights[name] for name in self.travelling(site)}, rows=len(site.train))

    def travelling(self, site: Site) -> Sequence[str]:
        """The names of the parameters that travel."""
        return parameter_names(self.blank(site))

    def read_parcel(self, parcel: Parcel, memory: Memory) -> Parcel:
        check_rows(parcel)
        return parcel

    def must_agree(self, parcel: Parcel) -> Mapping[str, Hashable]:
        return shapes(parcel[self.travels])

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        return Parcel(weights=mean(inbox)), memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        site.state["net"] = replaced(site.state["net"], inbox["weights"])

    def absorb_together(self, sites: Sequence[Site], round: int, parcel: Parcel) -> bool:
        """`absorb` at each site; those whose nets differ in what travels alone have one net from then on."""
        if self.changed_since("absorb_together", ("absorb",)):
            return False
        news = parcel["weights"]
        nets: dict[Any, Weights] = {}  # by what stays at home, which the nets hold, so that no other array gets its id
        for site in sites:
            before = site.state["net"]
            own = tuple([(name, array.shape if name in news else id(array)) for name, array in before.items()])
            if own not in nets:
                nets[own] = replaced(before, news)
            site.state["net"] = nets[own]
        return True
