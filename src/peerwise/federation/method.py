"""Method: what a site does in a federation. Read this file first to write one of your own."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

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

    In each round ``share`` is called at every site, ``combine`` once (or at every peer: it is pure), then ``absorb`` at
    every site; `Session` keeps the state that did best on the site's validation rows. The process may stop and restart
    between any two calls, so nothing may be remembered elsewhere. A site where a call raises takes no further part: the
    others go on without its parcels, and something simpler answers there. A site may miss rounds: it absorbs the last
    broadcast before it shares again, so ``absorb`` must not need that round's ``share``.
    """

    rounds: int = 1
    simulation_only: bool = False  # True for a method that moves rows: real peers refuse it
    needs_same_features: bool = True  # False for a method that lets sites have different columns
    addresses_sites: bool = False  # True where `combine` returns parcels by site and each site absorbs its own alone
    keeps_last: bool = False  # True where later rounds only add to what was learned: the last one answers, not the best
    needs_nets: bool = False  # True for a method that trains one of the site's models by gradients
    # Who sends an array with a larger number, or any number that is not finite, is left out; None: not checked, unread
    largest_number: float | None = math.inf

    arguments: dict[str, Any]  # of its constructor, as given: a run knows a method by its class and these

    def __new__(cls, *values: Any, **more: Any) -> Self:
        made = super().__new__(cls)
        parameters = parameters_of(cls)
        given = inspect.Signature(list(parameters.values())).bind_partial(*values, **more)
        made.arguments = {}
        for name, value in given.arguments.items():
            together = parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            made.arguments |= value if together else {name: value}
        return made

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
        """Train a little, and return the parcel to be sent, if it is not empty."""
        return Parcel()

    def read_parcel(self, parcel: Parcel, memory: Memory) -> Parcel:
        """A peer's parcel as `combine` is given it; raise what is wrong with it, and its sender is left out."""
        return parcel

    def must_agree(self, parcel: Parcel) -> Mapping[str, Hashable]:
        """What has to be the same in all parcels of a round, by name: who differs from most senders is left out."""
        return {}

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Inbox | Parcel, Memory]:
        """The broadcast, from the parcels that were shared; pure. ``memory`` is kept as a state is: JSON values, arrays
        and bytes."""
        return inbox, memory

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        """Learn from the broadcast: the result of ``combine``, by default the parcels by site name."""

    @abstractmethod
    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        """Class probabilities ``(n, classes)`` in the order of ``site.classes``."""


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """The parameters of its constructor."""
    if kind.__init__ is object.__init__:  # type: ignore[misc]
        return {}
    return dict(list(inspect.signature(kind.__init__).parameters.items())[1:])  # type: ignore[misc]
