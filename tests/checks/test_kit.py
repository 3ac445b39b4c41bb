"""Our own learners and methods pass the kit, and the kit catches those that should not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peerwise import (
    BestSingle,
    Centralised,
    DecisionMLP,
    GlobalEnsemble,
    Local,
    Method,
    NeighbourhoodAccuracy,
    OneShot,
    OwnOnly,
    Parcel,
    PeerwiseClassifier,
    PriorAdapted,
    UniformAverage,
)
from peerwise.checks import check_method, check_trust_learner
from peerwise.checks.method import awkward_sites
from peerwise.errors import ConfigError
from peerwise.methods.registry import describe, method_names
from peerwise.trust import DESKNN, KNORAE, LCA, METADES, FedDES, FedPAE

SMALL = {"epochs": 3, "hidden": 8, "random_state": 0}
LEARNERS = [
    OwnOnly(),
    BestSingle(),
    UniformAverage(),
    UniformAverage(vote="hard"),
    NeighbourhoodAccuracy(),
    NeighbourhoodAccuracy(calibrate=False, vote="soft"),
    DecisionMLP(**SMALL),
    PeerwiseClassifier(),
    PeerwiseClassifier(metric="balanced_accuracy"),
    PriorAdapted(),
    FedDES(**SMALL, heads=2),
    FedDES(**SMALL, heads=2, features="both", vote="soft", membership="soft", edge_weights=False, residual=False),
    FedDES(**SMALL, heads=2, weights="logit"),
    FedDES(random_state=0),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:60])
def test_our_trust_learners_pass_the_kit(learner: Any) -> None:
    check_trust_learner(learner)


METHODS = [
    Local(),
    GlobalEnsemble(folds=2),
    Centralised(),
    OneShot(PeerwiseClassifier(), folds=2),
    OneShot(FedDES(**SMALL, heads=2), folds=2),
    OneShot(BestSingle(), folds=2),
]
CHOOSING = [
    KNORAE(k=3),
    LCA(),
    DESKNN(),
    METADES(),
    FedPAE(population=4, generations=2, random_state=0),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_our_methods_pass_the_kit(method: Method) -> None:
    check_method(method)


@pytest.mark.parametrize("learner", CHOOSING, ids=lambda learner: type(learner).__name__)
def test_methods_that_choose_among_models_pass_the_kit(learner: Any) -> None:
    check_method(OneShot(learner, folds=2), lambda: awkward_sites(("logistic",)))


def test_every_method_says_first_what_it_is() -> None:
    assert [name for name in method_names() if describe(name).startswith(("share:", "absorb:"))] == []
    assert describe("peerwise_open").startswith("PeerwiseClassifier over open-set nets")


class Forgetful(Local):
    """Remembers its models on itself instead of in the site's state."""

    def share(self, site: Any, round: int) -> Parcel:
        super().share(site, round)
        self.models = site.state.pop("models")
        return Parcel()

    def predict_proba(self, site: Any, X: Any) -> Any:
        return np.full((len(X), len(site.classes)), 1 / len(site.classes))


class Restless(Local):
    """Answers by chance that no seed governs."""

    def predict_proba(self, site: Any, X: Any) -> Any:
        return np.random.default_rng().dirichlet(np.ones(len(site.classes)), len(X))


class Peeking(Local):
    """Looks at the test rows it is going to be asked about."""

    def predict_proba(self, site: Any, X: Any) -> Any:
        if len(site.test) == len(X):
            return np.eye(len(site.classes))[site.test.y]
        return super().predict_proba(site, X)


class Improper(Local):
    """Answers that are no probabilities."""

    def predict_proba(self, site: Any, X: Any) -> Any:
        return 2 * super().predict_proba(site, X)


class Dependent(Local):
    """Answers rightly only where all five sites have spoken."""

    def share(self, site: Any, round: int) -> Parcel:
        super().share(site, round)
        return Parcel(here=1)

    def absorb(self, site: Any, round: int, inbox: Any) -> None:
        site.state["peers"] = len(inbox)

    def predict_proba(self, site: Any, X: Any) -> Any:
        return super().predict_proba(site, X) * (1 if site.state["peers"] == 5 else 0)


class Understating(Dependent):
    """Counts less than it was told."""

    def absorb(self, site: Any, round: int, inbox: Any) -> None:
        super().absorb(site, round, inbox)
        site.state["run"]["received"] -= 1


class Pickling(Dependent):
    """Tells all sites something that only Python can read."""

    def combine(self, inbox: Any, memory: Any, rng: Any) -> Any:
        return Parcel(told=b"\x80\x04\x95" + bytes(20)), memory

    def absorb(self, site: Any, round: int, inbox: Any) -> None:
        site.state["peers"] = 5


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Dependent(), "do not sum to one without the first site"),
        (Understating(), r"counts \d+ bytes received, in truth they are \d+"),
        (Pickling(), "a parcel holds a pickle"),
        (Forgetful(), "changed the method itself"),
        (Restless(), "same seed"),
        (Peeking(), "test rows"),
        (Improper(), "do not sum to one"),
    ],
    ids=[
        "needs a site",
        "counts less",
        "tells a pickle",
        "keeps state on itself",
        "ignores the seed",
        "looks at test rows",
        "no probabilities",
    ],
)
def test_the_kit_catches_a_method_that(method: Method, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_method(method, lambda: awkward_sites(("logistic",)))


class Crowd(UniformAverage):
    """Weighs models by the mean of the batch: answers depend on the company."""

    def _decide(self, logits: Any, X: Any) -> Any:
        decision = super()._decide(logits, X)
        weights = np.exp(logits.mean(axis=(0, 2)))
        return type(decision)(np.tile(weights / weights.sum(), (len(logits), 1)), None, decision.fallback)


class Trusting(UniformAverage):
    """Takes any label."""

    def fit_outputs(self, outputs: Any, y: Any, X: Any = None, validation: Any = None, kind: str = "logits") -> Any:
        return super().fit_outputs(outputs, np.clip(y, 0, np.shape(outputs)[-1] - 1), X, validation, kind)


@pytest.mark.parametrize(
    ("learner", "said"),
    [(Crowd(), "share its batch|not an error"), (Trusting(), "negative labels were accepted")],
    ids=["listens to other queries", "takes any label"],
)
def test_the_kit_catches_a_learner_that(learner: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_trust_learner(learner)


def test_a_class_in_place_of_an_object_is_said() -> None:
    with pytest.raises(ConfigError, match=r"expected an object, Local\(\)"):
        check_method(Local)  # type: ignore[arg-type]
