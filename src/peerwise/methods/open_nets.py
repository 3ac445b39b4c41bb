"""Which open-set nets a method that builds on them trains: whole ones, as FedOV or FedSOV do."""

from __future__ import annotations

from typing import Any, Literal, get_args

from peerwise.errors import ConfigError, choices
from peerwise.methods.fedov import FedOV
from peerwise.methods.fedsov import FedSOV
from peerwise.methods.open_voting import OpenVoting
from peerwise.models.open_set.learning import OpenPlan

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
