"""PeerwiseOpen: PeerwiseClassifier over open-set nets, which tell it besides whether they know a row at all."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site, derived_seed, digest
from peerwise.errors import ConfigError
from peerwise.federation.method import Inbox
from peerwise.methods.open_nets import Nets, OnOpenNets
from peerwise.methods.open_voting import built_net
from peerwise.models.fitted import tensors
from peerwise.models.folds import fold_rows
from peerwise.models.nets import net_probabilities
from peerwise.parcels import Parcel
from peerwise.trust import learner_from_tree, learner_to_tree
from peerwise.trust.base import Decision
from peerwise.trust.open_peerwise import OpenPeerwise, Signal
from peerwise.trust.open_vote import open_vote
from peerwise.trust.peerwise import Metric

TINY = 1e-30  # instead of the logarithm of nothing


class PeerwiseOpen(OnOpenNets):
    """PeerwiseClassifier over open-set nets, which also say where they know nothing. share: the site's net; absorb: fit
    `OpenPeerwise` on this site's rows as all nets see them.

    ``signal``: what becomes of the nets' probability of "unknown": "none", "column" or "mask", as `OpenPeerwise` says;
    ``metric`` as in `PeerwiseClassifier`. The own net's answers to its train rows are out of fold: ``folds`` nets
    more, each trained like it without the rows that it answers. Validation rows are learned from like all others.
    """

    def __init__(
        self,
        nets: Nets = "fedsov",
        signal: Signal = "column",
        metric: Metric | None = None,
        folds: int = 3,
        local_epochs: int = 10,
        batch_size: int = 16,
        lr: float = 1e-3,
        weight_decay: float = 1e-5,
    ) -> None:
        super().__init__(nets, local_epochs, batch_size, lr, weight_decay, top=1)
        if folds < 2:
            raise ConfigError(f"folds is {folds}: expected at least 2.")
        self.signal: Signal = signal
        self.metric: Metric | None = metric
        self.folds = folds
        self._learner(0, []).check_settings()

    def share(self, site: Site, round: int) -> Parcel:
        said = super().share(site, round)
        group = site.train.group
        key = {
            **self._key(site),
            "what": "open-set folds",
            "folds": self.folds,
            "fold_seed": site.seed_for("open-set folds"),
            "groups": None if group is None else digest(np.unique(group, return_inverse=True)[1]),
        }
        found = site.keep(key, lambda: self._folded(site))
        site.state["held_out"] = found["held_out"]
        site.state["seconds"]["train"] += found["seconds"]
        return said

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        super().absorb(site, round, inbox)
        started = time.perf_counter()
        train = self.open_outputs(site, site.train.X)
        val = (_logits(self.open_outputs(site, site.val.X)), site.val.y, site.val.X) if len(site.val) else None
        own = sorted({site.name, *site.state["peers"]}).index(site.name)
        train[:, own] = site.state["held_out"]
        outputs, fitting = time.perf_counter() - started, time.perf_counter()
        learner = self._learner(site.seed_for("learner"), [own])
        learner.fit_outputs(_logits(train), site.train.y, site.train.X, val)
        site.state["learner"] = learner_to_tree(learner)
        site.state["seconds"] |= {"outputs": outputs, "fit": time.perf_counter() - fitting}

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return self._decided(site, X, self.open_outputs(site, X))[0]

    def answers(self, site: Site, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
        return learner_from_tree(OpenPeerwise, site.state["learner"]).answers(probabilities)

    def predict_with_details(self, site: Site, X: Inputs) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """The details of the vote over the same nets, with the trust and the fallback of PeerwiseClassifier."""
        outputs = self.open_outputs(site, X)
        probabilities, decision = self._decided(site, X, outputs)
        details = self.details_of(site, outputs, open_vote(outputs, self.top))
        return probabilities, {**details, "trust": decision.trust, "fallback": decision.fallback}

    def _decided(self, site: Site, X: Inputs, outputs: NDArray[np.float64]) -> tuple[NDArray[np.float64], Decision]:
        learner = learner_from_tree(OpenPeerwise, site.state["learner"])
        found, decision = learner.answer_outputs(_logits(outputs), X)
        known = found[:, :-1]
        return np.asarray(known / known.sum(axis=1, keepdims=True)), decision

    def _learner(self, seed: int, own: list[int]) -> OpenPeerwise:
        return OpenPeerwise(own=own, signal=self.signal, metric=self.metric, random_state=seed)

    def _folded(self, site: Site) -> dict[str, Any]:
        """What nets like the own one say of the train rows that they have not seen; all that one row leaves is
        "unknown"."""
        started = time.perf_counter()
        seed = site.seed_for("open-set folds")
        held_out = np.tile(np.eye(len(site.classes) + 1)[-1], (len(site.train), 1))
        for fold, (fitting, rest) in enumerate(fold_rows(site.train.y, self.folds, seed, site.train.group)):
            part = site.replace(train=site.train.take(fitting), seed=derived_seed(seed, fold))
            net = built_net(self._trained(part), site, held_out.shape[1])
            held_out[rest] = net_probabilities(net, tensors(site.train.X[rest], site.device))
        return {"held_out": held_out, "seconds": time.perf_counter() - started}


def _logits(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(outputs, TINY))
