"""Learners that estimate each model's competence on each row, and the selection rule they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import DataError
from peerwise.space import DecisionSpace
from peerwise.space.outputs import Array
from peerwise.trust.base import Decision, Labelled, TrustLearner, Vote
from peerwise.trust.explanation import Explanation, explain_row, one_row

Weights = Literal["sigmoid", "logit"]
THRESHOLD = 0.5


def select_by_competence(competence: NDArray[np.float64], weights: Weights = "sigmoid") -> Decision:
    """Weight the models with competence q > 0.5; if there is none, all models alike.

    ``weights="sigmoid"``: w = q. ``weights="logit"``: w = log(q / (1 - q)), which is positive exactly where q > 0.5.
    Weights are normalized over the selected models.
    """
    selected = competence > THRESHOLD
    raw = competence if weights == "sigmoid" else _logit(competence)
    chosen = np.where(selected, raw, 0.0)
    total = chosen.sum(axis=1, keepdims=True)
    fallback = np.asarray(~selected.any(axis=1))
    uniform = 1.0 / competence.shape[1]
    trust = np.where(fallback[:, None], uniform, chosen / np.where(total > 0, total, 1.0))
    return Decision(trust, competence, fallback)


def _logit(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(q / (1 - q)), at least 0 and finite: q = 1 counts as the largest number below it (a logit of 36.7)."""
    inside = np.clip(q, THRESHOLD, np.nextafter(1.0, 0.0))
    return np.asarray(np.log(inside / (1 - inside)))


class CompetenceLearner(TrustLearner):
    """A subclass writes ``_learn`` (which sets ``space_``) and ``_competence(logits, X)`` with values in [0, 1]."""

    space_: DecisionSpace

    def competence(self, X: Any) -> NDArray[np.float64]:
        """``(n, models)`` in [0, 1]: how likely each model is to be right, for each row."""
        return self._competence(*self._ask(X))

    def explain(self, x: Any) -> Explanation:
        """The neighbours, votes and weights behind the answer for one row (shaped like a row of X, or one row of X)."""
        self._check_pool()
        return self._explained(*self._ask(one_row(x, self._example)))

    def explain_outputs(self, outputs: ArrayLike, X: Any = None) -> Explanation:
        """As `explain`, from what the pool says of one row, ``(1, models, classes)``, and that row."""
        logits = self._checked(outputs, "outputs")
        if len(logits) != 1:
            raise DataError(f"explain_outputs takes one row, got {len(logits)}: pass outputs[i:i + 1], X[i:i + 1].")
        return self._explained(logits, X)

    def _explained(self, logits: Array, row: Any) -> Explanation:
        near = self.space_.around(self.space_.project(logits))
        decision = self._decide(logits, row)
        influence = dict(zip(self.sites_, self._influence(logits, row)[0].tolist(), strict=True))
        said = self._probabilities(decision, logits)[0]
        return explain_row(self, decision, said, logits[0], near, influence, getattr(self, "row_numbers_", None))

    @abstractmethod
    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        """``(n, models)`` in [0, 1]."""

    def _decide(self, logits: Array, X: Any) -> Decision:
        return select_by_competence(self._competence(logits, X))

    def _fitted_tree(self) -> dict[str, Any]:
        return {"space": self.space_.to_tree()}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        self.space_ = DecisionSpace.from_tree(tree["space"])

    def _votes(self, logits: Array) -> Array:
        return self.space_.project(logits) if self.vote == "soft" else super()._votes(logits)


class NeighbourhoodAccuracy(CompetenceLearner):
    """Nothing learned: competence = weighted accuracy of a model on the class-aware neighbours of a row."""

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        k: int = 5,
        calibrate: bool = True,
        vote: Vote = "hard",
    ) -> None:
        super().__init__(pool, own=own, vote=vote)
        self.k = k
        self.calibrate = calibrate

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "k")

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        self.space_ = DecisionSpace.fit(rows.logits, rows.y, k=self.k, calibrated=self.calibrate)

    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        near = self.space_.around(self.space_.project(logits))
        return np.clip(self.space_.competence(near).accuracy, 0.0, 1.0)
