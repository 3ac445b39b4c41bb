"""Models that learn all at once in a method with rounds: fitted anew in every round, kept as ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Rows, Site, concatenate
from peerwise.models import Fitted, OnnxModel
from peerwise.models.outputs import softmax
from peerwise.models.own_recipe import recipe_at

Extra = tuple[Inputs, NDArray[np.int64], float]


def refitted(site: Site, recipe: str, extra: Extra | None, seed: int) -> bytes:
    """The recipe fitted to the site's train rows, each counting 1, and to ``extra`` rows with labels, each counting
    what is given with them; as an ONNX file."""
    rows, weights = site.train, {}
    if extra is not None:
        X, y, weight = extra
        rows = Rows(concatenate([rows.X, X]), np.concatenate([rows.y, y]))
        weights = {"weights": np.concatenate([np.ones(len(site.train)), np.full(len(y), weight)])}
    fit: Any = recipe_at(site, recipe).fit  # only models that learn all at once take weights
    fitted: Fitted = fit(rows, None, classes=len(site.classes), features=site.features, seed=seed, **weights)
    return fitted.to_onnx()


def file_probabilities(site: Site, X: Inputs) -> NDArray[np.float64]:
    """Class probabilities of the model in ``site.state["model"]``."""
    return softmax(OnnxModel(site.state["model"], name=f"model of {site.name}").predict_logits(X))
