"""A local table held against the task, column by column."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data.loaders.table import complete, moments, read_table
from peerwise.data.task import cells
from peerwise.data.task.mapping import ColumnMap
from peerwise.data.task.problems import Looked, listed, rows, unknown_values
from peerwise.data.task.task import Task, TaskFeature
from peerwise.errors import DataError

MOST = 0.5  # of a column's values out of range: then its unit is another, or it is another column


def look_at_table(
    task: Task, path: Path, mapping: ColumnMap, labelled: bool, group: str | None, time: str | None
) -> Looked:
    return look_at_frame(task, read_table(path, as_text=True), path.name, mapping, labelled, group, time)


def look_at_frame(
    task: Task, frame: pd.DataFrame, name: str, mapping: ColumnMap, labelled: bool, group: str | None, time: str | None
) -> Looked:
    """``frame`` has its cells as text, ``name`` is what it is called in errors."""
    found = Looked()
    if not len(frame):
        found.refuse(f"{name} has no rows: expected at least one.")
    _look_for_columns(found, task, frame, mapping, labelled, (group, time))
    X = np.full((len(frame), len(task.features)), np.nan, dtype=np.float32)
    for place, feature in enumerate(task.features):
        local = mapping.local(feature.name)
        if local in frame:
            X[:, place] = _feature(found, feature, frame[local], mapping, labelled)
    found.X = X
    if labelled and mapping.local(task.target) in frame:
        found.y = _labels(found, task, frame[mapping.local(task.target)], mapping)
    found.group, found.time = _role(found, frame, group, name, False), _role(found, frame, time, name, True)
    return found


def _look_for_columns(
    found: Looked, task: Task, frame: pd.DataFrame, mapping: ColumnMap, labelled: bool, roles: tuple[str | None, ...]
) -> None:
    there = [str(column) for column in frame.columns]
    wanted = {feature.name: mapping.local(feature.name) for feature in task.features}
    if labelled:
        wanted[task.target] = mapping.local(task.target)
    for column, local in wanted.items():
        if local not in there:
            found.refuse(_lacking(column, local, [name for name in there if name not in wanted.values()]))
        elif local in roles:
            found.refuse(
                f"column {local!r} is a group or a time, and also {column!r} of the task: expected one of them."
            )
    for role in roles:
        if role is not None and role not in there:
            found.refuse(f"column {role!r}, named as group or time, is not there: expected one of {listed(there)}.")
    used = {*wanted.values(), *roles, mapping.local(task.target)}
    if rest := [name for name in there if name not in used]:
        found.note(f"{len(rest)} columns that the task does not have are ignored: {listed(rest)}.")


def _lacking(column: str, local: str, there: list[str]) -> str:
    if len(there) == 1 and ";" in there[0]:
        return (
            f"column {local!r} is not there: the cells are separated by ';', expected ','. Save the table with commas."
        )
    by_lower = {name.lower().strip(): name for name in there}
    near = get_close_matches(local.lower(), by_lower, n=1)
    hint = f"; is it {by_lower[near[0]]!r}?" if near else "."
    return f"column {local!r} is not there{hint} Give its local name: columns = {{ {column!r} = '...' }}."


def _feature(
    found: Looked, feature: TaskFeature, column: pd.Series[Any], mapping: ColumnMap, labelled: bool
) -> NDArray[np.float64]:
    codes = mapping.codes.get(feature.name, {})
    what = f"column {str(column.name)!r}"
    if feature.type == "category":
        read = cells.codes_of(column, feature.values, codes)
        expected = f"expected {listed(feature.values)}. Say what they stand for: codes.{feature.name}."
    else:
        read = cells.numbers(column, codes)
        expected = "expected numbers such as 12.5, with a point. Correct them, or leave the cells empty."
    if read.unknown:
        listing = unknown_values(read.unknown, feature.values)
        if labelled:
            found.refuse(f"{what} has {listing}: {expected}")
        else:
            found.note(f"{what} has {listing}, taken as missing: {expected}")
    elif len(column) and np.isnan(read.values).all():
        found.note(f"{what} has no value in any row.")
    if feature.type == "number":
        _look_at_range(found, feature, read.values, what, labelled)
    return read.values


def _look_at_range(found: Looked, feature: TaskFeature, values: NDArray[np.float64], what: str, labelled: bool) -> None:
    low = -np.inf if feature.low is None else feature.low
    high = np.inf if feature.high is None else feature.high
    known = values[~np.isnan(values)]
    outside = int(((known < low) | (known > high)).sum())
    if outside:
        unit = f" {feature.unit}" if feature.unit else ""
        text = (
            f"{what} has {outside} of {len(known)} values outside {low:g} to {high:g}{unit}: is it in another unit? "
            f"Units are not converted."
        )
        if labelled and outside > MOST * len(known):
            found.refuse(f"{text} Convert the column, or give the right one.")
        else:
            found.note(text)


def _labels(found: Looked, task: Task, column: pd.Series[Any], mapping: ColumnMap) -> NDArray[np.int64]:
    read = cells.codes_of(column, task.classes, mapping.codes.get(task.target, {}))
    return labels(found, task, read, f"target {str(column.name)!r}")


def labels(found: Looked, task: Task, read: cells.Read, what: str) -> NDArray[np.int64]:
    """Class codes; -1 where there is none, which is refused."""
    if read.unknown:
        found.refuse(
            f"{what} has {unknown_values(read.unknown, task.classes)}: expected {listed(task.classes)}. Say what they "
            f"stand for: codes.{task.target}."
        )
    missing = int(np.isnan(read.values).sum()) - sum(read.unknown.values())
    if missing:
        found.refuse(f"{what} is missing in {rows(missing)}: fill it in, or remove these rows.")
    known = read.values[~np.isnan(read.values)]
    lacking = [name for place, name in enumerate(task.classes) if not (known == place).any()]
    if len(known) and lacking and not read.unknown:
        found.note(f"no row is of {listed(lacking)}: others' models know these classes, this site's will not.")
    return np.where(np.isnan(read.values), -1, read.values).astype(np.int64)


def _role(found: Looked, frame: pd.DataFrame, column: str | None, name: str, is_time: bool) -> NDArray[Any] | None:
    if column is None or column not in frame:
        return None
    try:
        if is_time:
            return moments(complete(cells.in_time(frame[column]), column, name), column, name)
        return complete(cells.named(frame[column]), column, name).to_numpy(dtype=str)
    except DataError as problem:
        found.refuse(str(problem))
        return None
