"""What a method may be able to do beside its five verbs: a class that has one of these methods has the ability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.federation.method import Method
from peerwise.parcels import Parcel


@runtime_checkable
class HasDetails(Protocol):
    def predict_with_details(self, site: Site, X: Inputs) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """The probabilities of `Method.predict_proba`, and what else is known of these answers: trust over models,
        fallback, what each model says; ``left_out``: why models gave no answer to some rows."""
        ...


@runtime_checkable
class HasDecisionRule(Protocol):
    def answers(self, site: Site, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
        """Class codes for rows with these probabilities, where it is not the likeliest class."""
        ...


@runtime_checkable
class HasCurves(Protocol):
    def curves(self, site: Site) -> dict[str, float]:
        """What is worth a curve over the rounds, as it stands after this round's ``absorb``."""
        ...


@runtime_checkable
class HasPrivacy(Protocol):
    def privacy(self, site: Site) -> dict[str, Any] | None:
        """What is guaranteed to the people behind this site's rows: epsilon, delta, unit, rounds, mechanism and
        accountant; None where nothing is."""
        ...


@runtime_checkable
class HasLocalBaseline(Protocol):
    def alone(self) -> Method:
        """What a site has without the others for the same budget, which answers where this method fails; where a method
        does not say, these are the site's own models of the pool."""
        ...


@runtime_checkable
class TrainsTogether(Protocol):
    """Trains many sites at once in less time. It assigns to each ``site.state`` and changes nothing that lies in it, as
    sites and the checkpoint share that. When it raises, the sites take the step again, one by one."""

    def trains_together(self, sites: Sequence[Site]) -> Sequence[bool]:
        """Which of the sites ``share_together`` trains together; the others are tasks of their own for workers."""
        ...

    def share_together(self, sites: Sequence[Site], round: int) -> Sequence[Parcel | None]:
        """What ``share`` returns at each of the sites; None, and nothing done, for those to be trained one by one."""
        ...


@runtime_checkable
class AbsorbsTogether(Protocol):
    """Absorbs one parcel at many sites at once in less time. It changes states as `TrainsTogether` does."""

    def absorb_together(self, sites: Sequence[Site], round: int, parcel: Parcel) -> bool:
        """Do what ``absorb`` does at each of the sites; False, and nothing done, if it has to be one by one."""
        ...


@runtime_checkable
class AnswersTogether(Protocol):
    """Answers at many sites at once in less time."""

    def predict_proba_together(self, sites: Sequence[Site], inputs: Sequence[Inputs]) -> Sequence[NDArray[np.float64]]:
        """What ``predict_proba`` returns at each of the sites for its inputs."""
        ...


def answer_codes(method: Method, site: Site, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Class codes for rows with these probabilities."""
    if isinstance(method, HasDecisionRule):
        return method.answers(site, probabilities)
    return np.asarray(probabilities.argmax(axis=1))


def privacy_of(method: Method, site: Site) -> dict[str, Any] | None:
    return method.privacy(site) if isinstance(method, HasPrivacy) else None
