"""Rules that select or weigh by which neighbours a model answers rightly: KNORA-E, KNORA-U, KNOP and DES-P."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerwise.trust.base import Vote
from peerwise.trust.dynamic.base import DynamicRule, Nearby, Weights


class KNORAE(DynamicRule):
    """K nearest oracles, eliminate (Ko, Sabourin & Britto, 2008): the models that are right on all ``k`` neighbours.

    If there is none the farthest neighbour is dropped, again and again, until there is one; a model is thus selected if
    none is right on more of the nearest neighbours in a row. Nobody right on the nearest one: all models.
    See `DynamicRule` for what all rules share.
    """

    def _weigh(self, near: Nearby) -> Weights:
        unbroken = np.ones(near.says.shape, bool)
        streak = np.zeros(near.says.shape, np.int32)
        for rows in near.index.T:
            unbroken &= near.known.correct[rows]
            streak += unbroken
        longest = streak.max(axis=1, keepdims=True)
        return np.asarray((streak == longest) & (longest > 0))


class KNORAU(DynamicRule):
    """K nearest oracles, union (Ko, Sabourin & Britto, 2008): a model's weight is the number of neighbours it is right
    on. Nobody right on any: all models.

    See `DynamicRule` for what all rules share.
    """

    def _weigh(self, near: Nearby) -> Weights:
        return near.hits


class KNOP(KNORAU):
    """K nearest output profiles (Cavalin, Sabourin & Suen, 2013): a model's weight is the number of rows it is right on
    among the ``k`` whose outputs are most alike.

    The same as ``KNORAU(space="decision")``: profiles are compared by L1 over all models' probabilities, where DESlib
    takes the Euclidean distance. See `DynamicRule` for what all rules share.
    """

    def __init__(self, pool: Any = None, k: int = 7, *, own: Sequence[str | int] = (), vote: Vote = "hard") -> None:
        super().__init__(pool, k, own=own, space="decision", vote=vote)


class DESP(DynamicRule):
    """DES performance (Woloszynski et al., 2012): the models that are right on more than 1 / C of the neighbours, which
    is what guessing among C classes would be. Nobody is: all models.

    See `DynamicRule` for what all rules share.
    """

    def _weigh(self, near: Nearby) -> Weights:
        return near.hits * near.classes > near.k
