"""OpenVoting: what FedOV and FedSOV share. Nets that may say "unknown" are sent once, and those that know vote."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.data import Inputs, Site, digest
from peerwise.errors import BadOutputs, ClassMismatch, ConfigError, ParcelError
from peerwise.federation.cleaning import PEERS_LEFT_OUT, full_name
from peerwise.federation.method import Inbox, Method
from peerwise.methods.by_rounds import train_tensors
from peerwise.methods.net_recipe import net_recipe
from peerwise.methods.pool_models import at_its_cost
from peerwise.methods.steps import within
from peerwise.models import find_recipe
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, Weights, in_parts, loaded_net, net_probabilities, net_weights, new_net
from peerwise.models.open_set.learning import LAST, OpenPlan, learn_open
from peerwise.models.open_set.losses import Attack
from peerwise.models.open_set.outliers import outliers_for
from peerwise.parcels import Parcel
from peerwise.parcels.sparse import dense_weights, sparse_weights
from peerwise.trust.open_vote import OpenVote, open_vote, vote_curve

TRIED = 256  # own rows on which a peer's net must answer with finite numbers


class OpenVoting(Method):
    """share: an open-set net, the first of the site's models that is a neural network, with one more output; absorb:
    keep the peers' nets that can be used here; predict: the ``top`` models that least say "unknown" vote.

    f_i: rows -> C + 1 probabilities, the last of them u_i, "unknown"
    p(c | x) ~ sum over the ``top`` models of smallest u_i(x) of f_ic(x)

    Sent: the recipe's name, the classes and the weights, without those left out. A peer whose parcel cannot be used, or
    whose net fails on this site's train rows, is left out (``site.state[PEERS_LEFT_OUT]`` has the reasons). A site with
    one class is normal: its net tells that class from outliers made of it.
    """

    needs_nets = True

    def __init__(self, local_epochs: int, batch_size: int, lr: float, weight_decay: float, top: int) -> None:
        for name, value in (("local_epochs", local_epochs), ("batch_size", batch_size), ("top", top)):
            if value < 1:
                raise ConfigError(f"{name} is {value}: expected at least 1.")
        if not lr > 0:
            raise ConfigError(f"lr is {lr}: expected a learning rate above 0.")
        self.local_epochs = local_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = within("weight_decay", weight_decay, 0)
        self.top = top

    @abstractmethod
    def plan(self) -> OpenPlan:
        """How a net is trained."""

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            self.recipe(site)
            outliers_for(site.kind, site.train.X[:1], site.features)

    def recipe(self, site: Site) -> str:
        """The name of the site's net."""
        return net_recipe(site, self.called)

    def start(self, site: Site, rng: np.random.Generator) -> None:
        site.state["first"] = int(rng.integers(2**31))

    def share(self, site: Site, round: int) -> Parcel:
        found = site.keep(self._key(site), lambda: self._trained(site))
        site.state["own"] = {"recipe": found["recipe"], "weights": found["weights"]}
        site.state["seconds"] = {"train": found["seconds"]}
        return Parcel(**site.state["own"], classes=list(site.classes))

    def _trained(self, site: Site) -> dict[str, Any]:
        started = time.perf_counter()
        recipe, classes = self.recipe(site), len(site.classes) + 1
        net = new_net(recipe, site.train.X, site.features, classes, seed=site.state["first"]).to(site.device)
        outliers = outliers_for(site.kind, site.train.X, site.features)
        learn_open(net, train_tensors(site), self.plan(), outliers, site.seed_for("open-set net"))
        weights = sparse_weights(net_weights(net))
        return {"recipe": recipe, "weights": weights, "seconds": time.perf_counter() - started}

    def _key(self, site: Site) -> dict[str, Any]:
        """All that the net depends on, so that two votes with the same nets train them once."""
        return {
            "what": "open-set net",
            "recipe": self.recipe(site),
            "plan": {**asdict(self.plan()), "last rate": LAST},
            "train": digest(site.train.X, site.train.y),
            "classes": list(site.classes),
            "features": [[feature.name, *feature.categories] for feature in site.features],
            "seeds": [site.state["first"], site.seed_for("open-set net")],
        }

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        peers: dict[str, Any] = {}
        left_out: dict[str, str] = {}
        like = cache(partial(_like, site, len(site.classes) + 1))
        for sender in sorted(set(inbox) - {site.name}):
            with at_its_cost(full_name("*", sender), left_out):
                sent = _sent(inbox[sender], sender, site)
                _try(sent, sender, site, like(sent["recipe"]))
                peers[sender] = sent
        site.state["peers"] = peers
        if left_out:
            site.state[PEERS_LEFT_OUT] = left_out

    def open_outputs(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        """What every net says of these rows, (n, models, C + 1), "unknown" last; asked once and kept."""
        return np.stack([_asked(site, sent, X) for sent in _nets(site).values()], axis=1)

    def vote(self, site: Site, X: Inputs) -> OpenVote:
        return open_vote(self.open_outputs(site, X), self.top)

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return self.vote(site, X).probabilities

    def predict_with_details(self, site: Site, X: Inputs) -> tuple[NDArray[np.float64], dict[str, Any]]:
        outputs = self.open_outputs(site, X)
        vote = open_vote(outputs, self.top)
        return vote.probabilities, self.details_of(site, outputs, vote)

    def details_of(self, site: Site, outputs: NDArray[np.float64], vote: OpenVote) -> dict[str, Any]:
        """As those of `OneShot`, and ``unknown`` (n, models): how far each net does not know a row; ``by_k``: the
        answer if 1, 2, ... nets vote; ``known_classes``: the codes of the classes that the own net has seen. A row
        that every net says is unknown counts as a fallback: those who least say so answer it all the same."""
        nets = _nets(site)
        own = outputs[:, [name == site.name for name in nets]]
        return {
            "trust": vote.trust,
            "fallback": vote.nobody,
            "says": vote.says,
            "models": [full_name(sent["recipe"], name) for name, sent in nets.items()],
            **({"own": open_vote(own).probabilities} if own.shape[1] else {}),
            "unknown": vote.unknown.astype(np.float32),
            "by_k": vote_curve(outputs).astype(np.int16),
            "known_classes": [int(code) for code in np.unique(site.train.y)],
        }


def checked_attack(steps: int, size: float, radius: float) -> Attack | None:
    """How outliers are attacked; None for no steps."""
    checked = Attack(
        int(within("attack_steps", steps, 0)), within("attack_size", size, 0), within("attack_radius", radius, 0)
    )
    return checked if checked.steps else None


def _nets(site: Site) -> dict[str, Any]:
    """The own net, if the site has trained one, and the peers', by site, in the order of the sites' names."""
    nets = dict(site.state.get("peers", {}))
    if "own" in site.state:
        nets[site.name] = site.state["own"]
    return {name: nets[name] for name in sorted(nets)}


def _asked(site: Site, sent: Mapping[str, Any], X: Inputs) -> NDArray[np.float64]:
    weights = dense_weights(sent["weights"])

    def work() -> dict[str, Any]:
        probabilities = net_probabilities(_net(sent["recipe"], weights, site), tensors(X, site.device))
        # A row on which a net fails is one that it does not know.
        probabilities[~np.isfinite(probabilities).all(axis=1)] = np.eye(probabilities.shape[1])[-1]
        return {"probabilities": probabilities}

    key = {"what": "open outputs", "recipe": sent["recipe"], "rows": digest(X)}
    tree = site.keep({**key, "weights": [[name, digest(value)] for name, value in sorted(weights.items())]}, work)
    found: NDArray[np.float64] = tree["probabilities"]
    return found


def own_probabilities(site: Site, X: Inputs) -> NDArray[np.float64]:
    """What the own net alone answers."""
    return open_vote(_asked(site, site.state["own"], X)[:, None]).probabilities


def built_net(sent: Mapping[str, Any], site: Site, outputs: int) -> Net:
    """The net of a recipe and weights as they are sent, for rows like this site's; others than fit are refused."""
    weights = dense_weights(sent["weights"], _like(site, outputs, sent["recipe"]))
    return loaded_net(sent["recipe"], site.train.X, site.features, outputs, weights, device=site.device)


def _net(recipe: str, weights: Weights, site: Site) -> Net:
    return loaded_net(recipe, site.train.X, site.features, len(site.classes) + 1, weights, device=site.device)


def _sent(parcel: Parcel, sender: str, site: Site) -> dict[str, Any]:
    if not {"recipe", "weights", "classes"} <= set(parcel):
        raise ParcelError(f"site {sender!r} sent {sorted(parcel)}: expected a recipe, weights and classes.")
    if list(parcel["classes"]) != list(site.classes):
        raise ClassMismatch(
            f"site {sender!r} answers over {parcel['classes']}, this site over {list(site.classes)}: expected the "
            f"same classes in the same order."
        )
    kind = find_recipe(parcel["recipe"]).kind
    if kind != site.kind:
        raise ParcelError(f"site {sender!r} sent a net for {kind} rows: expected one for {site.kind} rows.")
    return {"recipe": parcel["recipe"], "weights": parcel["weights"]}


def _like(site: Site, outputs: int, recipe: str) -> Weights:
    """Arrays as a net of this recipe must have them here."""
    return net_weights(new_net(recipe, site.train.X[:1], site.features, outputs, seed=0))


def _try(sent: Mapping[str, Any], sender: str, site: Site, like: Weights) -> None:
    """Refuse a net that cannot be built here, or that does not answer this site's own rows."""
    net = _net(sent["recipe"], dense_weights(sent["weights"], like), site)
    if not bool(torch.isfinite(in_parts(net, net, tensors(site.train.X[:TRIED], site.device))).all()):
        raise BadOutputs(f"the net of site {sender!r} answers with non-finite values on this site's train rows.")
