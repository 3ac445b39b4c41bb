"""A split file as the partition folder that rigfl reads: tensors and label counts of every client, and a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from rigfl.data import partitions

ROLES = ("train", "validation", "test")


def write_partition(file: Path, work: Path) -> str:
    """The name of the data set that rigfl then knows in the folder ``work``."""
    arrays = np.load(file)
    meta = json.loads(str(arrays["meta"]))
    (work / "configs").mkdir(parents=True, exist_ok=True)
    config = work / "configs" / "datasets.yaml"
    config.write_text(yaml.safe_dump({"datasets": {file.stem: _entry(file.stem, meta)}}))
    settings, key, folder = partitions.expected_partition(file.stem, config_path=config, data_dir=work / "data")
    x, y = _inputs(arrays["x"], meta), torch.from_numpy(arrays["y"])
    clients = [_write_client(folder, k, x, y, arrays, meta["num_classes"]) for k in range(meta["num_clients"])]
    manifest = {
        "dataset": file.stem,
        "partition_id": key,
        "backend": "flower",
        "task": "classification",
        "num_clients": len(clients),
        "partition": partitions.stored_settings(settings, exclude_none=True)["partition"],
        "clients": clients,
        "input_spec": {"kind": meta["kind"], "shape": list(x.shape[1:])},
        "target_spec": {"dtype": "int64", "shape": [], "num_classes": meta["num_classes"], "class_names": None},
        "source": {"dataset": f"local/{file.stem}"},
        "dataset_configuration": partitions.stored_settings(
            settings, exclude={"backend", "partition"}, exclude_none=True
        ),
        "schema_version": partitions.MANIFEST_SCHEMA_VERSION,
        "pipeline_version": partitions.PARTITION_PIPELINE_VERSION,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return file.stem


def _entry(name: str, meta: dict[str, Any]) -> dict[str, Any]:
    cut = {"scheme": "natural_id", "partition_by": "client", "client_limit": meta["num_clients"]}
    cut |= {"partition_seed": meta["seed"], "split_seed": 0, "train_per_client": None, "test_per_client": None}
    transform = "fashion_mnist" if meta["kind"] == "image" else "numeric"
    entry = {"backend": "flower", "source_dataset": f"local/{name}", "data_transform": transform}
    return {**entry, "partition": {**cut, "val_frac": 0.2}}


def _inputs(x: np.ndarray, meta: dict[str, Any]) -> torch.Tensor:
    """Scaled by the mean and spread of the whole data set; images with a channel."""
    values = x.astype(np.float32)
    if meta["kind"] == "image":
        values = values[:, None] / 255
    return torch.from_numpy(np.ascontiguousarray((values - meta["mean"]) / meta["std"], dtype=np.float32))


def _write_client(folder: Path, number: int, x: Any, y: Any, arrays: Any, classes: int) -> dict[str, Any]:
    here = folder / "clients" / f"client_{number}"
    here.mkdir(parents=True, exist_ok=True)
    sizes, counts = {}, {}
    for code, role in enumerate(ROLES):
        rows = torch.from_numpy(np.flatnonzero((arrays["client"] == number) & (arrays["split"] == code)))
        torch.save((x[rows].clone(), y[rows].clone()), here / f"{role}.pt")
        sizes[role], counts[role] = len(rows), torch.bincount(y[rows], minlength=classes).tolist()
    return {"client_id": number, "sizes": sizes, "source_client_id": number, "label_counts": counts}
