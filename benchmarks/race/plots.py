"""One picture of growth: a row of plots for rows, models and sites, a line for each contender."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from race.exponents import cuts, exponent

SHOWN = {
    "rows": {"fit or one epoch: CPU s": ("fit", "epoch"), "250 queries: CPU s": ("queries",), "peak MB": ("peak",)},
    "models": {"fit or one epoch: CPU s": ("fit", "epoch"), "250 queries: CPU s": ("queries",), "peak MB": ("peak",)},
    "sites": {"all: CPU s": ("cpu",), "the pool's outputs: s": ("outputs",), "peak MB": ("peak",)},
}
COLOURS = {"ours": "#1b6ca8", "ours, FedAvg": "#4c9f70", "graphroute": "#c8553d", "rigfl": "#c8553d"}


def draw(curves: Mapping[str, Any], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(curves), 3, figsize=(11, 3 * len(curves)), squeeze=False)
    for row, (axis, contenders) in zip(axes, curves.items(), strict=True):
        for place, (title, costs) in zip(row, SHOWN[axis].items(), strict=True):
            for name, curve in contenders.items():
                for cost in costs:
                    if cost in curve:
                        _line(place, axis, name, cost, curve)
            place.set_title(title, fontsize=9)
            place.set_xlabel(axis, fontsize=8)
            sizes = sorted({size for curve in contenders.values() for size in curve["size"]})
            _ticks(place, sizes)
            place.grid(alpha=0.3)
            place.legend(fontsize=7, frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _line(place: Any, axis: str, name: str, cost: str, curve: Mapping[str, Any]) -> None:
    sizes, values = curve["size"], curve[cost]
    label = name + (", an epoch" if cost == "epoch" else "")
    if len(sizes) > 1:
        part, some = list(cuts(axis, name, sizes).items())[-1]  # of two laws that of the larger sizes
        found = exponent(some, [values[sizes.index(size)] for size in some])
        label += f": {found.value:.2f}{part}"
    place.loglog(sizes, values, "o-", color=COLOURS[name], label=label, markersize=3.5, linewidth=1.2)
    low, high = place.get_ylim()
    place.set_ylim(min(low, min(values) / 2), max(high, 4 * max(values)))  # an even course looks even


def _ticks(place: Any, sizes: list[int]) -> None:
    """Plain numbers: on the x axis the measured sizes, on the y axis 1, 2 and 5 of every decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    shown = [size for before, size in zip([0, *sizes], sizes, strict=False) if size >= 1.5 * before]
    place.set_xticks(shown, [f"{size:,}" for size in shown], fontsize=6, rotation=30)
    place.xaxis.set_minor_locator(NullLocator())
    place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
    place.yaxis.set_minor_locator(NullLocator())
    place.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    place.tick_params(axis="y", labelsize=7)
