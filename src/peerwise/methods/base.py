"""Method: what a site does in a federation. Read this file first to write one of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.parcels import Parcel

Inbox = Mapping[str, Parcel]
Memory = dict[str, Any]


class Method(ABC):
    """Hyper-parameters live on self and never change; everything learned lives in ``site.state``.

    For each round a runtime calls ``share`` at every site, ``combine`` once (or at every peer: it is pure), then
    ``absorb`` at every site, and keeps the state that did best on the site's validation rows. The runtime may end and
    start again between any two calls, so nothing may be remembered elsewhere. A site where a call raises takes no
    further part: the others go on without its parcels, and something simpler answers there.
    """

    rounds: int = 1
    simulation_only: bool = False  # True for a method that moves rows: real peers refuse it
    needs_same_features: bool = True  # False for a method that lets sites have different columns

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

    def details(self, site: Site, X: Inputs) -> dict[str, Any]:
        """What else is known of these answers, for the tables: trust over models, fallback, what each model says."""
        return {}
