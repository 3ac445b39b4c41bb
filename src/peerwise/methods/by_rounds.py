"""ByRounds: what all methods share that train one net a site, a little in every round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.data import Inputs, Site, concatenate
from peerwise.errors import ConfigError, DataError, choices
from peerwise.federation.method import Method
from peerwise.methods.embeddings import ClassMeans, means_by_class
from peerwise.methods.net_recipe import net_recipe
from peerwise.methods.steps import in_order, pulled_step
from peerwise.models.adam import Adam
from peerwise.models.fitted import tensors
from peerwise.models.nets import (
    Net,
    Weights,
    blank_net,
    first_weights,
    known_features,
    loaded_net,
    net_probabilities,
    new_net,
)
from peerwise.models.outputs import softmax
from peerwise.models.sgd import SGD
from peerwise.models.stacked import (
    Job,
    Perceptron,
    Pull,
    RowLoss,
    embedded_stacked,
    logits_stacked,
    perceptron,
    train_stacked,
)
from peerwise.models.training import Batch, Loss, Optimizer, Training, row_chances, train
from peerwise.parcels import Parcel

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
    largest_number: float | None = 1e6  # no weight, embedding or logit of a net that still learns is larger
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

    def is_net(self, site: Site) -> bool:
        """Whether the site's model is a net, trained by gradients."""
        return True

    def start(self, site: Site, rng: np.random.Generator) -> None:
        shape = (self.recipe(site), self.scaled_by(site), site.features, len(site.classes))
        site.state["net"] = first_weights(*shape, embedding=self.embedding, seed=int(rng.integers(2**31)))

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

    def blank(self, site: Site) -> Net:
        """The site's net with weights of no meaning, the same object for all sites with this architecture."""
        return blank_net(self.recipe(site), site.train.X, site.features, len(site.classes), embedding=self.embedding)

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
        pull: Pull | None = None,
        update: Callable[[Batch], float] | None = None,
        optimizer: Optimizer | None = None,
        poisson: bool | np.random.Generator = False,
        purpose: str = "train",
    ) -> Training:
        """One round's training of ``net`` on the site's train rows; the last tensor of a batch is its labels.
        Where ``site.class_balance`` is "balanced", each class is drawn equally often."""
        optimizer = optimizer or self.new_optimizer(net.parameters())
        if pull is not None:
            towards, push = (None if arrays is None else in_order(net, arrays) for arrays in (pull.towards, pull.push))
            update = pulled_step(net, optimizer, towards=towards, strength=pull.strength, push=push)
        return train(
            net,
            train_tensors(site),
            loss=loss,
            extra_loss=extra_loss,
            update=update,
            optimizer=optimizer,
            epochs=self.local_epochs,
            batch_size=self.batch_size,
            patience=None,
            poisson=poisson,
            chances=self.chances(site) if poisson is False else None,
            seed=site.seed_for(f"{purpose} {round}"),
        )

    def chances(self, site: Site) -> torch.Tensor | None:
        """By which train rows are drawn, where not each is drawn once an epoch."""
        return row_chances(site.train.y) if site.class_balance == "balanced" else None

    def alone(self) -> Method:
        from peerwise.methods.local_rounds import LocalRounds

        rounds = getattr(self, "budget_rounds", self.rounds)
        return LocalRounds(
            rounds=rounds,
            local_epochs=self.local_epochs,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            lr=self.lr,
        )

    def answering(self, site: Site) -> Weights:
        """The weights that answer."""
        return site.state["net"]  # type: ignore[no-any-return]

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return net_probabilities(self.net_with(site, self.answering(site)), tensors(X, site.device))

    # ---- many sites in one call --------------------------------------------------------------------------------------

    def trains_together(self, sites: Sequence[Site]) -> list[bool]:
        stacked = {place for places in self._stacks(sites) for place in places}
        return [place in stacked for place in range(len(sites))]

    def share_together(self, sites: Sequence[Site], round: int) -> list[Parcel | None]:
        found: list[Parcel | None] = [None] * len(sites)
        for places in self._stacks(sites):
            parcels = self.share_stacked([sites[place] for place in places], round)
            for place, parcel in zip(places, parcels, strict=True):
                found[place] = parcel
        return found

    def _stacks(self, sites: Sequence[Site]) -> list[list[int]]:
        """The places of sites that can be trained together: their nets are perceptrons of one architecture, the method
        says how in ``share_stacked``, and no subclass has gone on to change how one site is trained."""
        alone = ("share", "learn", "fit", "net", "net_with", "new_optimizer", "chances")
        if self.optimizer != "sgd" or self.changed_since("share_stacked", alone):
            return []
        return self._alike(sites)

    def share_stacked(self, sites: Sequence[Site], round: int) -> list[Parcel]:
        """`share` of sites whose nets are perceptrons of one architecture, by `fit_stacked` instead of `fit`."""
        raise NotImplementedError

    def fit_stacked(
        self,
        sites: Sequence[Site],
        round: int,
        *,
        key: str = "net",
        pulls: Sequence[Pull | None] | None = None,
        rows: Sequence[tuple[torch.Tensor, ...]] | None = None,
        row_loss: RowLoss | None = None,
    ) -> list[Weights]:
        """What `fit` makes of the nets with the weights ``site.state[key]``. ``row_loss`` adds to each row's loss; it
        takes the embeddings and what ``rows`` has for each site, see `train_stacked`."""
        jobs = []
        for place, site in enumerate(sites):
            job = Job(
                site.state[key],
                np.asarray(site.train.X),
                site.train.y,
                site.seed_for(f"train {round}"),
                chances=self.chances(site),
                pull=pulls[place] if pulls else None,
                rows=rows[place] if rows else (),
            )
            jobs.append(job)
        budget = {"epochs": self.local_epochs, "batch_size": self.batch_size}
        return train_stacked(self._perceptron(sites[0]), jobs, lr=self.lr, row_loss=row_loss, **budget)

    def embedded_stacked(self, sites: Sequence[Site], weights: Sequence[Weights]) -> list[torch.Tensor]:
        """The embeddings of each site's train rows by nets with these weights, in evaluation mode."""
        return embedded_stacked(self._perceptron(sites[0]), weights, [np.asarray(site.train.X) for site in sites])

    def predict_proba_together(self, sites: Sequence[Site], inputs: Sequence[Inputs]) -> list[NDArray[np.float64]]:
        """`predict_proba` at each site for its inputs: in one pass for all whose answers come from the same arrays, and
        for all with perceptrons of one architecture."""
        if self.changed_since("predict_proba_together", ("predict_proba", "net", "net_with")):
            return [self.predict_proba(site, X) for site, X in zip(sites, inputs, strict=True)]
        found: list[NDArray[np.float64]] = [np.empty(0)] * len(sites)
        weights = [self.answering(site) for site in sites]
        for places in self._alike(sites):
            asked = [np.asarray(inputs[place]) for place in places]
            logits = logits_stacked(self._perceptron(sites[places[0]]), [weights[place] for place in places], asked)
            _scatter(found, places, softmax(logits), [len(each) for each in asked])
        others: dict[tuple[int, ...], list[int]] = {}
        for place, site in enumerate(sites):
            if found[place].ndim != 2:
                same = (id(self.blank(site)), *map(id, weights[place].values()))
                others.setdefault(same, []).append(place)
        for places in others.values():
            site, asked_rows = sites[places[0]], [inputs[place] for place in places]
            net = self.net_with(site, weights[places[0]])
            probabilities = net_probabilities(net, tensors(concatenate(asked_rows), site.device))
            _scatter(found, places, probabilities, [len(each) for each in asked_rows])
        return found

    def _alike(self, sites: Sequence[Site]) -> list[list[int]]:
        """The places of sites whose nets are perceptrons of one architecture."""
        found: dict[Any, list[int]] = {}
        groups: dict[Any, list[int]] = {}  # by what is quick to look at, and decides the architecture
        for place, site in enumerate(sites):
            data, context = site.data, site.context
            X: Any = data.train.X
            if data.kind != "sequence":
                shape, dtype, features = X.shape[1:], X.dtype, known_features(data.features)
                key = (context.recipes, shape, dtype, features, len(data.classes), context.device)
                if key not in groups:
                    one = site.device == "cpu" and self.is_net(site) and perceptron(self.blank(site)) is not None
                    groups[key] = found.setdefault((self.recipe(site), *key[1:]), []) if one else []
                groups[key].append(place)
        return list(found.values())

    def class_means_stacked(self, sites: Sequence[Site], weights: Sequence[Weights]) -> list[ClassMeans]:
        """`class_means` of the train rows at each site, by nets with these weights."""
        embedded = self.embedded_stacked(sites, weights)
        return [
            means_by_class(rows, torch.as_tensor(site.train.y), len(site.classes))
            for site, rows in zip(sites, embedded, strict=True)
        ]

    def _perceptron(self, site: Site) -> Perceptron:
        found = perceptron(self.blank(site))
        assert found is not None
        return found

    def changed_since(self, together: str, alone: Sequence[str]) -> bool:
        """Whether a class below the one that defines ``together`` defines one of ``alone``, or nobody defines it."""
        owner = next((kind for kind in type(self).__mro__ if together in vars(kind)), ByRounds)
        if owner is ByRounds and together == "share_stacked":
            return True
        return any(getattr(type(self), name, None) is not getattr(owner, name, None) for name in alone)


def _scatter(
    found: list[NDArray[np.float64]], places: Sequence[int], rows: NDArray[np.float64], counts: Sequence[int]
) -> None:
    """Each place's part of the rows, which lie one below the other."""
    start = 0
    for place, count in zip(places, counts, strict=True):
        found[place] = rows[start : start + count]
        start += count


def train_tensors(site: Site) -> Batch:
    """Inputs and labels of the train rows."""
    labels = torch.as_tensor(site.train.y, dtype=torch.int64).to(site.device)
    return (*tensors(site.train.X, site.device), labels)
