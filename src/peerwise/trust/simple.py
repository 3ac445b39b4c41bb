"""The honest comparisons that learn little or nothing: own models, the best single model, the plain average."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import PoolError
from peerwise.space.competence import meta_labels
from peerwise.space.outputs import Array
from peerwise.trust.base import Decision, Labelled, TrustLearner


class FixedTrust(TrustLearner):
    """Learners whose trust is the same for every row: a subclass writes ``_weights``."""

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        self.weights_ = self._weights(rows, validation)

    @abstractmethod
    def _weights(self, rows: Labelled, validation: Labelled | None) -> NDArray[np.float64]:
        """One weight a model, summing to one."""

    def _fitted_tree(self) -> dict[str, Any]:
        return {"weights": self.weights_}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        self.weights_ = tree["weights"]

    def _decide(self, logits: Array, X: Any) -> Decision:
        trust = np.repeat(self.weights_[None], len(logits), axis=0)
        return Decision(trust, None, np.zeros(len(logits), bool))


class OwnOnly(FixedTrust):
    """The own model: the uniform mean of the site's own models' probabilities. The bar that all others are held to."""

    def _weights(self, rows: Labelled, validation: Labelled | None) -> NDArray[np.float64]:
        if not self.own_:
            raise PoolError("own=(): expected at least one own model, by name or column, e.g. OwnOnly(pool, own=[0]).")
        weights = np.zeros(len(self.model_names_))
        weights[self.own_] = 1 / len(self.own_)
        return weights


class UniformAverage(FixedTrust):
    """Every model of the pool with equal weight; ``vote="hard"`` counts answers, ``"soft"`` averages probabilities."""

    def _weights(self, rows: Labelled, validation: Labelled | None) -> NDArray[np.float64]:
        models = len(self.model_names_)
        return np.full(models, 1 / models)


class BestSingle(FixedTrust):
    """The one model that is right most often on the rows at hand (own columns out of fold, validation rows included).

    Ties fall to own models first, then to the lower column.
    """

    def _weights(self, rows: Labelled, validation: Labelled | None) -> NDArray[np.float64]:
        correct = [meta_labels(part.logits, part.y) for part in (rows, validation) if part is not None]
        rate = np.concatenate(correct).mean(axis=0)
        preferred = np.isin(np.arange(len(rate)), self.own_)
        best = np.lexsort((~preferred, -rate))[0]
        return np.asarray(np.eye(len(rate))[best])
