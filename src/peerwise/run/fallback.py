"""What answers at a site where a method failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.errors import STOPS_A_RUN, reason
from peerwise.methods import Inbox, Method
from peerwise.methods.own_models import mean_probabilities, own_models

OWN_MODELS = "own models"


def simpler_answer(
    site: Site, method: Method, inbox: Callable[[], Inbox], X: Inputs
) -> tuple[NDArray[np.float64], str, list[str]]:
    """The first of these that works, what it is, and why those before it did not: the site's own models, all alike; its
    peers' models (as they lie in ``inbox``), all alike; the frequencies of the labels of its train rows."""

    def own() -> Mapping[str, bytes]:
        folds, epochs = getattr(method, "folds", 5), getattr(method, "epochs", None)
        return own_models(site, held_out=False, folds=folds, epochs=epochs).files

    def peers() -> Mapping[str, bytes]:
        heard = {name: parcel.get("models", {}) for name, parcel in inbox().items() if name != site.name}
        return {f"{model}@{name}": data for name, models in heard.items() for model, data in models.items()}

    failed: list[str] = []
    for name, files in ((OWN_MODELS, own), ("peers' models", peers)):
        try:
            if found := files():
                return mean_probabilities(site, found, X), name, failed
        except STOPS_A_RUN:
            raise
        except Exception as error:
            failed.append(reason(error))
    counts = np.bincount(site.train.y, minlength=len(site.classes)) + 1.0
    return np.tile(counts / counts.sum(), (len(X), 1)), "label frequencies", failed
