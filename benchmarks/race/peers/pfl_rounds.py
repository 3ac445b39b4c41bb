"""FedAvg on pfl 0.6.0: python pfl_rounds.py '{"file": ..., ...}'. Its loop as it is; no evaluation before the end.

All sites take part in turn (``minimize_reuse``, its recommended sampler), or some drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from clock import told
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from sites_task import RoundEnds, load_task
from torch import nn


class NoteRoundEnd(TrainingProcessCallback):  # type: ignore[misc]
    def __init__(self, ends: RoundEnds) -> None:
        self.ends = ends

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        self.ends.note()
        return False, Metrics()


def run(file: str, net: str, rounds: int, batch: int, lr: float, join: float) -> dict[str, Any]:
    task, ends = load_task(file, net), RoundEnds()
    np.random.seed(0)  # noqa: NPY002  # pfl draws by numpy's global state

    def loss(X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        task.net.train()
        return nn.functional.cross_entropy(task.net(X), y)

    task.net.loss = loss  # type: ignore[assignment]
    task.net.metrics = lambda X, y: {}  # type: ignore[assignment]
    model = PyTorchModel(task.net, torch.optim.SGD, torch.optim.SGD(task.net.parameters(), lr=1.0))
    users = {str(place): PyTorchTensorDataset(rows, user_id=str(place)) for place, rows in enumerate(task.train)}
    sampler = get_user_sampler("minimize_reuse" if join == 1 else "random", list(users))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=max(1, round(join * len(users))),
            val_cohort_size=None,
        ),
        SimulatedBackend(FederatedDataset(users.__getitem__, sampler), None),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=lr, local_batch_size=batch),
        callbacks=[NoteRoundEnd(ends)],
    )
    return {"ends": ends.seconds, "accuracy": task.accuracy()}


if __name__ == "__main__":
    told(run)
