"""The bar: what a site's own model answers to its test rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerwise.evaluate.summary import OWN, reference_method
from peerwise.metrics import Labels
from peerwise.run import Run
from peerwise.run.score import answers_of


def own_probabilities(run: Run, seed: int, method: str, site: str) -> NDArray[np.float64] | None:
    """The probabilities of the bar that `own_answers` answers for; None where there is none."""
    tree = run.predictions[seed, method, site]
    if "own" in tree["details"]:
        return np.asarray(tree["details"]["own"])
    alone = run.predictions.get((seed, reference_method(method, tree["rounds"], tree["lr"]), site))
    return None if alone is None or not len(tree["y"]) else np.asarray(alone["probabilities"])


def own_answers(run: Run, seed: int, method: str, site: str) -> tuple[str | None, Labels | None]:
    """The own model's answers, and where they are from: "own" (the mean of the site's own models of the very pool
    that the method chose from), where a method has no pool "local" or, of one with rounds, "local_rounds" (these
    methods of the same run), or None."""
    tree = run.predictions[seed, method, site]
    if "own" in tree["details"]:
        return OWN, tree["details"]["own"].argmax(axis=1)
    reference = reference_method(method, tree["rounds"], tree["lr"])
    alone = run.predictions.get((seed, reference, site))
    if alone is None or not len(tree["y"]):
        return None, None
    return reference, answers_of(alone)
