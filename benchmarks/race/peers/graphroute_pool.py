"""graphroute 0.1.7 on given pool outputs, in its own environment: python graphroute_pool.py '{"file": "POOL.npz"}'.

Settings are those of rigfl's FedDES. For every site k the file has train_logits_k (n, models, classes) and train_y_k,
and the same for validation and test."""

from __future__ import annotations

from typing import Any

import graphroute.run as graphroute
import numpy as np
import torch
from clock import Clock, told
from graphroute.config import GraphRouteConfig
from graphroute.pool_cache import PoolArtifact
from torch.utils.data import TensorDataset

ROLES = ("train", "validation", "test")
VOTING = {"ens_combination_mode": "hard_weighted_voting", "voting_weight_space": "sig"}


class Column(torch.nn.Module):
    """Pool member m: reads its answer from the table of outputs that stands in for the inputs."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.column = column
        self.unused = torch.nn.Parameter(torch.zeros(1))  # graphroute asks a model for its device

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs[:, self.column]


def selection(file: str, epochs: int = 500, batches: bool = True) -> dict[str, Any]:
    """CPU seconds by phase over all sites; ``batches``: the queries once more, 32 at a time."""
    tables, clock = np.load(file), Clock("queries", "batches")
    clock.around(graphroute, "build_graph", "graph")
    clock.around(graphroute, "train_gnn", "learning")
    found: dict[str, Any] = {"right": [], "fallback": [], "epochs": 0}
    for site in range(int(tables["sites"])):
        parts = {role: _dataset(tables, role, site) for role in ROLES}
        model = _fitted(parts, epochs, clock)
        answered = _asked(model, parts["test"], len(parts["test"]), "queries", clock)
        if batches:
            _asked(model, parts["test"], 32, "batches", clock)
        right = np.concatenate([each["predictions"].numpy() for each in answered]) == parts["test"].tensors[1].numpy()
        found["right"].append(float(right.mean()))
        found["fallback"].append(float(np.mean([each["fallback"].float().mean() for each in answered])))
        found["epochs"] += len(model.history["history"])
    return {**found, "seconds": clock.cpu}


def _dataset(tables: Any, role: str, site: int) -> TensorDataset:
    logits, y = tables[f"{role}_logits_{site}"].astype(np.float32), tables[f"{role}_y_{site}"].astype(np.int64)
    return TensorDataset(torch.from_numpy(logits), torch.from_numpy(y))


def _fitted(parts: dict[str, TensorDataset], epochs: int, clock: Clock) -> Any:
    logits = parts["train"].tensors[0]
    members = [Column(m) for m in range(logits.shape[1])]
    pool = PoolArtifact(
        fingerprint="given",
        model_ids=tuple(f"model-{member.column}" for member in members),
        model_factories=tuple(lambda: None for _ in members),
        models=members,
        training_outputs=logits,
    )
    gnn = {"epochs": epochs, "patience": 50, "es_metric": "val_acc", **VOTING}
    config = GraphRouteConfig(dataset="given", num_classes=logits.shape[2], device="cpu", gnn=gnn)
    with clock.during("rest"):
        return graphroute.fit_graphroute(config, parts["train"], validation_set=parts["validation"], pool=pool)


def _asked(model: Any, queries: TensorDataset, size: int, phase: str, clock: Clock) -> list[dict[str, Any]]:
    """Every call builds the graph of all training rows anew."""
    parts = [[tensor[start : start + size] for tensor in queries.tensors] for start in range(0, len(queries), size)]
    with clock.during(phase):
        return [model.predict(TensorDataset(*part), cache_outputs=False) for part in parts]


if __name__ == "__main__":
    told(selection)
