"""The summary as terminal tables: how good, and at what cost. Colour marks the best and the worst only."""

from __future__ import annotations

import math

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

METRICS = {"accuracy": "accuracy", "balanced_accuracy": "balanced"}
PHASES = {"train": "train s", "outputs": "pool s", "fit": "fit s", "predict": "predict s"}
LEGEND = """\
percent of test rows, mean over sites and seeds; gain: points over local
models: how many have a say, a row; ESS: their effective number; fallback: rows
where none seemed reliable and all voted alike; oracle: what a perfect choice
would reach; pool s: asking all models about a site's rows"""


def print_summary(summary: pd.DataFrame, console: Console) -> None:
    """All tables, each within 80 columns."""
    tables = [metric_table(summary, metric) for metric in METRICS]
    for table in (*tables, behaviour_table(summary), cost_table(summary)):
        console.print(table)
        console.print()
    console.print(LEGEND, style="dim")


def metric_table(summary: pd.DataFrame, metric: str) -> Table:
    """One metric in percent: mean, spread over sites and over seeds, worst site; gain over local and how many sites
    win, tie and lose against it."""
    table = _table("method", METRICS[metric], "± sites", "± seeds", "worst")
    paired = f"{metric}_gain" in summary.columns
    for name in ("gain", "win/tie/loss %") if paired else ():
        table.add_column(name, justify="right", no_wrap=True)
    for method, line in summary.iterrows():
        cells: list[Text | str] = [str(method), _marked(line[metric], summary[metric])]
        cells += [_percent(line[f"{metric}_{part}"]) for part in ("std", "seed_std", "worst")]
        if paired:
            cells.append(_percent(line[f"{metric}_gain"], "+.1f"))
            cells.append(" / ".join(_percent(line[f"{metric}_{key}"], ".0f") for key in ("wins", "ties", "losses")))
        table.add_row(*cells)
    return table


def behaviour_table(summary: pd.DataFrame) -> Table:
    """How many models have a say (and ESS), how often none was reliable, what a perfect choice would reach."""
    table = _table("method", "models", "ESS", "fallback", "oracle")
    for method, line in summary.iterrows():
        cells = [str(method), _number(line["ensemble_size"]), _number(line["ess"])]
        table.add_row(*cells, _percent(line["fallback"]), _percent(line["oracle"]))
    return table


def cost_table(summary: pd.DataFrame) -> Table:
    """Bytes sent by a site; seconds of all sites together: training, asking the pool's models, fitting, predicting."""
    table = _table("method", "sent/site", *PHASES.values())
    for method, line in summary.iterrows():
        seconds = [_number(line.get(f"seconds_{phase}", math.nan)) for phase in PHASES]
        table.add_row(str(method), _bytes(line["bytes_sent"]), *seconds)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    return table


def _marked(value: float, column: pd.Series[float]) -> Text:
    style = ""
    if len(column) > 1 and column.max() > column.min():
        style = "green" if value == column.max() else "red" if value == column.min() else ""
    return Text(_percent(value), style=style)


def _percent(value: float, form: str = ".1f") -> str:
    return "-" if math.isnan(value) else format(100 * value, form)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _bytes(value: float) -> str:
    """
    >>> [_bytes(v) for v in (0, 950, 77042, 3.2e6, 999_999, 7.1e8)]
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
