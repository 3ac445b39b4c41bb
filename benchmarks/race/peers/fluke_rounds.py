"""FedAvg on fluke 0.8.1: python fluke_rounds.py '{"file": ..., ...}'. Its loop as it is, progress bars included; the
evaluation of every round on the server's test rows, its default, is off."""

from __future__ import annotations

from typing import Any

import torchvision_ops  # noqa: F401  # before torchvision is imported
from clock import told
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import FederationObserver
from sites_task import RoundEnds, load_task


class NoteRoundEnd(FederationObserver):  # type: ignore[misc]
    def __init__(self, ends: RoundEnds) -> None:
        self.ends = ends

    def end_round(self, round: int) -> None:
        self.ends.note()


def run(file: str, net: str, rounds: int, batch: int, lr: float, join: float) -> dict[str, Any]:
    task, ends = load_task(file, net), RoundEnds()
    environment = FlukeENV()
    environment.set_seed(0)
    environment.set_eval_cfg(server=False)
    # It leaves out a last batch of one row by default; nobody else does.
    about = {"num_labels": 10, "batch_size": batch, "shuffle": True, "skip_singleton": False}
    loaders = [FastDataLoader(X, y, **about) for X, y in task.train]
    sites = len(loaders)
    data = DummyDataContainer(loaders, [None] * sites, None, 10)
    client = {"batch_size": batch, "local_epochs": 1, "loss": "CrossEntropyLoss"}
    client |= {"optimizer": {"name": "SGD", "lr": lr}, "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1}}
    settings = DDict(model=task.net, client=DDict(client), server=DDict(weighted=True))
    algorithm = FedAVG(sites, DataSplitter(data), settings)
    algorithm.set_callbacks(NoteRoundEnd(ends))
    algorithm.run(rounds, join)
    task.net = algorithm.server.model
    return {"ends": ends.seconds, "accuracy": task.accuracy()}


if __name__ == "__main__":
    told(run)
