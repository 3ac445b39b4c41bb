"""The honest comparisons that learn little or nothing: own models, the best single model, plain averages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ConfigError, ParcelError, PoolError
from peerwise.space.competence import meta_labels
from peerwise.space.outputs import Array, softmax
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
        self.weights_ = _shares(tree, "weights", len(self.model_names_))

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


class PriorAdapted(FixedTrust):
    """The plain average of all models, each adapted to the site's label prior; nothing else is learned.

    p(c) = mean over models of p_m(c) pi(c)^power / sum_c' p_m(c') pi(c')^power, pi the class frequencies of the rows
    at hand (a class without rows counts as half a row). ``power`` 0 is the plain average.
    """

    def __init__(self, pool: Any = None, *, own: Sequence[str | int] = (), power: float = 0.5) -> None:
        super().__init__(pool, own=own, vote="soft")
        self.power = power

    def check_settings(self) -> None:
        super().check_settings()
        if not isinstance(self.power, Real) or isinstance(self.power, bool) or not 0 <= self.power < np.inf:
            raise ConfigError(f"power={self.power!r}: expected a finite number from 0.")

    def _weights(self, rows: Labelled, validation: Labelled | None) -> NDArray[np.float64]:
        y = np.concatenate([part.y for part in (rows, validation) if part is not None])
        count = np.maximum(np.bincount(y, minlength=rows.logits.shape[2]), 0.5)
        self.prior_ = count / count.sum()
        models = rows.logits.shape[1]
        return np.full(models, 1 / models)

    def _votes(self, logits: Array) -> Array:
        return softmax(logits + self.power * np.log(self.prior_))

    def _fitted_tree(self) -> dict[str, Any]:
        return {**super()._fitted_tree(), "prior": self.prior_}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        self.prior_ = _shares(tree, "prior", len(self.classes_))


def _shares(tree: dict[str, Any], name: str, count: int) -> NDArray[np.float64]:
    """Saved numbers from 0 that sum to one."""
    found: Any = tree.get(name)
    good = isinstance(found, np.ndarray) and found.shape == (count,) and found.dtype.kind == "f"
    if good and bool((found >= 0).all()) and abs(found.sum() - 1) < 1e-6:
        return np.asarray(found)
    raise ParcelError(
        f"the saved {name} are {' '.join(str(found).split())[:80]}: expected {count} numbers from 0 that sum to one. "
        f"They were changed or cut short: fit the learner again."
    )
