"""How numbers look in a table: percent, points with a sign, bytes; a dash for what is not known."""

from __future__ import annotations

import math

import pandas as pd
from rich.table import Table
from rich.text import Text


def plain_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True, vertical="bottom")
    return table


def marked(value: float, column: pd.Series[float]) -> Text:
    """Percent, green for the best and red for the worst of a column."""
    style = ""
    if len(column) > 1 and column.max() > column.min():
        style = "green" if value == column.max() else "red" if value == column.min() else ""
    return Text(percent(value), style=style)


def percent(value: float, form: str = ".1f") -> str:
    return "-" if math.isnan(value) else format(100 * value, form)


def interval(low: float, high: float) -> str:
    """
    >>> interval(-0.012, 0.1)
    '-1.2 to +10.0'
    """
    return "-" if math.isnan(low) else f"{percent(low, '+.1f')} to {percent(high, '+.1f')}"


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
