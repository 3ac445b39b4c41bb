"""Any table with a target column: CSV or parquet."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.rows import Feature
from peerwise.errors import BrokenFile, DataError, MissingData, choices

MANY_VALUES = 20
MANY_CATEGORIES = 50


def load_table(
    path: str | Path,
    target: str,
    site: str | None = None,
    group: str | None = None,
    time: str | None = None,
    drop: Sequence[str] = (),
) -> Dataset:
    """A .csv, .csv.gz or .parquet file; every column that has no other role is a feature.

    Text columns become categories, numbers stay numbers, and an empty cell or "?" is a missing value.
    """
    file = Path(path)
    frame = read_table(file)
    dropped = (drop,) if isinstance(drop, str) else tuple(drop)
    for column in (target, site, group, time, *dropped):
        if column is not None and column not in frame.columns:
            raise DataError(f"{file.name}: {choices(column, frame.columns, 'column')}")
    if target in (site, group, time, *dropped):
        raise DataError(f"{file.name}: column {target!r} is the target and has another role: expected one role each.")
    y, classes = encode_target(frame[target], file.name)
    roles = {column: complete(frame[column], column, file.name) for column in (site, group, time) if column is not None}
    X, features = table_inputs(frame.drop(columns=list({target, *roles, *dropped})), file.name)
    return Dataset(
        name=file.name.split(".")[0],
        kind="table",
        X=X,
        y=y,
        classes=classes,
        features=features,
        site=None if site is None else _text(roles[site]),
        group=None if group is None else _text(roles[group]),
        time=None if time is None else moments(roles[time], time, file.name),
        source=file.name,
    )


def read_table(path: Path, *, as_text: bool = False) -> pd.DataFrame:
    """The rows of a CSV or parquet file, or an error that says what is wrong with it.

    ``as_text``: the cells of a CSV file stay as they are written, codes such as "007" and an empty cell among them.
    """
    if not path.is_file():
        raise MissingData(f"{path} is not there; give the path of a .csv, .csv.gz or .parquet file.")
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = _text_cells(path) if as_text else pd.read_csv(path, na_values=["?"])
    except (
        pyarrow.ArrowInvalid,
        pyarrow.ArrowException,
        OSError,
        EOFError,
        zlib.error,
        ValueError,
        csv.Error,
    ) as problem:
        raise BrokenFile(
            f"{path} cannot be read as a table ({problem}); it is truncated, damaged or empty."
        ) from problem
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataError(f"{path.name}: column {str(twice[0])!r} is there twice; rename one.")
    return frame


def _text_cells(path: Path) -> pd.DataFrame:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return text_cells(file)


def text_cells(file: Iterable[str]) -> pd.DataFrame:
    """The cells of CSV text as they are written; ValueError or csv.Error where it is none."""
    # Not by pandas, which fills up short lines, renames a column that is there twice, takes the first for row names.
    lines: list[list[str]] = []
    for line in filter(None, csv.reader(file, strict=True)):
        lines.append(line)
        if len(line) != len(lines[0]):  # at once: what is no table may have lines without end
            raise ValueError(f"line {len(lines)} has {len(line)} cells, the first one {len(lines[0])}")
    if not lines:
        raise ValueError("no line in it")
    return pd.DataFrame(lines[1:], columns=lines[0], dtype=object)


def encode_target(values: pd.Series[Any], name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class codes and class names; numbers in the order of numbers, text in the order of text."""
    gaps = np.flatnonzero(values.isna())
    if len(gaps):
        first = ", ".join(str(row) for row in gaps[:5])
        raise DataError(
            f"{name}: target {values.name!r} is missing in {len(gaps)} of {len(values)} rows "
            f"(first: {first}); fill them in or remove these rows."
        )
    number = _is_number(values) and not pd.api.types.is_bool_dtype(values)
    known = np.unique(values.to_numpy(dtype=float if number else str))
    fractions = known.dtype.kind == "f" and bool((known != np.round(known)).any())
    if len(known) > MANY_VALUES and (fractions or len(known) > len(values) // 2):
        raise DataError(
            f"{name}: target {values.name!r} has {len(known)} different values in {len(values)} rows, which looks like "
            "a quantity or a name; Peerwise does classification only, so choose a target with few values or bin it."
        )
    codes = np.searchsorted(known, values.to_numpy(dtype=known.dtype))
    return codes.astype(np.int64), tuple(f"{label:g}" if known.dtype.kind == "f" else str(label) for label in known)


def table_inputs(frame: pd.DataFrame, name: str = "table") -> tuple[NDArray[np.float32], tuple[Feature, ...]]:
    """A float32 matrix with NaN for missing, and what its columns are."""
    if frame.shape[1] == 0:
        raise DataError(f"{name}: no column is left as a feature; drop fewer, or add one.")
    X = np.empty(frame.shape, dtype=np.float32)
    features = []
    for place, column in enumerate(frame.columns):
        X[:, place], categories = _encode(frame[column], str(column), name)
        features.append(Feature(str(column), categories))
    return X, tuple(features)


def named(frame: pd.DataFrame, codes: Mapping[str, Mapping[int, str]]) -> pd.DataFrame:
    """The frame with coded columns turned into categories, in the order of the codes."""
    known = {
        column: pd.Categorical(frame[column].map(dict(names)), categories=list(dict.fromkeys(names.values())))
        for column, names in codes.items()
    }
    return frame.assign(**known)


def _or_drop(column: str, role: str) -> str:
    """What to do about a column, in Python and on the command line."""
    return (
        f"leave it out with drop=[{column!r}] (--set options.drop='[\"{column}\"]'), or say {role}={column!r} "
        f"(--set options.{role}={column})"
    )


def _encode(values: pd.Series[Any], column: str, name: str) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    if pd.api.types.is_datetime64_any_dtype(values):
        raise DataError(f"{name}: column {column!r} holds dates; {_or_drop(column, 'time')}.")
    if _is_number(values):
        numbers = values.to_numpy(dtype=float, na_value=np.nan)
        with np.errstate(over="ignore"):
            small = numbers.astype(np.float32)
        if np.isinf(small).any():
            raise DataError(
                f"{name}: column {column!r} has {int(np.isinf(small).sum())} infinite values or values beyond 3e38; "
                "rescale the column or leave those cells empty."
            )
        return small, ()
    category = (
        values
        if isinstance(values.dtype, pd.CategoricalDtype)
        else values.map(str, na_action="ignore").astype("category")
    )
    names = tuple(str(label) for label in category.cat.categories)
    if len(names) > max(MANY_CATEGORIES, values.notna().sum() // 2):
        raise DataError(
            f"{name}: column {column!r} has {len(names)} different texts in {len(values)} rows, like a name or number "
            f"of a person; {_or_drop(column, 'group')} if rows of one person belong together."
        )
    codes = category.cat.codes.to_numpy().astype(np.float32)
    # a column without a single value is a number that is always missing
    return np.where(codes < 0, np.float32(np.nan), codes), names


def _is_number(values: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values))


def complete(values: pd.Series[Any], column: str, name: str) -> pd.Series[Any]:
    """The column, which must have a value in every row."""
    gaps = np.flatnonzero(values.isna())
    if len(gaps):
        raise DataError(
            f"{name}: column {column!r} is missing in {len(gaps)} of {len(values)} rows (first: {gaps[0]}); "
            "fill them in or remove these rows."
        )
    return values


def _text(values: pd.Series[Any]) -> NDArray[np.str_]:
    if _is_number(values) and not (values.astype(float) % 1).any():
        values = values.astype("int64")
    return values.map(str).to_numpy(dtype=str)


def moments(values: pd.Series[Any], column: str, name: str) -> NDArray[Any]:
    """Numbers, or dates in ISO form."""
    if _is_number(values):
        return values.to_numpy(dtype=float)
    try:
        return pd.to_datetime(values, utc=True, format="ISO8601").dt.tz_localize(None).to_numpy(dtype="datetime64[ns]")
    except (ValueError, TypeError) as problem:
        raise DataError(
            f"{name}: time column {column!r} holds neither numbers nor dates like 2024-01-31 ({problem})."
        ) from problem
