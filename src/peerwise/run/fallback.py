"""What answers at a site where a method failed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.errors import STOPS_A_RUN, reason
from peerwise.federation import HasLocalBaseline, Session, answer
from peerwise.methods import Inbox, Method
from peerwise.methods.own_models import mean_probabilities, own_models
from peerwise.methods.pool_models import pool_logits, received_models
from peerwise.space import softmax

OWN_MODELS = "own models"
ALONE = "training alone"
FREQUENCIES = "label frequencies"
OWN = (OWN_MODELS, ALONE)  # what a site has without the others


@dataclass(frozen=True)
class Simpler:
    """Probabilities (n, classes), what they come from, why what comes before it could not answer, and the peers'
    models that had to be left out, with the reasons."""

    probabilities: NDArray[np.float64]
    what: str
    failed: list[str]
    left_out: dict[str, str] = field(default_factory=dict)


def simpler_answer(site: Site, method: Method, inbox: Inbox, X: Inputs) -> Simpler:
    """The first of these that works: what the site has alone for the method's budget; where it has none, the site's own
    models, all alike, or its peers' models (those of ``inbox``), all alike; the frequencies of the labels of its
    train rows."""
    failed: list[str] = []
    if isinstance(method, HasLocalBaseline):
        try:
            return Simpler(_alone(method.alone(), site, X), ALONE, failed)
        except STOPS_A_RUN:
            raise
        except Exception as error:
            return Simpler(_frequencies(site, X), FREQUENCIES, [reason(error)])
    try:
        folds, epochs = getattr(method, "folds", 5), getattr(method, "epochs", None)
        own = own_models(site, held_out=False, folds=folds, epochs=epochs).files
        return Simpler(mean_probabilities(site, own, X), OWN_MODELS, failed)
    except STOPS_A_RUN:
        raise
    except Exception as error:
        failed.append(reason(error))
    with_models = {name: parcel for name, parcel in inbox.items() if "models" in parcel}
    peers, left_out = received_models(with_models, site)
    asked = pool_logits(site, peers, X, may_fail=peers)
    left_out |= asked.failed
    if good := [place for place, name in enumerate(peers) if name not in left_out]:
        mean = softmax(asked.logits[:, good]).astype(np.float64).mean(axis=1)
        return Simpler(np.asarray(mean), "peers' models", failed, left_out)
    return Simpler(_frequencies(site, X), FREQUENCIES, failed, left_out)


def _alone(method: Method, site: Site, X: Inputs) -> NDArray[np.float64]:
    here = site.replace(state={})
    session = Session(method, here)
    for round in range(method.rounds):
        session.step(None, round)
    session.finish()
    return answer(method, here, X)


def _frequencies(site: Site, X: Inputs) -> NDArray[np.float64]:
    counts = np.bincount(site.train.y, minlength=len(site.classes)) + 1.0
    return np.tile(counts / counts.sum(), (len(X), 1))
