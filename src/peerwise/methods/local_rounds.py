"""Local with the budget of the methods with rounds: the same net, optimiser and epochs, and nobody to talk to."""

from __future__ import annotations

from collections.abc import Sequence

from peerwise.data import Site
from peerwise.methods.any_model import AnyModel
from peerwise.models.nets import net_weights
from peerwise.parcels import Parcel


class LocalRounds(AnyModel):
    """Every site alone, its net trained for as many rounds as the others'; a model of another kind is fitted once,
    since there is nothing new to learn. Nothing is sent or received."""

    needs_same_features = False

    def share(self, site: Site, round: int) -> Parcel:
        if self.is_net(site):
            net = self.net(site)
            self.fit(site, net, round)
            site.state["net"] = net_weights(net)
        return Parcel()

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        for site, weights in zip(sites, self.fit_stacked(sites, round), strict=True):
            site.state["net"] = weights
        return [Parcel() for _ in sites]
