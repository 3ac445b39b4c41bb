"""The split files of the race: those of a folder, or else drawn here from the data sets themselves.

A split file has x, y, client, split (0 train, 1 validation, 2 test) and meta (JSON)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from peerwise import load, make_sites

IMAGES = {"dataset": "fashion_mnist", "partition": "exdir", "sites": 20, "kind": "image", "mean": 0.286, "std": 0.353}
TABLE = {"dataset": "digits", "partition": "dirichlet", "kind": "numeric", "mean": 4.884, "std": 6.017}
SPLITS: dict[str, dict[str, Any]] = {
    "fmnist_n8000_C3_a1_s0": {**IMAGES, "rows": 8000, "settings": {"classes_per_site": 3, "alpha": 1.0}},
    "fmnist_n8000_C7_a10_s0": {**IMAGES, "rows": 8000, "settings": {"classes_per_site": 7, "alpha": 10.0}},
    "fmnist_n2000_C3_a1_s0": {**IMAGES, "rows": 2000, "settings": {"classes_per_site": 3, "alpha": 1.0}},
    "digits_dir0.3_s0": {**TABLE, "rows": 1797, "sites": 10, "settings": {"alpha": 0.3}},
    "digits_tiny": {**TABLE, "rows": 150, "sites": 3, "settings": {"alpha": 10.0}},
}
PARTS = ("train", "val", "test")


def split_file(name: str, folder: Path | None, out: Path) -> Path:
    """The file of that name in ``folder``; without, one drawn as ``SPLITS`` says and kept in ``out``."""
    if folder is not None and (folder / f"{name}.npz").is_file():
        return folder / f"{name}.npz"
    file = out / "splits" / f"{name}.npz"
    if not file.is_file():
        _draw(SPLITS[name], file)
    return file


def _draw(about: dict[str, Any], file: Path) -> None:
    data = load(about["dataset"])
    drawn = np.random.default_rng(0).permutation(len(data))[: about["rows"]]
    sites = make_sites(data.take(drawn), about["partition"], about["sites"], **about["settings"])
    index = np.concatenate([site.index[part] for site in sites for part in PARTS])
    sizes = [len(site.index[part]) for site in sites for part in PARTS]
    client = np.repeat(np.repeat(np.arange(len(sites)), 3), sizes)
    split = np.repeat(np.tile(np.arange(3, dtype=np.int8), len(sites)), sizes)
    X = data.X[drawn][index]
    meta = {key: about[key] for key in ("kind", "mean", "std")}
    meta |= {"seed": 0, "num_clients": len(sites), "num_classes": len(data.classes)}
    file.parent.mkdir(parents=True, exist_ok=True)
    images = about["kind"] == "image"
    _save(file, X[:, 0] if images else X.astype(np.float32), data.y[drawn][index], client, split, meta)


def first_sites(file: Path, sites: int, out: Path, pieces: int = 1) -> Path:
    """The split with its first sites alone, after each has been cut into so many ``pieces`` with their own rows."""
    arrays = dict(np.load(file))
    meta = json.loads(str(arrays["meta"]))
    rank = np.zeros(len(arrays["y"]), dtype=int)
    for site in range(meta["num_clients"]):
        for code in range(3):
            rows = np.flatnonzero((arrays["client"] == site) & (arrays["split"] == code))
            rank[rows] = np.arange(len(rows)) % pieces
    client = arrays["client"] * pieces + rank
    kept = client < sites
    name = out / "splits" / f"{file.stem}_{pieces}x_{sites}sites.npz"
    name.parent.mkdir(parents=True, exist_ok=True)
    meta |= {"num_clients": min(sites, meta["num_clients"] * pieces)}
    _save(name, arrays["x"][kept], arrays["y"][kept], client[kept], arrays["split"][kept], meta)
    return name


def _save(file: Path, x: Any, y: Any, client: Any, split: Any, meta: dict[str, Any]) -> None:
    np.savez_compressed(file, x=x, y=y, client=client, split=split, meta=json.dumps(meta))
