"""Split files: an .npz with x, y, client, split (0 train, 1 validation, 2 test) and meta (JSON)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.domains import read_npz
from peerwise.data.rows import Feature, Kind
from peerwise.errors import BrokenFile, MissingData


def load_split_file(path: str | Path) -> Dataset:
    """Rows whose sites and splits are fixed by the file; image rows without a channel axis get one."""
    file = Path(path)
    if not file.is_file():
        raise MissingData(f"{file} is not there; give the path of an .npz split file.")
    arrays = read_npz(file)
    lacking = [name for name in ("x", "y", "client", "split") if name not in arrays]
    if lacking:
        raise BrokenFile(f"{file}: lacks {', '.join(lacking)}; a split file has x, y, client, split and meta.")
    meta = _meta(file, arrays)
    X, kind, features = _inputs(file, arrays["x"])
    y = arrays["y"].astype(np.int64)
    classes = meta.get("classes") or [str(c) for c in range(int(meta.get("num_classes", y.max(initial=-1) + 1)))]
    client = arrays["client"].astype(np.int64)
    width = len(str(client.max(initial=0)))
    return Dataset(
        name=file.stem,
        kind=kind,
        X=X,
        y=y,
        classes=tuple(str(label) for label in classes),
        features=features,
        site=np.array([f"site-{number:0{width}d}" for number in client.tolist()], dtype=str),
        source=file.name,
        licence=str(meta.get("licence", "")),
        natural_split=arrays["split"].astype(np.int8),
    )


def _meta(file: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    try:
        meta = json.loads(str(arrays["meta"])) if "meta" in arrays else {}
    except json.JSONDecodeError as problem:
        raise BrokenFile(f"{file}: meta is no JSON ({problem}).") from problem
    if not isinstance(meta, dict):
        raise BrokenFile(f"{file}: meta is a {type(meta).__name__}, expected a JSON object.")
    return meta


def _inputs(file: Path, x: NDArray[Any]) -> tuple[NDArray[Any], Kind, tuple[Feature, ...]]:
    if x.ndim == 2:
        return x.astype(np.float32), "table", tuple(Feature(f"x{place}") for place in range(x.shape[1]))
    if x.ndim not in (3, 4) or x.dtype != np.uint8:
        raise BrokenFile(
            f"{file}: x is {x.dtype} {x.shape}; expected numbers (n, features), or uint8 images "
            "(n, height, width) or (n, channels, height, width)."
        )
    return (x[:, None] if x.ndim == 3 else x), "image", ()
