"""A task's public rows: the same at every site, which their sha256 shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from peerwise.data.public import PublicSet
from peerwise.data.rows import Inputs, digest
from peerwise.data.task.mapping import ColumnMap
from peerwise.data.task.rows import SAME, read_inputs
from peerwise.data.task.task import PublicRows, Task
from peerwise.errors import DataError


def public_rows(task: Task, path: str | Path, name: str) -> PublicRows:
    """What a task says of this file of public rows, whose columns have the task's names; `check_rows` with
    ``labelled=False`` tells what is odd in it."""
    X = read_inputs(task, path).X
    return PublicRows(name, digest(X), len(X))


def read_public(task: Task, path: str | Path, mapping: ColumnMap = SAME) -> tuple[Inputs, PublicSet]:
    """The task's public rows from a site's file, for ``Site.public`` and ``Site.public_set``. The file is the same for
    all, so it has the task's own names and values; one with the site's is read by its mapping."""
    public = task.public
    if public is None:
        raise DataError(f"task {task.name!r} has no public rows: expected no file for them. Leave it out.")
    problem: DataError | None = None
    for tried in (SAME, mapping):
        try:
            X = read_inputs(task, path, tried).X
        except DataError as error:
            problem = problem or error
            continue
        if digest(X) == public.sha256:
            return X, PublicSet(public.name, public.sha256, np.arange(len(X)))
        problem = DataError(
            f"{Path(path).name} is not {public.name!r}: it has {len(X)} rows with sha256 {digest(X)[:12]}, expected "
            f"{public.rows} rows with {public.sha256[:12]}. Take the file that the founder gives out."
        )
    assert problem is not None
    raise problem
