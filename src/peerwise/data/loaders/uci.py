"""Adult, Covertype and credit default: tables of the UCI repository, as parquet or in their official files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.files import Remote, fetch, first_of, missing, user_folder
from peerwise.data.loaders.table import encode_target, named, read_table, table_inputs
from peerwise.data.loaders.uci_names import (
    ADULT_COLUMNS,
    COUNTRY_GROUPS,
    COVERTYPE_CLASSES,
    COVERTYPE_COLUMNS,
    CREDIT_CODES,
    CREDIT_TARGETS,
    WILDERNESS,
)
from peerwise.errors import BrokenFile

UCI = "https://archive.ics.uci.edu/dataset"
CC_BY = "CC BY 4.0"


def adult(data_dir: str | Path | None = None) -> Dataset:
    """Census income above 50,000 dollars, 48,842 persons x 14, 2 classes, sites: groups of native countries."""
    layout = "adult/adult.parquet, or adult/{adult.data,adult.test}"
    folder = user_folder(data_dir)
    if folder is None:
        base = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
        checksums = {"adult.data": "5d7c39d7b8804f071cdd1f2a7c460872", "adult.test": "35238206dfdf7f1fe215bbb874adecdc"}
        remotes = [Remote(base + name, "md5:" + checksum, name) for name, checksum in checksums.items()]
        paths = [fetch("adult", remote, layout=layout, address=f"{UCI}/2/adult") for remote in remotes]
        frame = _adult_raw(*paths)
    elif (parquet := first_of(folder, "adult/adult.parquet", "adult.parquet")) is not None:
        frame = read_table(parquet)
    else:
        train, test = (first_of(folder, f"adult/{name}", name) for name in ("adult.data", "adult.test"))
        if train is None or test is None:
            raise missing("adult", folder, layout, f"{UCI}/2/adult")
        frame = _adult_raw(train, test)
    _columns(frame, [*ADULT_COLUMNS, "income"], "adult")
    y, classes = encode_target(frame["income"], "adult")
    X, features = table_inputs(frame[list(ADULT_COLUMNS)], "adult")
    groups = {country: group for group, countries in COUNTRY_GROUPS.items() for country in countries}
    return Dataset(
        name="adult",
        kind="table",
        X=X,
        y=y,
        classes=classes,
        features=features,
        site=frame["native_country"].map(groups).fillna("unknown").to_numpy(dtype=str),
        columns={"official_split": frame["split"].to_numpy(dtype=str)} if "split" in frame else {},
        source=f"{UCI}/2/adult",
        licence=f"{CC_BY}; Becker, Kohavi",
    )


def covertype(data_dir: str | Path | None = None) -> Dataset:
    """Forest cover, 581,012 plots of land x 54, 7 classes, sites: the four wilderness areas."""
    layout = "covertype/covertype.parquet, or covertype/covtype.data.gz"
    folder = user_folder(data_dir)
    if folder is None:
        checksum = "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771"
        remote = Remote("https://ndownloader.figshare.com/files/5976039", checksum, "covtype.data.gz")
        frame = _covertype_raw(fetch("covertype", remote, layout=layout, address=f"{UCI}/31/covertype"))
    elif (parquet := first_of(folder, "covertype/covertype.parquet", "covertype.parquet")) is not None:
        frame = read_table(parquet)
    else:
        names = ("covtype.data.gz", "covtype.data")
        raw = first_of(folder, *(f"covertype/{name}" for name in names), *names)
        if raw is None:
            raise missing("covertype", folder, layout, f"{UCI}/31/covertype")
        frame = _covertype_raw(raw)
    _columns(frame, [*COVERTYPE_COLUMNS, "Cover_Type"], "covertype")
    X, features = table_inputs(frame[list(COVERTYPE_COLUMNS)], "covertype")
    area = frame[[f"Wilderness_Area{place}" for place in range(1, 5)]].to_numpy().argmax(axis=1)
    return Dataset(
        name="covertype",
        kind="table",
        X=X,
        y=frame["Cover_Type"].to_numpy(dtype=np.int64) - 1,
        classes=COVERTYPE_CLASSES,
        features=features,
        site=np.array(WILDERNESS)[area],
        source=f"{UCI}/31/covertype",
        licence=f"{CC_BY}; Blackard",
    )


def credit_default(data_dir: str | Path | None = None) -> Dataset:
    """Credit card clients who do not pay next month, 30,000 clients x 23, 2 classes."""
    address = f"{UCI}/350/default+of+credit+card+clients"
    layout = "credit_default/credit_default.parquet, or its sheet saved as credit_default/credit_default.csv"
    folder = user_folder(data_dir)
    names = ("credit_default.parquet", "credit_default.csv", "UCI_Credit_Card.csv")
    path = None if folder is None else first_of(folder, *(f"credit_default/{name}" for name in names), *names)
    if path is None:
        raise missing("credit_default", folder, layout, address)
    frame = read_table(path)
    target = next((column for column in CREDIT_TARGETS if column in frame), None)
    if target is None:
        raise BrokenFile(f"credit_default: {path} has no column {' or '.join(CREDIT_TARGETS)}.")
    _columns(frame, list(CREDIT_CODES), "credit_default")
    y, _ = encode_target(frame[target], "credit_default")
    X, features = table_inputs(
        named(frame.drop(columns=[target, "ID"], errors="ignore"), CREDIT_CODES), "credit_default"
    )
    return Dataset(
        name="credit_default",
        kind="table",
        X=X,
        y=y,
        classes=("paid", "default"),
        features=features,
        source=address,
        licence=f"{CC_BY}; Yeh",
    )


def _adult_raw(train: Path, test: Path) -> pd.DataFrame:
    parts = []
    for path, split in ((train, "train"), (test, "test")):
        try:
            part = pd.read_csv(
                path, header=None, names=[*ADULT_COLUMNS, "income"], na_values="?", skipinitialspace=True, comment="|"
            )
        except (ValueError, OSError, EOFError) as problem:
            raise BrokenFile(f"{path} cannot be read ({problem}); fetch it again.") from problem
        if part["income"].isna().any():
            row = int(np.flatnonzero(part["income"].isna())[0])
            raise BrokenFile(f"{path} ends or breaks off in row {row}, which has no income; fetch it again.")
        part["income"] = part["income"].str.rstrip(".")
        parts.append(part.assign(split=split))
    return pd.concat(parts, ignore_index=True)


def _covertype_raw(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, header=None, names=[*COVERTYPE_COLUMNS, "Cover_Type"], dtype=np.float32)
    except (ValueError, OSError, EOFError) as problem:
        raise BrokenFile(f"{path} cannot be read ({problem}); it is truncated or damaged, fetch it again.") from problem
    if frame["Cover_Type"].isna().any():
        raise BrokenFile(f"{path} breaks off in its last row; fetch it again.")
    return frame


def _columns(frame: pd.DataFrame, wanted: list[str], name: str) -> None:
    lacking = [column for column in wanted if column not in frame]
    if lacking:
        raise BrokenFile(
            f"{name}: the table lacks {', '.join(lacking[:5])}; it has {', '.join(map(str, frame.columns[:8]))}..."
        )
