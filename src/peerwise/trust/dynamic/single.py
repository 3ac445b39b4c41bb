"""Rules that select one model for each row: overall and local class accuracy."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.trust.dynamic.base import DynamicRule, Nearby, Weights


class SingleBest(DynamicRule):
    """The one model with the highest score, of several the first own one or else the lowest column. Where every score
    is 0, which DESlib gives to the lowest column, nobody is selected and all models vote."""

    @abstractmethod
    def _score(self, near: Nearby) -> NDArray[Any]:
        """``(n, models)``, from 0."""

    def _weigh(self, near: Nearby) -> Weights:
        score, order = self._score(near), self._by_place()
        best = order[score[:, order].argmax(axis=1)] if self.own_ else score.argmax(axis=1)
        rows = np.arange(len(score))
        weights = np.zeros(score.shape)
        weights[rows, best] = score[rows, best] > 0
        return weights


class OLA(SingleBest):
    """Overall local accuracy (Woods, Kegelmeyer & Bowyer, 1997): the model that is right on most neighbours.

    See `SingleBest` for ties and `DynamicRule` for what all rules share.
    """

    def _score(self, near: Nearby) -> NDArray[Any]:
        return near.hits


class LCA(SingleBest):
    """Local class accuracy (Woods, Kegelmeyer & Bowyer, 1997): the model that is right most often on the neighbours to
    which it gives the same class as to the row; 0 where there is no such neighbour.

    DESlib's code takes the neighbours whose true class is that one instead, so that a model which always gives it is
    never wrong there. See `SingleBest` for ties and `DynamicRule` for what all rules share.
    """

    def _score(self, near: Nearby) -> NDArray[Any]:
        right, alike = np.zeros(near.says.shape, np.int32), np.zeros(near.says.shape, np.int32)
        for rows in near.index.T:
            same = near.says == near.known.says[rows]
            alike += same
            right += same & near.known.correct[rows]
        return np.asarray(right / np.maximum(alike, 1))
