"""DES-KNN: the most accurate models around a row, and of these the most diverse."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from numbers import Real
from typing import Any

import numpy as np

from peerwise.errors import ConfigError
from peerwise.space.region import Space
from peerwise.trust.base import Vote
from peerwise.trust.dynamic.base import DynamicRule, Nearby, Weights, summed


class DESKNN(DynamicRule):
    """DES-KNN (Soares et al., 2006): of the N most accurate models on the neighbours, the J most diverse.

        N = floor(pct_accuracy * M), J = ceil(pct_diversity * M), each at least 1, J at most N
        fault(m) = sum over neighbours on which m is wrong of the number of other models that are wrong there

    and the J with the lowest fault are selected: as in DESlib the double fault of a model with every other of the pool.
    Where no model is right on any neighbour nobody is selected and all vote; DESlib selects J even there.
    See `DynamicRule` for what all rules share.
    """

    def __init__(
        self,
        pool: Any = None,
        k: int = 7,
        *,
        pct_accuracy: float = 0.5,
        pct_diversity: float = 0.3,
        own: Sequence[str | int] = (),
        space: Space = "inputs",
        vote: Vote = "hard",
    ) -> None:
        super().__init__(pool, k, own=own, space=space, vote=vote)
        self.pct_accuracy = pct_accuracy
        self.pct_diversity = pct_diversity

    def check_settings(self) -> None:
        super().check_settings()
        for name in ("pct_accuracy", "pct_diversity"):
            value: float = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0 < value <= 1:
                raise ConfigError(f"{name}={value!r}: expected a share of the models above 0, at most 1.")

    def _weigh(self, near: Nearby) -> Weights:
        order = self._by_place()
        models, rows = len(order), np.arange(len(near.index))[:, None]
        accurate = max(1, int(self.pct_accuracy * models))
        diverse = min(accurate, ceil(self.pct_diversity * models))
        wrong = ~near.known.correct
        fault = summed((wrong * (wrong.sum(axis=1, keepdims=True) - 1)).astype(np.int32), near.index)
        best = order[np.argsort(-near.hits[:, order], axis=1, kind="stable")[:, :accurate]]
        spread = np.argsort(fault[rows, best], axis=1, kind="stable")[:, :diverse]
        weights = np.zeros(near.says.shape, bool)
        weights[rows, best[rows, spread]] = near.hits.max(axis=1, keepdims=True) > 0
        return weights
