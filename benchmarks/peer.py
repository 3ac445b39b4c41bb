"""The peer's side of the benchmarks: runs in an environment with rigfl 0.3.0 and graphroute 0.1.7, not in ours.

python peer.py selection POOL.npz [--balanced] [--epochs 500]
python peer.py federation SPLIT.npz WORK_FOLDER
python peer.py rounds SPLIT.npz WORK_FOLDER --method fedproto [--rounds 30]
Prints one JSON object in its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

ROLES = ("train", "validation", "test")
NETS = ("lenet5", "small_cnn", "small_cnn8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("selection", "federation", "rounds"))
    parser.add_argument("file", type=Path)
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--balanced", action="store_true")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--method", default="fedavg")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--evaluate-every", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if a.what == "selection":
        said = selection(a.file, a.balanced, a.epochs)
    elif a.what == "federation":
        said = federation(a.file, a.work.resolve())
    else:
        said = rounds(a.file, a.work.resolve(), a.method, a.rounds, a.evaluate_every)
    print(json.dumps(said))


# ---- selection: graphroute on given pool outputs ---------------------------------------------------------------------


class Column(torch.nn.Module):
    """Pool member m: reads its answer from the table of outputs that stands in for the inputs."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.column = column
        self.unused = torch.nn.Parameter(torch.zeros(1))  # graphroute asks a model for its device

    def forward(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs[:, self.column]


def selection(file: Path, balanced: bool, epochs: int) -> dict[str, object]:
    tables = np.load(file)
    sites = int(tables["sites"])
    total: dict[str, float] = {}
    for site in range(sites):
        for key, value in _select(tables, site, balanced, epochs).items():
            total[key] = total.get(key, 0.0) + value
    total["accuracy"] /= sites
    total["fallback"] /= sites
    return {**total, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _select(tables: np.lib.npyio.NpzFile, site: int, balanced: bool, epochs: int) -> dict[str, float]:
    import graphroute.run as graphroute
    from graphroute.config import GraphRouteConfig
    from graphroute.pool_cache import PoolArtifact

    parts = {}
    for role in ROLES:
        logits, y = tables[f"{role}_logits_{site}"].astype(np.float32), tables[f"{role}_y_{site}"].astype(np.int64)
        parts[role] = TensorDataset(torch.from_numpy(logits), torch.from_numpy(y))
    models, classes = parts["train"].tensors[0].shape[1:]
    members = [Column(m) for m in range(models)]
    pool = PoolArtifact(
        fingerprint="given",
        model_ids=tuple(f"model-{m}" for m in range(models)),
        model_factories=tuple(lambda: None for _ in members),
        models=members,
        training_outputs=parts["train"].tensors[0],
    )
    graph = {"neighbor_mode": "class_balanced", "weight_mode": "cmdw", "k": 5} if balanced else {}
    voting = {"ens_combination_mode": "hard_weighted_voting", "voting_weight_space": "sig"}
    gnn = {"epochs": epochs, "patience": 50, "es_metric": "val_acc", **voting}
    config = GraphRouteConfig(dataset="given", num_classes=classes, device="cpu", graph=graph, gnn=gnn)
    spent = {"graph": 0.0}
    build = graphroute.build_graph

    def timed_build(*args: object, **kwargs: object) -> object:
        started = time.process_time()
        built = build(*args, **kwargs)
        spent["graph"] += time.process_time() - started
        return built

    graphroute.build_graph = timed_build
    started = time.process_time()
    model = graphroute.fit_graphroute(config, parts["train"], validation_set=parts["validation"], pool=pool)
    spent["fit"] = time.process_time() - started
    graphroute.build_graph = build
    return {**spent, "epochs": len(model.history["history"]), **_answers(model, parts["test"], batches=not balanced)}


def _answers(model: object, queries: TensorDataset, batches: bool) -> dict[str, float]:
    """Every call builds the graph anew: with the class-balanced one, batches would take many minutes."""
    started = time.process_time()
    answered = model.predict(queries, cache_outputs=False)
    found = {"at_once": time.process_time() - started}
    started = time.process_time()
    for start in range(0, len(queries) if batches else 0, 32):
        some = TensorDataset(*(tensor[start : start + 32] for tensor in queries.tensors))
        model.predict(some, cache_outputs=False)
        found["in_batches"] = time.process_time() - started
    right = (answered["predictions"].numpy() == queries.tensors[1].numpy()).mean()
    return {**found, "accuracy": float(right), "fallback": float(answered["fallback"].float().mean())}


# ---- federation: rigfl's FedDES on a split file ----------------------------------------------------------------------


def federation(file: Path, work: Path) -> dict[str, object]:
    _write_partition(file, work)
    os.chdir(work)
    _register_nets()
    import yaml
    from rigfl.experiment.run import run_experiment

    experiment = {"dataset": file.stem, "model": NETS[0], "model_family": "light", "rounds": 1, "seed": 0, "batch": 32}
    experiment |= {"device": "cpu", "out_dir": "results", "quiet": True}
    Path("run.yaml").write_text(yaml.safe_dump({"experiment": experiment, "algorithm": {}}))
    result = json.loads(Path(run_experiment("feddes", "run.yaml")).read_text())
    clients = result["result"]["evaluation_history"]["clients"].values()
    by_client = [client["test"]["accuracy"][-1] for client in clients]
    return {"accuracy": float(np.mean(by_client)), "sites": len(by_client)}


def rounds(file: Path, work: Path, method: str, count: int, gap: int) -> dict[str, object]:
    """The time between two averagings; the round of each client is the one with its best validation accuracy."""
    _write_partition(file, work)
    os.chdir(work)
    import importlib

    import yaml
    from rigfl.experiment.run import run_experiment

    kind = next(
        value
        for name, value in vars(importlib.import_module(f"rigfl.algorithms.{method}")).items()
        if name.lower() == method
    )
    ends: list[float] = []
    average = kind.aggregate

    def timed(self: object, *args: object, **kwargs: object) -> object:
        ends.append(time.perf_counter())
        return average(self, *args, **kwargs)

    kind.aggregate = timed
    experiment = {"dataset": file.stem, "model": "small_cnn", "rounds": count, "seed": 0, "batch": 32, "eval_gap": gap}
    experiment |= {"device": "cpu", "out_dir": "results", "quiet": True}
    algorithm = {"local_epochs": 1, "lr": 0.01} | ({"aux_model": "small_cnn"} if method == "fml" else {})
    Path("run.yaml").write_text(yaml.safe_dump({"experiment": experiment, "algorithm": algorithm}))
    result = json.loads(Path(run_experiment(method, "run.yaml")).read_text())
    clients = result["result"]["evaluation_history"]["clients"].values()
    chosen = [int(np.argmax(client["validation"]["accuracy"])) for client in clients]
    right = [client["test"]["accuracy"][best] for client, best in zip(clients, chosen, strict=True)]
    return {"round": (ends[-1] - ends[0]) / (len(ends) - 1), "accuracy": float(np.mean(right))}


def _register_nets() -> None:
    from rigfl.models import registry

    registry.MODEL_ARCHITECTURE_REGISTRY["small_cnn8"] = ("image", SmallCNN8)
    registry.MODEL_FAMILIES["light"] = list(NETS)


def _write_partition(file: Path, work: Path) -> None:
    """The split as the partition folder that rigfl reads: tensors and label counts of every client, and a manifest."""
    import yaml
    from rigfl.data import partitions

    arrays = np.load(file)
    meta = json.loads(str(arrays["meta"]))
    sites, classes = meta["num_clients"], meta["num_classes"]
    (work / "configs").mkdir(parents=True, exist_ok=True)
    config = work / "configs" / "datasets.yaml"
    cut = {"scheme": "natural_id", "partition_by": "client", "client_limit": sites, "partition_seed": meta["seed"]}
    cut |= {"split_seed": 0, "train_per_client": None, "test_per_client": None, "val_frac": 0.2}
    entry = {"backend": "flower", "source_dataset": f"local/{file.stem}", "data_transform": "fashion_mnist"}
    config.write_text(yaml.safe_dump({"datasets": {file.stem: {**entry, "partition": cut}}}))
    settings, key, folder = partitions.expected_partition(file.stem, config_path=config, data_dir=work / "data")
    pixels = (arrays["x"].astype(np.float32) / 255 - meta["mean"]) / meta["std"]
    x, y = torch.from_numpy(np.ascontiguousarray(pixels[:, None])), torch.from_numpy(arrays["y"])
    clients = [_write_client(folder, k, x, y, arrays["client"], arrays["split"], classes) for k in range(sites)]
    manifest = {
        "dataset": file.stem,
        "partition_id": key,
        "backend": "flower",
        "task": "classification",
        "num_clients": sites,
        "partition": partitions.stored_settings(settings, exclude_none=True)["partition"],
        "clients": clients,
        "input_spec": {"kind": "image", "shape": list(x.shape[1:])},
        "target_spec": {"dtype": "int64", "shape": [], "num_classes": classes, "class_names": None},
        "source": {"dataset": f"local/{file.stem}"},
        "dataset_configuration": partitions.stored_settings(
            settings, exclude={"backend", "partition"}, exclude_none=True
        ),
        "schema_version": partitions.MANIFEST_SCHEMA_VERSION,
        "pipeline_version": partitions.PARTITION_PIPELINE_VERSION,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _write_client(
    folder: Path, number: int, x: torch.Tensor, y: torch.Tensor, client: np.ndarray, split: np.ndarray, classes: int
) -> dict[str, object]:
    here = folder / "clients" / f"client_{number}"
    here.mkdir(parents=True, exist_ok=True)
    sizes, counts = {}, {}
    for code, role in enumerate(ROLES):
        rows = torch.from_numpy(np.flatnonzero((client == number) & (split == code)))
        torch.save((x[rows].clone(), y[rows].clone()), here / f"{role}.pt")
        sizes[role], counts[role] = len(rows), torch.bincount(y[rows], minlength=classes).tolist()
    return {"client_id": number, "sizes": sizes, "source_client_id": number, "label_counts": counts}


try:  # rigfl pickles the class of a net into its cache, so it must be importable from here
    from rigfl.models.cifar import SmallCNN

    class SmallCNN8(SmallCNN):
        def __init__(self, input_spec: object = None) -> None:
            super().__init__((8, 16), 64, 1, input_spec)
except ImportError:
    SmallCNN8 = None


if __name__ == "__main__":
    main()
