"""OneShot: any trust learner as a federated method. Train, publish once, learn whom of the peers to trust."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from peerwise.data import Inputs, Site
from peerwise.federation.cleaning import PEERS_LEFT_OUT, full_name
from peerwise.federation.method import Inbox, Method
from peerwise.methods.own_models import own_models
from peerwise.methods.pool_models import Array, in_order, peers_model, pool_logits, received_models
from peerwise.models import wrap
from peerwise.parcels import Parcel
from peerwise.parcels.later import joined, picked
from peerwise.space import Pool, softmax
from peerwise.trust import TrustLearner, learner_from_tree, learner_to_tree
from peerwise.trust.competence import CompetenceLearner
from peerwise.trust.explanation import Explanation


class OneShot(Method):
    """share: own models, trained; absorb: fit ``learner`` on this site's train rows as all models see them.

    Own models' columns are out of fold on the train rows (``folds``), peers' are ordinary predictions: those rows were
    never theirs. Validation and test rows are always answered by the final models. ``epochs`` caps base training.

    A peer's model that fails on any of this site's train or validation rows is left out of its pool, as is a peer whose
    parcel cannot be used (``site.state[PEERS_LEFT_OUT]`` has the reasons). A later row on which a model of the pool
    fails is unlike all that was learned from: the own models answer it, all alike, and it counts as a fallback.
    """

    largest_number = None  # models travel as files

    def __init__(self, learner: TrustLearner, folds: int = 5, epochs: int | None = None) -> None:
        self.learner = learner
        self.folds = folds
        self.epochs = epochs

    @property
    def called(self) -> str:
        return type(self.learner).__name__

    def share(self, site: Site, round: int) -> Parcel:
        own = own_models(site, folds=self.folds, epochs=self.epochs)
        site.state["own"] = {"models": own.files, "held_out": own.held_out}
        site.state["seconds"] = {"train": own.seconds}
        return Parcel(models=own.files, classes=list(site.classes))

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        peers, left_out = received_models(inbox, site)
        files = in_order(joined(peers, _own_files(site)))
        train = pool_logits(site, files, site.train.X, may_fail=peers)
        val = pool_logits(site, files, site.val.X, may_fail=peers)
        for part, asked in (("validation", val), ("train", train)):
            left_out |= {name: f"on {part} rows: {why}" for name, why in asked.failed.items()}
        files, used = _without(files, left_out)
        names = list(files)
        own = [names.index(name) for name in _own_files(site)]
        logits = train.logits[:, used]
        logits[:, own] = site.state["own"]["held_out"]
        learner = self.new_learner(site, own)
        started = time.perf_counter()
        validation = (val.logits[:, used], site.val.y, site.val.X, site.val.group)
        learner.fit_outputs(logits, site.train.y, X=site.train.X, validation=validation, group=site.train.group)
        learner.model_names_, learner.classes_ = names, np.asarray(site.classes)
        site.state["pool"] = files
        site.state["learner"] = learner_to_tree(learner)
        if left_out:
            site.state[PEERS_LEFT_OUT] = left_out
        site.state["seconds"] |= {"outputs": train.seconds + val.seconds, "fit": time.perf_counter() - started}

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return self.predict_with_details(site, X)[0]

    def answers(self, site: Site, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
        return self._learner(site).answers(probabilities)

    def predict_with_details(self, site: Site, X: Inputs) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Trust and fallback of each row, what each model says (-1: nothing), the models' names, and the own model's
        answer: the uniform mean of the site's own models of this very pool, which the method is held to. ``left_out``:
        models that failed on some of these rows, and why."""
        asked = _asked(site, X)
        learned, decision = self._learner(site).answer_outputs(asked.filled, X)
        probabilities = np.where(asked.incomplete[:, None], asked.own, learned)
        names = list(_pool(site))
        home = np.isin(names, list(_own_files(site))) / len(_own_files(site))
        found = {
            "trust": np.where(asked.incomplete[:, None], home, decision.trust),
            "fallback": decision.fallback | asked.incomplete,
            "says": np.where(asked.unanswered, -1, asked.filled.argmax(axis=2)),
            "models": names,
            "own": asked.own,
        }
        return probabilities, found | ({"left_out": asked.why} if asked.why else {})

    def explain(self, site: Site, X: Inputs) -> Explanation | None:
        """One row's answer opened; None where the learner cannot, or where a model has no answer to that row."""
        learner, asked = self._learner(site), _asked(site, X)
        if not isinstance(learner, CompetenceLearner) or asked.incomplete.any():
            return None
        return learner.explain_outputs(asked.filled, X)

    def learner_at(self, site: Site) -> TrustLearner:
        """The site's fitted learner with its pool, ready to predict, explain and save by itself."""
        learner = self._learner(site)
        own, files = _own_files(site), _pool(site)
        models = {name: data if name in own else peers_model(site, data, name) for name, data in files.items()}
        members = [wrap(model, name=name, classes=site.classes) for name, model in models.items()]
        learner.pool = learner.pool_ = Pool(members, classes=site.classes)
        return learner

    def _learner(self, site: Site) -> TrustLearner:
        return learner_from_tree(type(self.learner), site.state["learner"])

    def new_learner(self, site: Site, own: list[int]) -> TrustLearner:
        """One to fit at this site, where these columns of the pool are its own models."""
        fresh: TrustLearner = clone(self.learner).set_params(own=own)
        params = fresh.get_params(deep=False)
        if "random_state" in params and params["random_state"] is None:
            fresh.set_params(random_state=site.seed_for("learner"))
        if "device" in params:
            fresh.set_params(device=site.device)
        if site.class_balance == "balanced" and "metric" in params and params["metric"] is None:
            fresh.set_params(metric="balanced_accuracy")
        return fresh


@dataclass(frozen=True)
class _Asked:
    """What the pool says of some rows, (n, models, classes) with zeros for want of an answer; where one is wanting
    (n, models); the own models' mean (n, classes); and which models failed on some rows, and why."""

    filled: NDArray[np.float32]
    unanswered: NDArray[np.bool_]
    own: NDArray[np.float64]
    why: dict[str, str]

    @property
    def incomplete(self) -> NDArray[np.bool_]:
        return np.asarray(self.unanswered.any(axis=1))


def _asked(site: Site, X: Inputs) -> _Asked:
    files = _pool(site)
    names, own = list(files), list(_own_files(site))
    asked = pool_logits(site, files, X, may_fail=set(names) - set(own))
    unanswered = np.asarray(np.isnan(asked.logits).any(axis=2))
    why = {}
    for name, cause in asked.failed.items():
        rows = int(unanswered[:, names.index(name)].sum())
        why[name] = f"on {rows} of {len(X)} rows to answer, left to the own models: {cause}"
    mean = softmax(asked.logits[:, [names.index(name) for name in own]]).astype(np.float64).mean(axis=1)
    return _Asked(np.nan_to_num(asked.logits) if why else asked.logits, unanswered, mean, why)


def labelled_logits(site: Site) -> Array:
    """What the site's pool says of its train and then its validation rows, as the learner was given it."""
    train = pool_logits_of(site, site.train.X).copy()
    train[:, pool_names(site)[1]] = site.state["own"]["held_out"]
    return np.concatenate([train, pool_logits_of(site, site.val.X)])


def pool_logits_of(site: Site, X: Inputs) -> Array:
    """What the site's pool says of these rows, (n, models, classes), NaN where a peer's model has no answer."""
    files = _pool(site)
    return pool_logits(site, files, X, may_fail=set(files) - set(_own_files(site))).logits


def pool_names(site: Site) -> tuple[list[str], list[int]]:
    """The models in the order of the learner's columns, and which of these are the site's own, in the order of the
    held-out ones."""
    names = list(_pool(site))
    return names, [names.index(name) for name in _own_files(site)]


def _own_files(site: Site) -> dict[str, bytes]:
    """From the state, they need no journey; in the order of their held-out columns."""
    models = site.state["own"]["models"]
    return {full_name(model, site.name): models[model] for model in sorted(models)}


def _without(files: Mapping[str, bytes], left_out: Mapping[str, str]) -> tuple[Mapping[str, bytes], list[int]]:
    """The files that remain, and which of the columns they have."""
    places = [place for place, name in enumerate(files) if name not in left_out]
    return picked(files, [name for name in files if name not in left_out]), places


def _pool(site: Site) -> Mapping[str, bytes]:
    """The pool in the order of the learner's columns; a state that was kept has lost it."""
    return picked(site.state["pool"], site.state["learner"]["names"])
