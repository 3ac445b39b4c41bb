"""Which open-set nets a method that builds on them trains: whole ones, as FedOV or FedSOV do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from peerwise.data import Site
from peerwise.errors import ConfigError, choices
from peerwise.methods.fedov import FedOV
from peerwise.methods.fedsov import FedSOV
from peerwise.methods.open_voting import OpenVoting
from peerwise.models.nets import Net, loaded_net, net_weights, new_net
from peerwise.models.open_set.learning import OpenPlan
from peerwise.parcels.sparse import dense_weights

Nets = Literal["fedov", "fedsov"]


class OnOpenNets(OpenVoting):
    """An open vote over ``nets`` without pruning, the same nets as those of `FedOV`, or of `FedSOV` with
    compress="none", with the same settings: whoever runs both trains them once."""

    def __init__(
        self, nets: Nets, local_epochs: int, batch_size: int, lr: float, weight_decay: float, top: int
    ) -> None:
        super().__init__(local_epochs, batch_size, lr, weight_decay, top)
        if nets not in get_args(Nets):
            raise ConfigError(f"nets: {choices(nets, get_args(Nets), 'open-set net')}")
        self.nets: Nets = nets

    def plan(self) -> OpenPlan:
        common: dict[str, Any] = {
            "local_epochs": self.local_epochs,
            "batch_size": self.batch_size,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
        }
        return FedOV(**common).plan() if self.nets == "fedov" else FedSOV(**common, compress="none").plan()


def built_net(sent: Mapping[str, Any], site: Site, outputs: int) -> Net:
    """The net of a recipe and weights as they are sent, for rows like this site's; weights that do not fit it are
    refused."""
    recipe = sent["recipe"]
    like = net_weights(new_net(recipe, site.train.X[:1], site.features, outputs, seed=0))
    weights = dense_weights(sent["weights"], like)
    return loaded_net(recipe, site.train.X, site.features, outputs, weights, device=site.device)
