"""The hours of every stay, up to the end of the window and no further."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from peerwise.data.loaders.eicu.channels import HOURLY, Channel
from peerwise.data.loaders.eicu.database import Database, nothing
from peerwise.data.loaders.eicu.tables import TABLES


def hourly_features(
    database: Database, stays: int, window: int, *, without: Iterable[str] = ()
) -> tuple[NDArray[np.float32], list[str]]:
    """(stays, hours, features) and their names: every channel, carried forward where it is a level, then for every
    level whether it was measured in that hour. Tables that are missing are left out."""
    told = {table: _kept(channels, without) for table, channels in HOURLY.items() if database.has(table)}
    channels = [channel for some in told.values() for channel in some]
    levels = [place for place, channel in enumerate(channels) if channel.carried]
    out = nothing(stays, window, len(channels) + len(levels))
    start = 0
    for table, some in told.items():
        for batch in database.batches(_by_hour(table, some, window), table):
            rows, hours = batch.pop("place"), batch.pop("hour")
            for place, values in enumerate(batch.values(), start):
                out[rows, hours, place] = values.astype(np.float32)
        start += len(some)
    for place in set(range(len(channels))) - set(levels):
        np.nan_to_num(out[:, :, place], copy=False, nan=0.0)
    for measured, place in enumerate(levels, len(channels)):
        out[:, :, measured] = ~np.isnan(out[:, :, place])
        _carry_forward(out[:, :, place])
    names = [channel.name for channel in channels]
    return out, names + [f"{names[place]}_measured" for place in levels]


def _kept(channels: tuple[Channel, ...], without: Iterable[str]) -> tuple[Channel, ...]:
    return tuple(channel for channel in channels if channel.name not in without)


def _by_hour(table: str, channels: tuple[Channel, ...], window: int) -> str:
    """Rows of the window's hours that were written down before its end."""
    spec = TABLES[table]
    distinct = "DISTINCT" if spec.same_row_twice else ""
    asked = ", ".join(f'{channel.sql}::FLOAT AS "{channel.name}"' for channel in channels)
    return f"""
        SELECT place, minute // 60 AS hour, {asked}
        FROM (SELECT {distinct} place, minute, {", ".join(spec.columns)} FROM {table} JOIN cohort USING (stay)
              WHERE minute >= 0 AND minute < {60 * window} AND known < {60 * window})
        GROUP BY place, hour
    """


def _carry_forward(values: NDArray[np.float32]) -> None:
    """In place, from each hour to the next."""
    for hour in range(1, values.shape[1]):
        unknown = np.isnan(values[:, hour])
        values[unknown, hour] = values[unknown, hour - 1]
