"""AnyModel: methods with rounds in which a site need not have a neural network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.methods.by_rounds import ByRounds
from peerwise.methods.net_recipe import is_net
from peerwise.methods.refitting import file_probabilities, refitted


class AnyModel(ByRounds):
    """A site's model is its neural network, or, where it has none, the first of its models: that one learns all at once
    and is kept as an ONNX file in ``site.state["model"]``."""

    def recipe(self, site: Site) -> str:
        if site.recipes and not any(map(is_net, site.recipes)):
            return site.recipes[0]
        return super().recipe(site)

    def is_net(self, site: Site) -> bool:
        return is_net(self.recipe(site))

    def predict_proba_together(self, sites: Sequence[Site], inputs: Sequence[Inputs]) -> list[NDArray[np.float64]]:
        if all(map(self.is_net, sites)):
            return super().predict_proba_together(sites, inputs)
        return [self.predict_proba(site, X) for site, X in zip(sites, inputs, strict=True)]

    def start(self, site: Site, rng: np.random.Generator) -> None:
        if self.is_net(site):
            super().start(site, rng)
        else:
            site.state["model"] = refitted(site, self.recipe(site), None, site.seed_for("fit"))

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return super().predict_proba(site, X) if self.is_net(site) else file_probabilities(site, X)
