"""Learners that estimate each model's competence on each row, and the selection rule they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.models.training import Batch, train
from peerwise.space import DecisionSpace
from peerwise.space.outputs import Array
from peerwise.trust.base import Decision, Labelled, TrustLearner, Vote

THRESHOLD = 0.5


def select_by_competence(competence: NDArray[np.float64]) -> Decision:
    """w = q where q > 0.5, else 0, normalised over the selected; nobody selected: all models alike."""
    chosen = np.where(competence > THRESHOLD, competence, 0.0)
    total = chosen.sum(axis=1, keepdims=True)
    fallback = total[:, 0] == 0
    uniform = 1.0 / competence.shape[1]
    trust = np.where(fallback[:, None], uniform, chosen / np.where(total > 0, total, 1.0))
    return Decision(trust, competence, fallback)


class CompetenceLearner(TrustLearner):
    """A subclass writes ``_learn`` (which sets ``space_``) and ``_competence(logits, X)`` with values in [0, 1]."""

    space_: DecisionSpace

    def competence(self, X: Any) -> NDArray[np.float64]:
        """``(n, models)`` in [0, 1]: how likely each model is to be right, for each row."""
        return self._competence(*self._ask(X))

    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        raise NotImplementedError

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

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        self.space_ = DecisionSpace.fit(rows.logits, rows.y, k=self.k, calibrated=self.calibrate)

    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        near = self.space_.around(self.space_.project(logits))
        return self.space_.competence(near).accuracy


class DecisionMLP(CompetenceLearner):
    """FedDES without its graph: a two-layer perceptron from the decision vector to one competence logit a model."""

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        calibrate: bool = True,
        hidden: int = 128,
        dropout: float = 0.2,
        lr: float = 1e-3,
        epochs: int = 300,
        patience: int = 20,
        fixed_epochs: int = 40,
        batch_size: int = 32,
        vote: Vote = "hard",
        random_state: int | None = None,
    ) -> None:
        super().__init__(pool, own=own, vote=vote)
        self.calibrate = calibrate
        self.hidden = hidden
        self.dropout = dropout
        self.lr = lr
        self.epochs = epochs
        self.patience = patience
        self.fixed_epochs = fixed_epochs
        self.batch_size = batch_size
        self.random_state = random_state

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        self.space_ = DecisionSpace.fit(rows.logits, rows.y, calibrated=self.calibrate)
        seed = self._seed()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net_ = self._net(rows.logits.shape[1] * rows.logits.shape[2], rows.logits.shape[1])
        inputs = torch.as_tensor(self._inputs(rows.logits))
        targets = torch.as_tensor(self.space_.correct.astype(np.float32))
        self.training_ = train(
            self.net_,
            (inputs, targets),
            loss=_competence_loss,
            validate=self._validate(validation),
            epochs=self.epochs if validation else min(self.fixed_epochs, self.epochs),
            batch_size=self.batch_size,
            lr=self.lr,
            patience=self.patience,
            min_delta=1e-6,
            halve_after=max(self.patience // 2, 1),
            seed=seed,
        )

    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        with torch.no_grad():
            scores: Tensor = self.net_(torch.as_tensor(self._inputs(logits)))
        return torch.sigmoid(scores.double()).numpy()

    def _fitted_tree(self) -> dict[str, Any]:
        return {**super()._fitted_tree(), "net": {name: v.numpy() for name, v in self.net_.state_dict().items()}}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        models, classes = self.space_.probabilities.shape[1:]
        self.net_ = self._net(models * classes, models)
        self.net_.load_state_dict({name: torch.as_tensor(value) for name, value in tree["net"].items()})
        self.net_.eval()

    def _net(self, width: int, models: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(width, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.hidden, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.hidden, models),
        )

    def _inputs(self, logits: Array) -> Array:
        return self.space_.project(logits).reshape(len(logits), -1)

    def _validate(self, validation: Labelled | None) -> Any:
        if validation is None:
            return None
        inputs = torch.as_tensor(self._inputs(validation.logits))
        targets = torch.as_tensor((validation.logits.argmax(2) == validation.y[:, None]).astype(np.float32))
        return lambda: float(_competence_loss(self.net_, (inputs, targets)))


def _competence_loss(net: nn.Module, batch: Batch) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(net(batch[0]), batch[1])
