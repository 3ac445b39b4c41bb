"""How methods with rounds learn: accuracy on validation rows by round, and FedMosaic's lambda."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from peerwise.report.page.canvas import INK, MUTED, NARROW, RULE, SMALL, WIDE, Canvas, picture, text_width
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Scene
from peerwise.report.sheets import Sheet

ACCURACY, LAMBDA = "validation accuracy", "lambda"
FEWEST, MOST_POINTS, MOST_BANDS = 3, 60, 4
MOST_ROWS = 25  # of a table


def curves(scene: Scene) -> str:
    table = scene.story.run.curves
    rounds = table.groupby("method")["round"].nunique()
    long = [name for name in scene.methods if name in rounds.index and rounds[name] >= FEWEST]
    if not long:
        return paragraph("No method of this run takes more than two rounds, so there are no learning curves.", "none")
    parts = []
    for key, name, factor in (("learn", ACCURACY, 100.0), ("lambda", LAMBDA, 1.0)):
        found = {
            m: _spread(part, factor)
            for m in long
            if len(part := table[(table["method"] == m) & (table["name"] == name)])
        }
        if found:
            parts.append(_accuracy(scene, key, found) if key == "learn" else _lambda(scene, key, found))
    return "".join(parts)


def _spread(part: pd.DataFrame, factor: float) -> pd.DataFrame:
    """By round: mean, and the middle half of the sites and seeds; at most so many rounds, the last one among them."""
    by_round = part.groupby("round")["value"]
    found = factor * pd.DataFrame(
        {"mean": by_round.mean(), "low": by_round.quantile(0.25), "high": by_round.quantile(0.75)}
    )
    return found.iloc[np.unique(np.linspace(0, len(found) - 1, MOST_POINTS).astype(int))]


def _accuracy(scene: Scene, key: str, found: Mapping[str, pd.DataFrame]) -> str:
    tops = {method: lines["mean"].max() for method, lines in found.items()}
    best = max(tops, key=lambda method: tops[method])
    when = found[best].index[int(found[best]["mean"].argmax())]
    band = "Band: the middle half of the sites. " if len(found) <= MOST_BANDS else ""
    return figure(
        Chart(
            f"Highest mean accuracy on validation rows: {plain(best)}, {tops[best]:.1f} %, after round {when}.",
            f"Mean accuracy on validation rows over sites and seeds (%) after each round (from 0). {band}The state "
            "that answers test rows is chosen on these rows.",
            _table("Validation accuracy by round, mean over sites in percent", found, ".1f"),
            narrow=[_drawn(scene, f"{key}n", NARROW, 290, found, "accuracy on validation rows, %")],
            wide=[_drawn(scene, f"{key}w", WIDE, 340, found, "accuracy on validation rows, %")],
        )
    )


def _lambda(scene: Scene, key: str, found: Mapping[str, pd.DataFrame]) -> str:
    method, lines = next(iter(found.items()))
    return figure(
        Chart(
            f"The weight that {plain(method)} gives to the pseudo-labels of public rows goes from "
            f"{lines['mean'].iloc[0]:.2f} to {lines['mean'].iloc[-1]:.2f}.",
            "lambda, the weight of the public rows' pseudo-labels in a site's loss (no unit), after each round (from "
            "0); line: mean over sites and seeds, band: the middle half of the sites.",
            _table("lambda by round, mean over sites", found, ".3f"),
            narrow=[_drawn(scene, f"{key}n", NARROW, 240, found, "lambda")],
            wide=[_drawn(scene, f"{key}w", WIDE, 260, found, "lambda")],
        )
    )


def _table(title: str, found: Mapping[str, pd.DataFrame], form: str) -> Sheet:
    every = sorted({int(round) for lines in found.values() for round in lines.index})
    kept = [every[place] for place in np.unique(np.linspace(0, len(every) - 1, MOST_ROWS).astype(int))]
    rows = [
        [round, *(format(t["mean"][round], form) if round in t.index else "-" for t in found.values())]
        for round in kept
    ]
    return numbers(title, ["round", *found], rows)


def _drawn(scene: Scene, key: str, width: int, height: int, found: Mapping[str, pd.DataFrame], unit: str) -> str:
    names = [scene.names[method] for method in found]
    right = max(text_width(name, SMALL) for name in names) + 14

    def draw(canvas: Canvas) -> None:
        canvas.figure.text(2 / width, 1 - 12 / height, unit, color=MUTED)
        axes = canvas.axes(42, right, 26, 42)
        last = max(int(lines.index.max()) for lines in found.values())
        axes.set_xlim(0, max(last, 1))
        for method, lines in found.items():
            look = scene.looks[method]
            if len(found) <= MOST_BANDS:
                axes.fill_between(lines.index, lines["low"], lines["high"], color=look.colour, alpha=0.13, linewidth=0)
            axes.plot(lines.index, lines["mean"], color=look.colour, linestyle=look.dash)
            axes.plot([lines.index[-1]], [lines["mean"].iloc[-1]], color=look.colour, marker=look.marker, clip_on=False)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.set_xlabel("round")
        _ends(axes, names, [(float(t.index[-1]), float(t["mean"].iloc[-1])) for t in found.values()], last)

    return picture(key, width, height, draw)


def _ends(axes: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]], last: float) -> None:
    """Names at the right, each at the height of its line's end, or as near as the others let it."""
    pixels = [axes.transData.transform(end) for end in ends]
    edge = float(axes.transData.transform((last, 0))[0])
    order = sorted(range(len(ends)), key=lambda place: float(pixels[place][1]))
    low, high = (float(axes.transAxes.transform((0, y))[1]) for y in (0, 1))
    heights = spaced([float(pixels[place][1]) for place in order], 13.0, low, high)
    for place, height in zip(order, heights, strict=True):
        x, y = (float(v) for v in pixels[place])
        axes.annotate(
            names[place], (x, y), (edge + 9, height), xycoords="figure pixels", textcoords="figure pixels", va="center",
            fontsize=SMALL, color=INK, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": RULE, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 4}
            if edge - x > 12 or abs(height - y) > 7 else None,
        )  # fmt: skip


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights in rising order, at least ``gap`` apart, as near to the wanted ones as may be, from low to high if there
    is room.

    >>> spaced([1.0, 2.0, 30.0], 10.0, 0.0, 100.0)
    [1.0, 11.0, 30.0]
    """
    placed: list[float] = []
    for height in wanted:
        placed.append(max(height, placed[-1] + gap, low) if placed else max(height, low))
    top = high
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], top)
        top = placed[place] - gap
    return placed
