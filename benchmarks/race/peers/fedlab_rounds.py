"""FedAvg on FedLab 1.3.0, its standalone pipeline: python fedlab_rounds.py '{"file": ..., ...}'. Its loop as it is; no
evaluation before the end. Rows come by torch's DataLoader, one a site and round, as in FedLab's own data sets; those
read a file for each, these are in memory."""

from __future__ import annotations

import random
from typing import Any

import torch
import torchvision_ops  # noqa: F401  # before torchvision is imported
from clock import told
from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler
from fedlab.core.standalone import StandalonePipeline
from sites_task import RoundEnds, Task, load_task
from torch.utils.data import DataLoader, TensorDataset


class Sites:
    def __init__(self, task: Task) -> None:
        self.sites = [TensorDataset(X, y) for X, y in task.train]

    def get_dataloader(self, id: int, batch_size: int) -> DataLoader[Any]:
        return DataLoader(self.sites[id], batch_size=batch_size, shuffle=True)


class Pipeline(StandalonePipeline):  # type: ignore[misc]
    ends: RoundEnds

    def evaluate(self) -> None:
        self.ends.note()


def run(file: str, net: str, rounds: int, batch: int, lr: float, join: float) -> dict[str, Any]:
    task = load_task(file, net)
    random.seed(0)
    handler = FedAvgServerHandler(task.net, global_round=rounds, sample_ratio=join)
    trainer = FedAvgSerialClientTrainer(task.net, len(task.train))
    trainer.setup_dataset(Sites(task))
    trainer.setup_optim(1, batch, lr)
    pipeline = Pipeline(handler, trainer)
    pipeline.ends = RoundEnds()
    torch.manual_seed(0)
    pipeline.main()
    task.net = handler.model
    return {"ends": pipeline.ends.seconds, "accuracy": task.accuracy()}


if __name__ == "__main__":
    told(run)
