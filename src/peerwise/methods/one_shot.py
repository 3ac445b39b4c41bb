"""OneShot: any trust learner as a federated method. Train, publish once, learn whom of the peers to trust."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from peerwise.data import Inputs, Site
from peerwise.errors import ClassMismatch, ParcelError, PoolError
from peerwise.methods.base import Inbox, Method
from peerwise.methods.own_models import own_models, pool_logits
from peerwise.models import wrap
from peerwise.parcels import Parcel
from peerwise.space import Pool, softmax
from peerwise.trust import Decision, TrustLearner, learner_from_tree, learner_to_tree


class OneShot(Method):
    """share: own models, trained; absorb: fit ``learner`` on this site's train rows as all models see them.

    Own models' columns are out of fold on the train rows (``folds``), peers' are ordinary predictions: those rows were
    never theirs. Validation and test rows are always answered by the final models. ``epochs`` caps base training.
    """

    def __init__(self, learner: TrustLearner, folds: int = 5, epochs: int | None = None) -> None:
        self.learner = learner
        self.folds = folds
        self.epochs = epochs

    def share(self, site: Site, round: int) -> Parcel:
        own = own_models(site, folds=self.folds, epochs=self.epochs)
        site.state["own"] = {"models": own.files, "held_out": own.held_out}
        site.state["seconds"] = {"train": own.seconds}
        return Parcel(models=own.files, classes=list(site.classes))

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        files = _gathered(inbox, site)
        names = list(files)
        own = [names.index(_full(model, site.name)) for model in sorted(site.state["own"]["models"])]
        train, asked_train = pool_logits(site, files, site.train.X)
        val, asked_val = pool_logits(site, files, site.val.X)
        train = train.copy()
        train[:, own] = site.state["own"]["held_out"]
        learner = self._new_learner(site, own)
        started = time.perf_counter()
        learner.fit_outputs(train, site.train.y, X=site.train.X, validation=(val, site.val.y, site.val.X))
        learner.model_names_, learner.classes_ = names, np.asarray(site.classes)
        site.state["pool"] = files
        site.state["learner"] = learner_to_tree(learner)
        site.state["seconds"] |= {"outputs": asked_train + asked_val, "fit": time.perf_counter() - started}

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return self._learner(site).predict_proba_outputs(self._logits(site, X), X)

    def details(self, site: Site, X: Inputs) -> dict[str, Any]:
        """Trust and fallback of each row, what each model says, the models' names, and the own model's answer: the
        uniform mean of the site's own models of this very pool, which the method is held to."""
        logits = self._logits(site, X)
        decision: Decision = self._learner(site).decide_outputs(logits, X)
        names = list(_pool(site))
        own = [names.index(_full(model, site.name)) for model in site.state["own"]["models"]]
        found = {"trust": decision.trust, "fallback": decision.fallback, "says": logits.argmax(axis=2), "models": names}
        if own:
            found["own"] = softmax(logits[:, own]).astype(np.float64).mean(axis=1)
        return found

    def learner_at(self, site: Site) -> TrustLearner:
        """The site's fitted learner with its pool, ready to predict, explain and save by itself."""
        learner = self._learner(site)
        members = [wrap(data, name=name, classes=site.classes) for name, data in _pool(site).items()]
        learner.pool = learner.pool_ = Pool(members, classes=site.classes)
        return learner

    def _logits(self, site: Site, X: Inputs) -> NDArray[np.float32]:
        return pool_logits(site, _pool(site), X)[0]

    def _learner(self, site: Site) -> TrustLearner:
        return learner_from_tree(type(self.learner), site.state["learner"])

    def _new_learner(self, site: Site, own: list[int]) -> TrustLearner:
        fresh: TrustLearner = clone(self.learner).set_params(own=own)
        params = fresh.get_params(deep=False)
        if "random_state" in params and params["random_state"] is None:
            fresh.set_params(random_state=site.seed_for("learner"))
        if "device" in params:
            fresh.set_params(device=site.device)
        return fresh


def _gathered(inbox: Inbox, site: Site) -> dict[str, bytes]:
    """Every model as ``model@site``, sites in alphabetical order, so that columns are the same at every site. The own
    models are taken from the state: they need no journey."""
    own = Parcel(models=site.state["own"]["models"], classes=list(site.classes))
    parcels = {**inbox, site.name: own}
    files: dict[str, bytes] = {}
    for sender in sorted(parcels):
        parcel = parcels[sender]
        if not {"models", "classes"} <= set(parcel):
            raise ParcelError(f"site {sender!r} sent {sorted(parcel)}: expected models and classes. Leave it out.")
        if tuple(parcel["classes"]) != site.classes:
            raise ClassMismatch(
                f"site {sender!r} answers over {parcel['classes']}, this site over {list(site.classes)}: expected the "
                f"same classes in the same order."
            )
        for model in sorted(parcel["models"]):
            name = _full(model, sender)
            if name in files:
                raise PoolError(f"two models are called {name!r}: expected one. Rename one of the sites.")
            files[name] = parcel["models"][model]
    return files


def _full(model: str, site: str) -> str:
    return f"{model}@{site}"


def _pool(site: Site) -> dict[str, bytes]:
    """The pool in the order of the learner's columns; a state that was kept has lost it."""
    return {name: site.state["pool"][name] for name in site.state["learner"]["names"]}
