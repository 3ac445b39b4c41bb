"""How numbers look in a table: percent, points with a sign, bytes; a dash for what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerwise.report.sheets import Cell, Mark

Written = Callable[[float], str]


def words(value: object) -> Cell:
    """A name, or any other text."""
    return Cell(str(value), str(value))


def empty() -> Cell:
    """Where there is nothing to be known."""
    return Cell("")


def figure(value: Any, written: Written) -> Cell:
    """A number as it is written; a dash for None and NaN."""
    known = plain(value)
    return Cell("-") if known is None else Cell(written(known), known)


def whole(value: Any) -> Cell:
    return figure(value, "{:.0f}".format)


def shares(value: Any) -> Cell:
    return figure(value, percent)


def gains(value: Any) -> Cell:
    return figure(value, points)


def ends(low: Any, high: Any) -> Cell:
    """An interval of a gain."""
    if plain(low) is None or plain(high) is None:
        return Cell("-", (None, None))
    return Cell(interval(low, high), (float(low), float(high)))


def plain(value: Any) -> Any:
    """As Python and JSON have it; None for what is not known."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value


def with_marks(cells: Sequence[Cell]) -> Iterable[Cell]:
    """The best and the worst of a column marked, unless all are alike."""
    known = [cell.value for cell in cells if cell.value is not None]
    if not known or max(known) == min(known):
        return cells
    marks: dict[float, Mark] = {max(known): "best", min(known): "worst"}
    return [replace(cell, mark=marks.get(cell.value, "")) for cell in cells]


def percent(value: float, form: str = ".1f") -> str:
    return "-" if math.isnan(value) else format(100 * value, form)


def points(value: float) -> str:
    return percent(value, "+.1f")


def interval(low: float, high: float) -> str:
    """
    >>> interval(-0.012, 0.1)
    '-1.2 to +10.0'
    """
    return "-" if math.isnan(low) else f"{points(low)} to {points(high)}"


def number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def decimal(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def size(value: float) -> str:
    """
    >>> [size(v) for v in (0, 950, 77042, 3.2e6, 999_999, 7.1e8)]
    ['0 B', '950 B', '77 kB', '3.2 MB', '1.0 MB', '710 MB']
    """
    if math.isnan(value):
        return "-"
    *units, last = "B", "kB", "MB", "GB", "TB"
    for unit in units:
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 9.95 and unit != "B" else f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} {last}"


def duration(seconds: float) -> str:
    """
    >>> [duration(v) for v in (0.04, 9.96, 80, 600, 3550, 3600 * 30)]
    ['0.0 s', '10 s', '80 s', '10 min', '59 min', '30 h']
    """
    for unit, length, most in (("s", 1, 99.5), ("min", 60, 99.5)):
        if seconds / length < most:
            value = seconds / length
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 9.95 else f"{hours:.0f} h"
