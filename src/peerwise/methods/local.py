"""Local: every site alone with its own models of the pool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.federation.method import Method
from peerwise.methods.own_models import mean_probabilities, own_models
from peerwise.parcels import Parcel


class Local(Method):
    """p(y|x) = mean over the site's own models of their probabilities. Nothing is sent or received."""

    needs_same_features = False

    def __init__(self, folds: int = 5, epochs: int | None = None) -> None:
        self.folds = folds
        self.epochs = epochs

    def share(self, site: Site, round: int) -> Parcel:
        own = own_models(site, held_out=False, folds=self.folds, epochs=self.epochs)
        site.state["models"] = own.files
        site.state["seconds"] = {"train": own.seconds}
        return Parcel()

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return mean_probabilities(site, site.state["models"], X)
