"""FedDES without its graph, to see what the graph is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.space import DecisionSpace
from peerwise.space.competence import meta_labels
from peerwise.space.outputs import Array, flat
from peerwise.trust.base import Labelled, Vote
from peerwise.trust.trained import TrainedCompetence


class DecisionMLP(TrainedCompetence):
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
        self.net_ = self._seeded(self._new_net)
        held_out = None
        if validation is not None:
            inputs = self._inputs(validation.logits)
            held_out = (lambda: self.net_(inputs), _tensor(meta_labels(validation.logits, validation.y)))
        self._train(self._inputs(rows.logits), _tensor(self.space_.correct), self.net_, held_out)

    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        with torch.no_grad():
            scores: Tensor = self.net_(self._inputs(logits))
        return torch.sigmoid(scores.double()).numpy()

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        self.net_ = self._restored(self._new_net, tree)

    def _new_net(self) -> nn.Module:
        models, classes = self.space_.probabilities.shape[1:]
        return nn.Sequential(
            nn.Linear(models * classes, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.hidden, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(self.hidden, models),
        )

    def _inputs(self, logits: Array) -> Tensor:
        return _tensor(flat(self.space_.project(logits)))


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.as_tensor(array.astype(np.float32))
