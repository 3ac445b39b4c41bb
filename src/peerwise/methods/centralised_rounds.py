"""Centralised with the budget of the methods with rounds: the same nets, optimiser and epochs, on everybody's rows."""

from __future__ import annotations

import time
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.data import Inputs, Site, digest
from peerwise.federation.method import Inbox
from peerwise.methods.by_rounds import Budget, ByRounds, train_tensors
from peerwise.methods.centralised import all_rows, everybody
from peerwise.models.fitted import tensors
from peerwise.models.nets import in_parts, net_probabilities, net_weights
from peerwise.models.training import row_chances, train
from peerwise.parcels import Parcel


class CentralisedRounds(ByRounds):
    """Each of the federation's nets trained once on everybody's train rows, for rounds x local_epochs epochs, of which
    the best on everybody's validation rows is kept (the earliest among equals); p(y|x) = the mean of their
    probabilities. An upper reference, not a federated method: it moves the rows, once, so its own rounds are one."""

    simulation_only = True
    largest_number = None  # rows may lack values

    def __init__(self, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.budget_rounds = self.rounds
        self.rounds = 1

    def start(self, site: Site, rng: np.random.Generator) -> None:
        """There is no net before the rows are together."""

    def share(self, site: Site, round: int) -> Parcel:
        return all_rows(site, [self.recipe(site)])

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        together = everybody(site, inbox)
        trained = {recipe: self._trained(together, recipe) for recipe in together.recipes}
        site.state["nets"] = {recipe: tree["weights"] for recipe, tree in trained.items()}
        site.state["best_epoch"] = {recipe: tree["best_epoch"] for recipe, tree in trained.items()}
        # Trained once for all sites, so each site bears its share of the time.
        site.state["seconds"] = {"train": sum(tree["seconds"] for tree in trained.values()) / len(inbox)}

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        inputs = tensors(X, site.device)
        nets = [self.net_with(site, weights, recipe) for recipe, weights in sorted(site.state["nets"].items())]
        return np.asarray(np.mean([net_probabilities(net, inputs) for net in nets], axis=0))

    def _trained(self, site: Site, recipe: str) -> dict[str, Any]:
        seed = site.seed_for(f"net {recipe}")
        parts = {
            "what": "centralised by rounds",
            "recipe": recipe,
            "train": digest(site.train.X, site.train.y),
            "val": digest(site.val.X, site.val.y),
            "classes": list(site.classes),
            "features": [[feature.name, *feature.categories] for feature in site.features],
            "seed": seed,
            "class_balance": site.class_balance,
            "budget": [self.budget_rounds, self.local_epochs, self.batch_size, self.optimizer, self.lr],
        }
        return site.keep(parts, lambda: self._train(site, recipe, seed))

    def _train(self, site: Site, recipe: str, seed: int) -> dict[str, Any]:
        started = time.perf_counter()
        net = self.new_net(site, np.random.default_rng(seed), recipe).to(site.device)
        inputs, y = tensors(site.val.X, site.device), torch.as_tensor(site.val.y, device=site.device)
        balanced = site.class_balance == "balanced"
        cost = (
            row_chances(site.val.y).to(site.device)
            if balanced and len(site.val)
            else torch.ones(len(site.val), device=site.device)
        )

        def errors() -> float:
            return float(cost[in_parts(net, net, inputs).argmax(dim=1) != y].sum())

        record = train(
            net,
            train_tensors(site),
            validate=errors if len(site.val) else None,
            optimizer=self.new_optimizer(net.parameters()),
            epochs=self.budget_rounds * self.local_epochs,
            batch_size=self.batch_size,
            patience=None,
            min_delta=0.0,
            chances=row_chances(site.train.y) if balanced else None,
            seed=seed,
        )
        seconds = time.perf_counter() - started
        return {"weights": net_weights(net), "best_epoch": record.best_epoch, "seconds": seconds}
