"""The bar: what a site's own model answers to its test rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerwise.evaluate.summary import LOCAL, OWN
from peerwise.metrics import Labels
from peerwise.run import Run
from peerwise.run.score import answers_of


def own_probabilities(run: Run, seed: int, method: str, site: str) -> NDArray[np.float64] | None:
    """The probabilities of the bar that `own_answers` answers for; None where there is none."""
    tree = run.predictions[seed, method, site]
    if "own" in tree["details"]:
        return np.asarray(tree["details"]["own"])
    local = run.predictions.get((seed, LOCAL, site))
    return None if local is None or not len(tree["y"]) else np.asarray(local["probabilities"])


def own_answers(run: Run, seed: int, method: str, site: str) -> tuple[str | None, Labels | None]:
    """The own model's answers, and where they are from: "own" (the mean of the site's own models of the very pool
    that the method chose from), "local" (that method of the same run, where a method has no pool), or None."""
    tree = run.predictions[seed, method, site]
    if "own" in tree["details"]:
        return OWN, tree["details"]["own"].argmax(axis=1)
    local = run.predictions.get((seed, LOCAL, site))
    if local is None or not len(tree["y"]):
        return None, None
    return LOCAL, answers_of(local)
