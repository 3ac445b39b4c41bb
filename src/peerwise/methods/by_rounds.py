"""ByRounds: what all methods share that train one net a site, a little in every round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.errors import ConfigError, DataError, choices
from peerwise.methods.base import Method
from peerwise.methods.net_recipe import net_recipe
from peerwise.models.adam import Adam
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, Weights, loaded_net, net_probabilities, net_weights, new_net
from peerwise.models.sgd import SGD
from peerwise.models.training import Batch, Loss, Optimizer, Training, row_chances, train

Parameters = Any  # an iterable of torch parameters
OPTIMIZERS: dict[str, Callable[[Parameters, float], Optimizer]] = {"sgd": SGD, "adam": Adam}


class Budget(TypedDict, total=False):
    """What a site may spend, the same for every method that is compared."""

    rounds: int
    local_epochs: int
    batch_size: int
    optimizer: Literal["sgd", "adam"]
    lr: float


BUDGET: Budget = {"rounds": 100, "local_epochs": 1, "batch_size": 32, "optimizer": "sgd", "lr": 0.01}


class ByRounds(Method):
    """A site's net is the first of its models that is a neural network; its weights live in ``site.state["net"]``.

    In every round a site goes ``local_epochs`` times over its train rows, with a fresh ``optimizer`` and cross entropy.
    Sites with the same architecture start from the same weights. Parameters alone travel: BatchNorm's running
    statistics and a table's scaling stay at home.
    """

    needs_nets = True
    needs_same_nets: bool = False  # True where weights are averaged: all sites must have the same architecture
    embedding: int | None = None  # the common width of embeddings, where sites must share heads or prototypes

    def __init__(self, **budget: Unpack[Budget]) -> None:
        for key in budget:
            if key not in BUDGET:
                raise TypeError(choices(key, BUDGET, "parameter"))
        chosen: Budget = {**BUDGET, **budget}
        for name in ("rounds", "local_epochs", "batch_size"):
            if chosen[name] < 1:
                raise ConfigError(f"{name} is {chosen[name]}: expected at least 1.")
        if not chosen["lr"] > 0:
            raise ConfigError(f"lr is {chosen['lr']}: expected a learning rate above 0.")
        if chosen["optimizer"] not in OPTIMIZERS:
            raise ConfigError(f"optimizer: {choices(chosen['optimizer'], OPTIMIZERS, 'optimizer')}")
        self.rounds = chosen["rounds"]
        self.local_epochs = chosen["local_epochs"]
        self.batch_size = chosen["batch_size"]
        self.optimizer = chosen["optimizer"]
        self.lr = chosen["lr"]

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        nets = {site.name: self.recipe(site) for site in sites}
        first = sites[0]
        for site in sites[1:]:
            if self.needs_same_nets and nets[site.name] != nets[first.name]:
                raise DataError(
                    f"site {first.name!r} has a {nets[first.name]}, site {site.name!r} a {nets[site.name]}: "
                    f"{self.called} averages weights and needs the same architecture everywhere. Give all sites one "
                    f"model (models={nets[first.name]!r}), or use a method for different nets, such as fml, fedproto "
                    f"or fedmosaic."
                )

    def recipe(self, site: Site) -> str:
        """The name of the site's net."""
        return net_recipe(site, self.called)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        site.state["net"] = net_weights(self.new_net(site, rng))

    def new_net(self, site: Site, rng: np.random.Generator, recipe: str | None = None) -> Net:
        """A net for this site's rows, by default its own kind; the same chance gives the same weights at every site."""
        shape = (recipe or self.recipe(site), self.scaled_by(site), site.features, len(site.classes))
        return new_net(*shape, embedding=self.embedding, seed=int(rng.integers(2**31)))

    def scaled_by(self, site: Site) -> Inputs:
        """The rows from which a net has the scaling of its inputs."""
        return site.train.X

    def net(self, site: Site, key: str = "net", recipe: str | None = None) -> Net:
        """The net whose weights are ``site.state[key]``."""
        return self.net_with(site, site.state[key], recipe)

    def net_with(self, site: Site, weights: Weights, recipe: str | None = None) -> Net:
        shape = (recipe or self.recipe(site), site.train.X, site.features, len(site.classes))
        return loaded_net(*shape, weights, embedding=self.embedding, device=site.device)

    def new_optimizer(self, parameters: Parameters) -> Optimizer:
        return OPTIMIZERS[self.optimizer](parameters, self.lr)

    def fit(
        self,
        site: Site,
        net: torch.nn.Module,
        round: int,
        *,
        loss: Loss | None = None,
        extra_loss: Loss | None = None,
        update: Callable[[Batch], float] | None = None,
        optimizer: Optimizer | None = None,
        poisson: bool | np.random.Generator = False,
        purpose: str = "train",
    ) -> Training:
        """One round's training of ``net`` on the site's train rows; the last tensor of a batch is its labels. Of
        sequences, where the outcome is rare, each class is drawn equally often, as a pool's models weigh them."""
        return train(
            net,
            train_tensors(site),
            loss=loss,
            extra_loss=extra_loss,
            update=update,
            optimizer=optimizer or self.new_optimizer(net.parameters()),
            epochs=self.local_epochs,
            batch_size=self.batch_size,
            patience=None,
            poisson=poisson,
            chances=row_chances(site.train.y) if site.rare_outcomes and poisson is False else None,
            seed=site.seed_for(f"{purpose} {round}"),
        )

    def alone(self) -> Method:
        from peerwise.methods.local_by_rounds import LocalByRounds

        rounds = getattr(self, "budget_rounds", self.rounds)
        return LocalByRounds(
            rounds=rounds,
            local_epochs=self.local_epochs,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            lr=self.lr,
        )

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return net_probabilities(self.net(site), tensors(X, site.device))


def train_tensors(site: Site) -> Batch:
    """Inputs and labels of the train rows."""
    labels = torch.as_tensor(site.train.y, dtype=torch.int64).to(site.device)
    return (*tensors(site.train.X, site.device), labels)
