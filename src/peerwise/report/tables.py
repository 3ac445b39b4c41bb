"""The summary as terminal tables: how good, and at what cost. Colour marks the best and the worst only."""

from __future__ import annotations

import math

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

METRICS = ("accuracy", "balanced_accuracy")
LEGEND = (
    "models: how many have a say, a row; ESS: their effective number; fallback: % of rows where none\n"
    "seemed reliable and all voted alike; oracle: % that a perfect choice would get right; pool s: asking\n"
    "all models about a site's rows"
)
PHASES = {"train": "train s", "outputs": "pool s", "fit": "fit s", "predict": "predict s"}


def print_summary(summary: pd.DataFrame, console: Console) -> None:
    for metric in METRICS:
        console.print(metric_table(summary, metric))
        console.print()
    console.print(cost_table(summary))
    console.print(LEGEND, style="dim")


def metric_table(summary: pd.DataFrame, metric: str) -> Table:
    """One metric in percent: mean, spread over sites and over seeds, worst site; gain over local and how many sites
    win, tie and lose against it."""
    table = _table("method", metric.replace("_", " "), "sites ±", "seeds ±", "worst site")
    paired = f"{metric}_gain" in summary.columns
    for name in ("over local", "win/tie/loss %") if paired else ():
        table.add_column(name, justify="right", no_wrap=True)
    for method, line in summary.iterrows():
        cells: list[Text | str] = [str(method), _marked(line[metric], summary[metric])]
        cells += [_percent(line[f"{metric}_{part}"]) for part in ("std", "seed_std", "worst")]
        if paired:
            cells.append(_percent(line[f"{metric}_gain"], "+.1f"))
            cells.append(" / ".join(_percent(line[f"{metric}_{key}"], ".0f") for key in ("wins", "ties", "losses")))
        table.add_row(*cells)
    return table


def cost_table(summary: pd.DataFrame) -> Table:
    """How many models have a say (and ESS), how often none was reliable, what a perfect choice would reach; bytes
    sent by a site; seconds of all sites together: training, asking the pool's models, fitting, predicting."""
    table = _table("method", "models", "ESS", "fallback", "oracle", "sent/site", *PHASES.values())
    for method, line in summary.iterrows():
        cells = [str(method), _number(line["ensemble_size"]), _number(line["ess"])]
        cells += [_percent(line["fallback"]), _percent(line["oracle"]), _bytes(line["bytes_sent"])]
        cells += [_number(line.get(f"seconds_{phase}", math.nan)) for phase in PHASES]
        table.add_row(*cells)
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
