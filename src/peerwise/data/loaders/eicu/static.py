"""What is known of a stay as a whole by the end of the window."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data.loaders.eicu.channels import Channel, flag
from peerwise.data.loaders.eicu.database import Database, nothing
from peerwise.data.loaders.eicu.names import CATEGORIES, DIAGNOSES, HISTORY, SYSTEMS
from peerwise.data.loaders.eicu.tables import TABLES

APACHE = ("apacheApsVar", "apachePredVar")
DAY = 24  # hours over which APACHE takes the worst value of each
RANGES = {"admissionheight": (100, 250), "admissionweight": (20, 400)}

ONCE: dict[str, tuple[Channel, ...]] = {
    "admissionDx": (
        flag("operated", "admitdxpath LIKE '%O.R.%|Yes'"),
        flag("elective", "admitdxpath LIKE '%|Elective|Yes'"),
        *(flag(f"system_{name}", f"admitdxpath LIKE '%Organ System|{name}%'") for name in SYSTEMS),
        *(
            flag(f"admitted_for_{name}", f"regexp_matches(admitdxpath, '{text}', 'i')")
            for name, text in DIAGNOSES.items()
        ),
    ),
    "pastHistory": tuple(
        flag(f"history_{name}", f"regexp_matches(pasthistorypath, '{text}', 'i')") for name, text in HISTORY.items()
    ),
}


def static_features(database: Database, stays: pd.DataFrame, window: int) -> tuple[NDArray[np.float32], list[str]]:
    """(stays, features) and their names. NaN where a number is not known; a flag is 0 where nobody said so."""
    own = _of_the_patient(stays)
    parts, names = [own.to_numpy(dtype=np.float32)], [str(name) for name in own.columns]
    for table, channels in ONCE.items():
        if database.has(table):
            parts.append(_flags(database, table, channels, len(stays), window))
            names += [channel.name for channel in channels]
    for table in APACHE:
        if window >= DAY and database.has(table):
            parts.append(_apache(database, table, len(stays)))
            names += [f"apache_{column}" for column in TABLES[table].columns]
    return np.concatenate(parts, axis=1), names


def _of_the_patient(stays: pd.DataFrame) -> pd.DataFrame:
    columns = {"age": stays["years"].astype(float)}
    for name, (low, high) in RANGES.items():
        numbers = pd.to_numeric(stays[name], errors="coerce")
        columns[name] = numbers.where(numbers.between(low, high))
    before = -pd.to_numeric(stays["hospitaladmitoffset"], errors="coerce") / 60
    columns["log_hours_in_hospital"] = np.log1p(before.clip(lower=0))
    columns["unitvisitnumber"] = pd.to_numeric(stays["unitvisitnumber"], errors="coerce")
    for name, values in CATEGORIES.items():
        for value in values:
            columns[f"{name}={value}"] = (stays[name] == value).astype(float)
    return pd.DataFrame(columns)


def _flags(
    database: Database, table: str, channels: tuple[Channel, ...], rows: int, window: int
) -> NDArray[np.float32]:
    """What was written down before the window ended, also before admission to the unit."""
    asked = ", ".join(f'{channel.sql} AS "{channel.name}"' for channel in channels)
    found = database.frame(
        f"SELECT place, {asked} FROM {table} JOIN cohort USING (stay) WHERE known < {60 * window} GROUP BY place", table
    )
    out = np.zeros((rows, len(channels)), dtype=np.float32)
    out[found["place"].to_numpy()] = found.drop(columns="place").to_numpy(dtype=np.float32)
    return out


def _apache(database: Database, table: str, rows: int) -> NDArray[np.float32]:
    """Worst values of the first day, without the minute at which they were: known at its end, and not before. -1 is
    written where nothing was measured."""
    columns = TABLES[table].columns
    asked = ", ".join(f"max(nullif(TRY_CAST({column} AS DOUBLE), -1)) AS {column}" for column in columns)
    found = database.frame(f"SELECT place, {asked} FROM {table} JOIN cohort USING (stay) GROUP BY place", table)
    out = nothing(rows, len(columns))
    out[found["place"].to_numpy()] = found.drop(columns="place").to_numpy(dtype=np.float32)
    return out
