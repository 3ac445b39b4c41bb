"""An .npz file of images or sequences held against the task: X, or static and series, and y."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data.loaders.domains import read_npz
from peerwise.data.rows import Sequences
from peerwise.data.task import cells
from peerwise.data.task.mapping import ColumnMap
from peerwise.data.task.problems import Looked, listed
from peerwise.data.task.tables import labels
from peerwise.data.task.task import Task
from peerwise.errors import BrokenFile, MissingData

Arrays = dict[str, NDArray[Any]]


def look_at_arrays(
    task: Task, path: Path, mapping: ColumnMap, labelled: bool, group: str | None, time: str | None
) -> Looked:
    """y: class names, or places among the task's classes, unless the mapping has codes for the target."""
    if not path.is_file():
        raise MissingData(f"{path} is not there; give the path of an .npz file.")
    if path.suffix != ".npz":
        raise BrokenFile(f"{path.name} is no .npz file: expected one, because the task has {task.kind} rows.")
    arrays = read_npz(path)
    found = Looked()
    parts = ("X",) if task.kind == "image" else ("static", "series")
    wanted = [*parts, *(["y"] if labelled else []), *(role for role in (group, time) if role is not None)]
    for name in (name for name in wanted if name not in arrays):
        found.refuse(f"array {name!r} is not there: expected {listed(wanted)}, found {listed(arrays)}.")
    if rest := sorted(set(arrays) - {*wanted, "y"}):
        found.note(f"{len(rest)} arrays that the task does not have are ignored: {listed(rest)}.")
    _check_lengths(found, {name: arrays[name] for name in wanted if name in arrays})
    if task.kind == "image" and "X" in arrays:
        found.X = _images(found, arrays["X"], task.shape["x"])
    elif "static" in arrays and "series" in arrays:
        static, series = (_floats(found, name, arrays[name], task.shape[name]) for name in parts)
        found.X = Sequences(static, series)
    if labelled and "y" in arrays and arrays["y"].ndim == 1:
        found.y = _labels(found, task, arrays["y"], mapping)
    found.group = None if group is None or group not in arrays else arrays[group].astype(str)
    found.time = None if time is None else arrays.get(time)
    return found


def _check_lengths(found: Looked, arrays: Arrays) -> None:
    lengths = {name: len(values) if values.ndim else 0 for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        found.refuse(f"the arrays have different numbers of rows ({told}): expected the same.")
    if lengths and not any(lengths.values()):
        found.refuse("the file has no rows: expected at least one.")
    for name in {"y"} & set(arrays):
        if arrays[name].ndim != 1:
            found.refuse(f"y is {arrays[name].shape}: expected one label a row, (rows,).")


def _images(found: Looked, X: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if X.ndim == 3 and shape[0] == 1:
        X = X[:, None]
    if X.dtype != np.uint8 or X.shape[1:] != shape:
        found.refuse(f"X is {X.dtype} {X.shape}: expected uint8 (rows, {', '.join(map(str, shape))}), values 0 to 255.")
    return X


def _floats(found: Looked, name: str, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if values.dtype.kind not in "iuf" or values.shape[1:] != shape:
        sizes = ", ".join(map(str, shape))
        found.refuse(f"{name} is {values.dtype} {values.shape}: expected numbers (rows, {sizes}).")
        return np.empty((0, *shape), dtype=np.float32)
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    if endless := int(np.isinf(small).sum()):
        found.refuse(
            f"{name} has {endless} infinite values or values beyond 3e38: rescale them, or use NaN for missing."
        )
    return small


def _labels(found: Looked, task: Task, y: NDArray[Any], mapping: ColumnMap) -> NDArray[np.int64]:
    codes = mapping.codes.get(task.target, {})
    if y.dtype.kind in "iu" and not codes:
        codes = {str(place): name for place, name in enumerate(task.classes)}
    return labels(found, task, cells.codes_of(pd.Series(y), task.classes, codes), "y")
