"""Are the probabilities to be believed? Reliability diagrams, with the rows in each bin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from peerwise.evaluate.calibration import calibration_bins
from peerwise.metrics import BINS
from peerwise.report.cells import percent
from peerwise.report.page.canvas import MUTED, NARROW, PAPER, Canvas, picture
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Look, Scene, left_out

MOST = 6  # methods
LEAST = 30  # rows of a bin that says something


def calibration(scene: Scene) -> str:
    methods = [m for m in scene.methods if not np.isnan(scene.value(m, "ece"))]
    if not methods:
        return paragraph("No method of this run was asked about rows with known classes.", "none")
    shown = methods[:MOST]
    bins = {method: _bins(scene, method) for method in methods}
    ece = {method: scene.value(method, "ece") for method in methods}
    drawn = [_panel(f"cal{n}", scene.names[m], bins[m], ece[m], scene.looks[m]) for n, m in enumerate(shown)]
    rows = [
        [method, f"{100 * low:.0f} to {100 * high:.0f}", f"{count:.0f}", percent(sure), percent(right)]
        for method, found in bins.items()
        for low, high, count, sure, right in found.itertuples(index=False)
    ]
    best = min(methods, key=lambda method: ece[method])
    chart = Chart(
        _finding(methods[0], best, ece),
        f"How often answers are right (%) against how sure the method was (%), over the {scene.rows} of all sites and "
        f"seeds, in {BINS} bins; on the dotted line both agree, below it a method is too sure. Hollow: fewer than "
        f"{LEAST} rows. Grey bars: rows in the bin. ECE, the mean distance from the line, is the mean over sites. "
        f"{left_out(shown, methods)}",
        numbers("Reliability", ["method", "confidence, %", "rows", "mean confidence, %", "right, %"], rows),
        pictures=drawn,
    )
    return figure(chart)


def _finding(winner: str, best: str, ece: dict[str, float]) -> str:
    told = f"How sure {plain(winner)} is, is off by {percent(ece[winner])} points on average (ECE)"
    return (
        f"{told}, the least of all."
        if best == winner
        else f"{told}; {plain(best)} is nearest to the truth ({percent(ece[best])})."
    )


def _bins(scene: Scene, method: str) -> pd.DataFrame:
    trees = [tree for (_, m, _), tree in scene.story.run.predictions.items() if m == method and len(tree["y"])]
    y, said = (np.concatenate([tree[key] for tree in trees]) for key in ("y", "probabilities"))
    return calibration_bins(y, said)


def _panel(key: str, name: str, bins: pd.DataFrame, ece: float, look: Look) -> str:
    def draw(canvas: Canvas) -> None:
        canvas.title(
            name, f"ECE {percent(ece)} points; {bins['rows'].sum()} rows, {bins['rows'].max()} in the fullest bin"
        )
        canvas.figure.text(2 / canvas.width, 1 - 52 / canvas.height, "right, %", color=MUTED)
        axes = canvas.axes(42, 12, 62, 44)
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)
        _draw(axes, bins, look)
        axes.set_xticks(range(0, 101, 20))
        axes.set_yticks(range(0, 101, 20))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.set_xlabel("confidence of the answer, %")

    return picture(key, NARROW, 290, draw)


def _draw(axes: Axes, bins: pd.DataFrame, look: Look) -> None:
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle=(0, (1.5, 2)))
    middles, rows = 50 * (bins["low"] + bins["high"]).to_numpy(), bins["rows"].to_numpy(dtype=float)
    axes.bar(middles, 22 * rows / rows.max(), width=86 / BINS, color=MUTED, alpha=0.22, linewidth=0)
    sure, right = (100 * bins[column].to_numpy() for column in ("confidence", "accuracy"))
    axes.plot(sure, right, color=look.colour, linewidth=1.2, zorder=3)
    for kept, inside in ((rows >= LEAST, look.colour), (rows < LEAST, PAPER)):
        style: dict[str, Any] = {"marker": look.marker, "markerfacecolor": inside, "markeredgecolor": look.colour}
        axes.plot(sure[kept], right[kept], linestyle="none", markersize=6, zorder=4, clip_on=False, **style)
