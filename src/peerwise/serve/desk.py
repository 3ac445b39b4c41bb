"""What a bundle can answer, whatever is in it: the one thing that the service asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs
from peerwise.data.task import TaskFeature

if TYPE_CHECKING:
    from peerwise.trust.prediction_sets import PredictionSets

LEVEL = 0.9  # of the prediction sets, unless a client chooses another


@dataclass(frozen=True)
class ServedModel:
    """A model that may be consulted; ``version`` is the edition that its site published, "" where there is none."""

    name: str
    site: str
    own: bool
    version: str
    sha256: str


@dataclass(frozen=True)
class About:
    """Of a bundle. ``digest`` stands for all of it; ``inputs`` are the shapes of one row by name; ``features`` are
    those of a table, where they are known by name. ``calibration_rows`` are behind the prediction sets (0: every
    answer is unsure), which are of the kind ``sets``; ``frugal``: whether fewer models can be asked. ``validation``
    has the figures of `fit`, where there are any; ``own_models_answer``: whether the own models answer alone, as they
    did better than with peers."""

    digest: str
    site: str
    method: str
    task: str
    kind: str
    classes: tuple[str, ...]
    positive: str | None
    target: str
    inputs: dict[str, tuple[int, ...]]
    features: tuple[TaskFeature, ...]
    models: tuple[ServedModel, ...]
    made: int | None
    calibration_rows: int
    frugal: bool
    sets: str = "marginal"
    validation: dict[str, Any] | None = None
    own_models_answer: bool = False


@dataclass(frozen=True, eq=False)
class Served:
    """Answers to n rows: ``probabilities`` (n, classes); ``answers`` (n,), class codes by the method's decision rule;
    ``own`` the mean of the own models (n, classes); ``trust`` and ``consulted`` (n, models), in the order of
    `About.models`; ``fallback`` (n,): no model seemed reliable. None where the method has none. ``failed``: models
    without an answer to some rows, and why."""

    probabilities: NDArray[np.float64]
    answers: NDArray[np.int64]
    own: NDArray[np.float64] | None = None
    trust: NDArray[np.float64] | None = None
    consulted: NDArray[np.bool_] | None = None
    fallback: NDArray[np.bool_] | None = None
    failed: dict[str, str] = field(default_factory=dict)


class Desk(ABC):
    """One bundle, opened; one caller at a time. It keeps nothing of what it is asked."""

    about: About

    @abstractmethod
    def answer(self, X: Inputs, *, frugal: bool = False) -> Served:
        """Answers to rows as the task has them."""

    @abstractmethod
    def sets(self, *, frugal: bool = False) -> PredictionSets:
        """What tells sure answers from unsure ones; without calibration rows all are unsure."""

    @abstractmethod
    def explain(self, X: Inputs) -> dict[str, Any] | None:
        """One row opened; None where the method cannot tell.

        * ``models``: by trust, each with ``name``, ``says``, ``confidence``, ``trust``, ``competence``,
          ``right_nearby``, ``of_nearby``
        * ``neighbours``: by weight, each with ``row``, ``label``, ``distance``, ``weight``; where the site's rows are
          at hand also ``part`` ("train" or "validation"), ``case`` (its number there, as `cases` has it) and ``values``
          (by feature)
        * ``agreed``: whether all models say the same; ``agreement``: that in words
        * ``influence``: by site, how much of the answer's probability is owed to it
        * ``fallback``; ``note``: the most important remark, or ""
        """

    @abstractmethod
    def peers(self) -> list[dict[str, Any]]:
        """A line a site, the own one first: ``site``, ``own``, ``models`` (names), ``version``, ``created``,
        ``expires``, ``card``, and on the validation rows ``contribution`` (mean trust), ``agreement`` (share of rows
        answered as the method does), ``accuracy``, ``right_where_own_fails``; ``warnings``, a sentence each. None for
        what is not known."""

    @abstractmethod
    def cases(self) -> list[dict[str, Any]]:
        """The site's validation cases, where its rows are at hand: ``case`` (a number), ``label``, ``row`` (as a client
        would send it)."""

    @abstractmethod
    def is_alive(self) -> bool:
        """Whether peers' models can be asked just now."""

    def revive(self) -> bool:
        """Start its guarded process anew if it has died: who asks next does not wait for it, and what could not be
        started a while ago may be started now. Whether that was so, and it runs."""
        return False

    @property
    def restarts(self) -> int:
        """How often its guarded process had to be started anew."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """End its processes."""
