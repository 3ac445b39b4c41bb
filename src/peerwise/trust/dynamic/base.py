"""What all dynamic selection rules share: known rows, neighbours, agreement, fallback. A rule adds its few lines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ConfigError, ParcelError
from peerwise.models.outputs import count_rows
from peerwise.space.neighbours import Neighbourhood
from peerwise.space.outputs import Array
from peerwise.space.region import KnownRows, Space
from peerwise.trust.base import Decision, Labelled, TrustLearner, Vote, some_rows
from peerwise.trust.explanation import Explanation, explain_row, one_row

Weights = NDArray[Any]  # (n, models), not negative


@dataclass(frozen=True)
class Nearby:
    """All that a rule knows of n rows to answer: their neighbours among the known rows, and what each model says."""

    known: KnownRows
    index: NDArray[np.int64]  # (n, k), nearest first
    distance: Array
    logits: Array
    says: NDArray[np.int32]  # (n, models)

    @property
    def k(self) -> int:
        return int(self.index.shape[1])

    @property
    def classes(self) -> int:
        return int(self.logits.shape[2])

    @cached_property
    def hits(self) -> NDArray[np.int32]:
        """``(n, models)``: the neighbours that each model answers rightly."""
        return summed(self.known.correct, self.index)


def summed(values: NDArray[Any], index: NDArray[np.int64]) -> NDArray[np.int32]:
    """Whole numbers ``(rows, models)`` of the known rows, summed over the neighbours of each row."""
    found = np.zeros((len(index), values.shape[1]), np.int32)
    for rows in index.T:
        found += values[rows]
    return found


class DynamicRule(TrustLearner):
    """A rule of dynamic selection. A subclass writes ``_weigh(near)``: weights of the models, 0 for those not selected.

    As in DESlib (Cruz et al., JMLR 2020): what all models agree on is the answer, all models trusted alike; elsewhere
    the weights come from the ``k`` nearest known rows, normalised; where they are all zero nobody is selected, all
    models vote alike and the row counts as ``fallback``. The rows given to ``fit`` are the known rows (DESlib's DSEL),
    and validation rows are more of them. Own models are judged by their out-of-fold columns. Where models tie for a
    place, own models come first, then the lower column.

    ``space="inputs"`` measures Euclidean distance over the inputs, as DESlib does, but on one scale: numbers are
    standardised, categories one-hot, missing values at the mean, images and sequences flattened (`InputFeatures`). Such
    a learner holds its site's rows, and stays there. ``space="decision"`` measures L1 distance over all models'
    probabilities, and needs no inputs.

    From DESlib: ``pool_classifiers`` and ``k`` are the first two arguments; ``voting`` is ``vote``, ``knn_metric`` is
    ``space``. The pool is always fitted, so that nothing is split off (``DSEL_perc``). ``DFP``, ``with_IH``,
    ``safe_k``, ``IH_rate``, ``knn_classifier`` and ``n_jobs`` have no counterpart.
    """

    def __init__(
        self,
        pool: Any = None,
        k: int = 7,
        *,
        own: Sequence[str | int] = (),
        space: Space = "inputs",
        vote: Vote = "hard",
    ) -> None:
        super().__init__(pool, own=own, vote=vote)
        self.k = k
        self.space = space

    @abstractmethod
    def _weigh(self, near: Nearby) -> Weights:
        """Weights of the models for rows that they do not agree on."""

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "k")
        if self.space not in ("inputs", "decision"):
            raise ConfigError(f"space={self.space!r}: expected 'inputs' or 'decision'.")

    def explain(self, x: Any) -> Explanation:
        """The neighbours, votes and weights behind the answer for one row; competence is the share of neighbours that a
        model answers rightly."""
        self._check_pool()
        logits, row = self._ask(one_row(x, self._example))
        near = self._near(logits, row, _answers(logits))
        decision = replace(self._decide(logits, row), competence=near.hits / near.k)
        even = np.full(near.index.shape, 1 / near.k, np.float32)
        around = Neighbourhood(near.index, near.distance, even)
        return explain_row(cast(Any, self), decision, self._probabilities(decision, logits)[0], logits[0], around)

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        parts = [rows, validation] if validation is not None else [rows]
        logits, y = np.concatenate([part.logits for part in parts]), np.concatenate([part.y for part in parts])
        self.space_ = KnownRows.fit(logits, y, [part.X for part in parts] if self.space == "inputs" else None)

    def _decide(self, logits: Array, X: Any) -> Decision:
        says = _answers(logits)
        split = np.flatnonzero((says != says[:, :1]).any(axis=1))
        weights = np.ones(says.shape)
        if len(split):
            weights[split] = self._weigh(self._near(logits[split], _some(X, split), says[split]))
        total = weights.sum(axis=1, keepdims=True)
        nobody = total == 0
        weights /= np.where(nobody, 1, total)
        weights[nobody[:, 0]] = 1 / says.shape[1]
        return Decision(weights, None, nobody[:, 0])

    def _near(self, logits: Array, X: Any, says: NDArray[np.int32]) -> Nearby:
        return Nearby(self.space_, *self.space_.nearest(self.space_.place(logits, X), self.k), logits, says)

    def _by_place(self) -> NDArray[np.int64]:
        """The columns in the order in which ties are broken."""
        models = len(self.model_names_)
        return np.array([*self.own_, *(m for m in range(models) if m not in self.own_)])

    def _mix(self, trust: NDArray[np.float64], logits: Array) -> NDArray[np.float64]:
        if self.vote == "soft":
            return super()._mix(trust, logits)
        from peerwise.space.loops import tally

        votes = np.round(tally(_answers(logits), trust, logits.shape[2]), 12)  # as in TrustLearner: a tie stays one
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def _fitted_tree(self) -> dict[str, Any]:
        return {"rows": self.space_.to_tree()}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        self.space_ = KnownRows.from_tree(tree["rows"], len(self.model_names_), len(self.classes_))
        if self.space_.space != self.space:
            raise ParcelError(f"the saved rows lie in the space of {self.space_.space}: expected {self.space!r}.")


def _some(X: Any, rows: NDArray[np.int64]) -> Any:
    return X if X is None or len(rows) == count_rows(X) else some_rows(X, rows)


def _answers(logits: Array) -> NDArray[np.int32]:
    from peerwise.space.loops import answers

    found: NDArray[np.int32] = answers(logits)
    return found
