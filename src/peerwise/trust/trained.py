"""Competence learners whose competence is learned by a net: training, settings and keeping, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from peerwise.errors import ConfigError
from peerwise.models import one_thread
from peerwise.models.training import Batch, Training, train
from peerwise.trust.competence import CompetenceLearner

Net = TypeVar("Net", bound=nn.Module)
Scores = Callable[[Tensor], Tensor]
bce = nn.functional.binary_cross_entropy_with_logits


class TrainedCompetence(CompetenceLearner):
    """loss = mean over train rows and models of BCE(s_im, Z_im), Adam, early stopping on the validation rows' loss.

    A subclass has the settings below as constructor parameters, sets ``net_`` and calls ``_train``.
    """

    hidden: int
    dropout: float
    lr: float
    epochs: int
    patience: int
    fixed_epochs: int
    batch_size: int
    net_: Any
    training_: Training

    def _train(
        self, inputs: Tensor, targets: Tensor, scores: Scores, held_out: tuple[Callable[[], Tensor], Tensor] | None
    ) -> None:
        """``scores(some inputs)`` are the logits to train; ``held_out``: those of the validation rows, and their Z."""

        def loss(net: nn.Module, batch: Batch) -> Tensor:
            return bce(scores(batch[0]), batch[1])

        def validate() -> float:
            assert held_out is not None
            return float(bce(held_out[0](), held_out[1]))

        with one_thread():
            self.training_ = train(
                self.net_,
                (inputs, targets),
                loss=loss,
                validate=validate if held_out else None,
                epochs=self.epochs if held_out else min(self.fixed_epochs, self.epochs),
                batch_size=self.batch_size,
                lr=self.lr,
                patience=self.patience,
                min_delta=1e-6,
                halve_after=max(self.patience // 2, 1),
                seed=self.seed_,
            )

    def _seeded(self, make: Callable[[], Net]) -> Net:
        """A new net whose first weights follow the seed alone; the caller's random state is left as it was."""
        self.seed_ = self._seed()
        return _made(make, self.seed_)

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "hidden", "epochs", "patience", "fixed_epochs", "batch_size")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout!r}: expected a number from 0 to below 1.")
        if not self.lr > 0:
            raise ConfigError(f"lr={self.lr!r}: expected a number above 0.")

    def _fitted_tree(self) -> dict[str, Any]:
        weights = {name: value.cpu().numpy() for name, value in self.net_.state_dict().items()}
        return {**super()._fitted_tree(), "net": weights}

    def _restored(self, make: Callable[[], Net], tree: dict[str, Any]) -> Net:
        net = _made(make, 0)
        net.load_state_dict({name: torch.tensor(value) for name, value in tree["net"].items()})
        return net.eval()


def _made(make: Callable[[], Net], seed: int) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
