"""A site's rows, read as the task has them: by name, whatever the site calls its columns and values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from peerwise.data.dataset import Dataset
from peerwise.data.rows import Inputs
from peerwise.data.task.arrays import look_at_arrays
from peerwise.data.task.mapping import ColumnMap
from peerwise.data.task.problems import Looked, Problem
from peerwise.data.task.tables import look_at_frame, look_at_table
from peerwise.data.task.task import Task
from peerwise.errors import DataError

SAME = ColumnMap()


@dataclass(frozen=True, eq=False)
class Cases:
    """Rows to be answered, and what was odd about them, a sentence each."""

    X: Inputs
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.X)


def read_rows(
    task: Task,
    path: str | Path,
    mapping: ColumnMap = SAME,
    *,
    group: str | None = None,
    time: str | None = None,
) -> Dataset:
    """Labelled rows from .csv, .csv.gz or .parquet, images and sequences from .npz.

    Empty cells, "?" and "NA" are missing values, which are normal. ``group`` and ``time`` are local columns that say
    whom a row belongs to and when it was seen; they are no features. What cannot be used is refused, the first few
    reasons together; `check_rows` has them all.
    """
    found = _look(task, path, mapping, True, group, time)
    found.check(Path(path).name)
    assert found.X is not None
    assert found.y is not None
    return Dataset(
        name=task.name,
        kind=task.kind,
        X=found.X,
        y=found.y,
        classes=task.classes,
        features=task.columns,
        group=found.group,
        time=found.time,
        source=Path(path).name,
    )


def read_inputs(task: Task, path: str | Path, mapping: ColumnMap = SAME) -> Cases:
    """Rows to be answered; they need no target. A value that the task does not know becomes a missing one, with a note:
    a whole ward is not refused for one odd cell."""
    return _cases(_look(task, path, mapping, False, None, None), Path(path).name)


def inputs_of(task: Task, frame: pd.DataFrame, name: str) -> Cases:
    """As `read_inputs`, of a table whose cells are there as text (`peerwise.data.loaders.table.text_cells`)."""
    return _cases(_tidied(look_at_frame(task, frame, name, SAME, False, None, None)), name)


def _cases(found: Looked, name: str) -> Cases:
    found.check(name)
    assert found.X is not None
    return Cases(found.X, tuple(problem.text for problem in found.problems))


def check_rows(
    task: Task,
    path: str | Path,
    mapping: ColumnMap = SAME,
    *,
    labelled: bool = True,
    group: str | None = None,
    time: str | None = None,
) -> list[Problem]:
    """All that is wrong or odd with a file of rows, the serious first; nothing if all is well."""
    try:
        problems = _look(task, path, mapping, labelled, group, time).problems
    except DataError as error:
        return [Problem(True, str(error))]
    return sorted(problems, key=lambda problem: not problem.serious)


def _look(
    task: Task, path: str | Path, mapping: ColumnMap, labelled: bool, group: str | None, time: str | None
) -> Looked:
    mapping.check(task)
    look = look_at_table if task.kind == "table" else look_at_arrays
    return _tidied(look(task, Path(path), mapping, labelled, group, time))


def _tidied(found: Looked) -> Looked:
    if isinstance(found.X, np.ndarray) and found.X.dtype == np.float32:
        found.X[np.isnan(found.X)] = np.nan  # of many bit patterns one, for the digest
    return found
