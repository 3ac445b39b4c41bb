"""rigfl 0.3.0 on a split file, in its own environment: python rigfl_runs.py '{"what": "federation", ...}'."""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

import graphroute.pool
import graphroute.run
import numpy as np
import rigfl.experiment.run as rigfl
import torch
import yaml
from clock import Clock, told
from partition import write_partition
from rigfl.models import registry
from rigfl.models.cifar import SmallCNN


class SmallCNN8(SmallCNN):  # rigfl pickles the class of a net into its cache, so it must be importable from here
    def __init__(self, input_spec: object = None) -> None:
        super().__init__((8, 16), 64, 1, input_spec)


registry.MODEL_ARCHITECTURE_REGISTRY["small_cnn8"] = ("image", SmallCNN8)
registry.MODEL_FAMILIES["light"] = ["lenet5", "small_cnn", "small_cnn8"]


def measured(what: str, **arguments: Any) -> dict[str, Any]:
    return {"federation": federation, "rounds": rounds}[what](**arguments)


def federation(file: str, work: str, family: str) -> dict[str, Any]:
    """FedDES: seconds by phase over all clients, rows trained on and asked, each client's accuracy and bytes."""
    name = write_partition(Path(file), Path(work))
    os.chdir(work)
    clock, counts, kept = Clock("predict"), {"trained": 0, "asked": 0}, {}
    clock.around(graphroute.pool, "train_pool_oof", "train")
    clock.around(graphroute.pool, "collect_pool_predictions", "outputs")
    clock.around(graphroute.run, "fit_graphroute", "fit")
    clock.around(graphroute.run.GraphRouteModel, "predict", "predict")
    _before(graphroute.pool, "train_one_epoch", lambda net, loader, *_: _add(counts, "trained", loader.dataset))
    _before(graphroute.run.GraphRouteModel, "predict", lambda model, rows: _add(counts, "asked", rows))
    _before(rigfl, "partition_summary", lambda clients, *_: kept.update(clients=clients))
    result = _run(
        "feddes", name, {"model": registry.MODEL_FAMILIES[family][0], "model_family": family, "rounds": 1}, {}
    )
    clients = result["result"]["evaluation_history"]["clients"].values()
    return {
        "right": [client["test"]["accuracy"][-1] for client in clients],
        "own": [_own(place, client) for place, client in enumerate(kept["clients"])],
        "seconds": clock.wall,
        "cpu_seconds": clock.cpu,
        "rows_trained": counts["trained"],
        "rows_asked": counts["asked"],
        "bytes": _bytes(result),
    }


def rounds(file: str, work: str, method: str, count: int, net: str, width: int) -> dict[str, Any]:
    """Seconds between two averagings; the round of each client is the one with its best validation accuracy."""
    name = write_partition(Path(file), Path(work))
    os.chdir(work)
    module = importlib.import_module(f"rigfl.algorithms.{method}")
    kind = next(value for found, value in vars(module).items() if found.lower() == method)
    ends: list[float] = []
    _before(kind, "aggregate", lambda *_: ends.append(time.perf_counter()))
    algorithm = {"local_epochs": 1, "lr": 0.01} | ({"aux_model": net} if method == "fml" else {})
    result = _run(method, name, {"model": net, "shared_dim": width, "rounds": count, "eval_gap": 1}, algorithm)
    clients = result["result"]["evaluation_history"]["clients"].values()
    chosen = [int(np.argmax(client["validation"]["accuracy"])) for client in clients]
    right = [client["test"]["accuracy"][best] for client, best in zip(clients, chosen, strict=True)]
    return {"round": (ends[-1] - ends[0]) / (len(ends) - 1), "right": right, "bytes": _bytes(result)}


def _run(method: str, name: str, experiment: dict[str, Any], algorithm: dict[str, Any]) -> dict[str, Any]:
    common = {"dataset": name, "seed": 0, "batch": 32, "device": "cpu", "out_dir": "results", "quiet": True}
    Path("run.yaml").write_text(yaml.safe_dump({"experiment": {**common, **experiment}, "algorithm": algorithm}))
    return json.loads(Path(rigfl.run_experiment(method, "run.yaml")).read_text())


def _bytes(result: dict[str, Any]) -> dict[str, float]:
    """A client's mean, of what rigfl counts: the numbers alone, without names and shapes."""
    clients = result["resources"]["clients"].values()
    return {way: float(np.mean([client[f"{way}_bytes"] for client in clients])) for way in ("sent", "received")}


@torch.no_grad()
def _own(place: int, client: Any) -> float:
    """The accuracy of the client's own model of the same pool."""
    pool = client.state["graphroute_model"].pool
    column = next(m for m, name in enumerate(pool.model_ids) if name.startswith(f"client_{place}/"))
    net = pool.load_models()[column].eval()
    right = [(net(x).argmax(dim=1) == y).float() for x, y in client.test_loader]
    return float(torch.cat(right).mean())


def _before(owner: Any, name: str, watch: Any) -> None:
    function = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        watch(*args)
        return function(*args, **kwargs)

    setattr(owner, name, watched)


def _add(counts: dict[str, int], what: str, rows: Any) -> None:
    counts[what] += len(rows)


if __name__ == "__main__":
    told(measured)
