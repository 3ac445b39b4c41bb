"""graphroute 0.1.7 on given pool outputs, in its own environment: python graphroute_pool.py '{"file": "POOL.npz"}'.

Settings are those of rigfl's FedDES, or with ``k_per_class`` those of the paper as far as graphroute has them. For
every site k the file has train_logits_k (n, models, classes) and train_y_k, and the same for validation and test."""

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
RIGFL = {"epochs": 500, "patience": 50, "es_metric": "val_acc"}
PAPER = {"epochs": 300, "patience": 20, "es_metric": "val_loss", "lr": 1e-3, "use_edge_attr": True}
CLASS_BALANCED = {"neighbor_mode": "class_balanced", "weight_mode": "cmdw"}


class Column(torch.nn.Module):
    """Pool member m: reads its answer from the table of outputs that stands in for the inputs."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.column = column
        self.unused = torch.nn.Parameter(torch.zeros(1))  # graphroute asks a model for its device

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs[:, self.column]


def selection(
    file: str,
    epochs: int | None = None,
    batches: bool = True,
    sites: int | None = None,
    k_per_class: int | None = None,
) -> dict[str, Any]:
    """CPU seconds by phase over all sites, or the first so many.

    ``batches``: the queries once more, 32 at a time. ``k_per_class``: the class-balanced graph with so many neighbors
    of every class. An epoch is one step on the whole graph.
    """
    graph, gnn = ({}, RIGFL) if k_per_class is None else ({**CLASS_BALANCED, "k": k_per_class}, PAPER)
    gnn = {**gnn, **VOTING} if epochs is None else {**gnn, **VOTING, "epochs": epochs}
    tables, clock = np.load(file), Clock("queries", "batches")
    clock.around(graphroute, "build_graph", "graph")
    clock.around(graphroute, "train_gnn", "learning")
    found: dict[str, Any] = {"right": [], "fallback": [], "epochs": 0}
    for site in range(sites or int(tables["sites"])):
        parts = {role: _dataset(tables, role, site) for role in ROLES}
        model = _fitted(parts, graph, gnn, clock)
        answered = _asked(model, parts["test"], len(parts["test"]), "queries", clock)
        if batches:
            _asked(model, parts["test"], 32, "batches", clock)
        right = np.concatenate([each["predictions"].numpy() for each in answered]) == parts["test"].tensors[1].numpy()
        found["right"].append(float(right.mean()))
        found["fallback"].append(float(np.mean([each["fallback"].float().mean() for each in answered])))
        found["epochs"] += len(model.history["history"])
    return {**found, "steps": found["epochs"], "seconds": clock.cpu}


def _dataset(tables: Any, role: str, site: int) -> TensorDataset:
    logits, y = tables[f"{role}_logits_{site}"].astype(np.float32), tables[f"{role}_y_{site}"].astype(np.int64)
    return TensorDataset(torch.from_numpy(logits), torch.from_numpy(y))


def _fitted(parts: dict[str, TensorDataset], graph: dict[str, Any], gnn: dict[str, Any], clock: Clock) -> Any:
    logits = parts["train"].tensors[0]
    members = [Column(m) for m in range(logits.shape[1])]
    pool = PoolArtifact(
        fingerprint="given",
        model_ids=tuple(f"model-{member.column}" for member in members),
        model_factories=tuple(lambda: None for _ in members),
        models=members,
        training_outputs=logits,
    )
    config = GraphRouteConfig(dataset="given", num_classes=logits.shape[2], device="cpu", graph=graph, gnn=gnn)
    with clock.during("rest"):
        return graphroute.fit_graphroute(config, parts["train"], validation_set=parts["validation"], pool=pool)


def _asked(model: Any, queries: TensorDataset, size: int, phase: str, clock: Clock) -> list[dict[str, Any]]:
    """Every call builds the graph of all training rows anew."""
    parts = [[tensor[start : start + size] for tensor in queries.tensors] for start in range(0, len(queries), size)]
    with clock.during(phase):
        return [model.predict(TensorDataset(*part), cache_outputs=False) for part in parts]


if __name__ == "__main__":
    told(selection)
