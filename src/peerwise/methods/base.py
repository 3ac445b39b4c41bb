"""Method: what a site does in a federation. Read this file first to write one of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.errors import DataError
from peerwise.parcels import Parcel

Inbox = Mapping[str, Parcel]
Memory = dict[str, Any]
FELL_BACK = "fell_back"  # within a site's state: {"to", "why"} where the method itself had to answer more simply there


class Method(ABC):
    """Hyper-parameters live on self and never change; everything learned lives in ``site.state``.

    For each round a runtime calls ``share`` at every site, ``combine`` once (or at every peer: it is pure), then
    ``absorb`` at every site, and keeps the state that did best on the site's validation rows. The runtime may end and
    start again between any two calls, so nothing may be remembered elsewhere. A site where a call raises takes no
    further part: the others go on without its parcels, and something simpler answers there. A site may miss rounds: it
    absorbs what was told last before it shares again, so ``absorb`` must not need that round's ``share``.
    """

    rounds: int = 1
    simulation_only: bool = False  # True for a method that moves rows: real peers refuse it
    needs_same_features: bool = True  # False for a method that lets sites have different columns
    addresses_sites: bool = False  # True where `combine` returns parcels by site and each site hears its own alone
    keeps_last: bool = False  # True where later rounds only add to what was learned: the last one answers, not the best
    needs_nets: bool = False  # True for a method that trains one of the site's models by gradients

    @classmethod
    def by_rounds(cls) -> type[Method] | None:
        """What stands for it among methods with rounds, so that it has the same budget; None where nothing does."""
        return None

    def check_sites(self, sites: Sequence[Site]) -> None:
        """Refuse, before anything is trained, a federation that the method cannot run on."""
        first = sites[0]
        for site in sites[1:]:
            if self.needs_same_features and site.features != first.features:
                odd = sorted({f.name for f in {*first.features} ^ {*site.features}}) or ["their order"]
                raise DataError(
                    f"sites {first.name!r} and {site.name!r} have different columns (such as {', '.join(odd[:3])}): "
                    f"{self.called} runs one site's models on another's rows and expects the same columns everywhere. "
                    f"Use method 'stacking', which matches columns by name, or 'local'."
                )

    @property
    def called(self) -> str:
        """Its name in messages."""
        return type(self).__name__

    def start(self, site: Site, rng: np.random.Generator) -> None:
        """Common initialisation: ``rng`` is the same at every site. Private chance comes from ``site.rng``."""

    def share(self, site: Site, round: int) -> Parcel:
        """Train a little, then say something. An empty parcel is not sent."""
        return Parcel()

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Inbox | Parcel, Memory]:
        """What every site is told, from what every site said; pure. ``memory`` is kept as a state is: JSON values,
        arrays and bytes."""
        return inbox, memory

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        """Learn from what was said: the result of ``combine``, by default the parcels by site name."""

    @abstractmethod
    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        """Class probabilities ``(n, classes)`` in the order of ``site.classes``."""

    def answers(self, site: Site, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
        """Class codes for rows with these probabilities: the likeliest class, unless the method has another rule."""
        return np.asarray(probabilities.argmax(axis=1))

    def details(self, site: Site, X: Inputs) -> dict[str, Any]:
        """What else is known of these answers, for the tables: trust over models, fallback, what each model says."""
        return {}

    def alone(self) -> Method | None:
        """What a site has without the others for the same budget, which answers where this method fails; None where
        that is the site's own models of the pool."""
        return None

    def curves(self, site: Site) -> dict[str, float]:
        """What is worth a curve over the rounds, as it stands after this round's ``absorb``."""
        return {}

    def privacy(self, site: Site) -> dict[str, Any] | None:
        """What is guaranteed to the people behind this site's rows: epsilon, delta, unit, rounds, mechanism and
        accountant; None where nothing is."""
        return None
