"""Are the probabilities to be believed? Reliability diagrams, with the rows in each bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from peerwise.metrics import BINS
from peerwise.report.cells import percent
from peerwise.report.page.canvas import MUTED, NARROW, PAPER, Canvas, picture
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Look, Scene, left_out

MOST = 6  # methods
LEAST = 30  # rows of a bin that says something


@dataclass(frozen=True)
class _Bins:
    """By bin of confidence: rows, mean confidence and share of right answers, NaN in an empty one."""

    rows: NDArray[np.int64]
    confidence: NDArray[np.float64]
    right: NDArray[np.float64]


def calibration(scene: Scene) -> str:
    methods = [m for m in scene.methods if not np.isnan(scene.value(m, "ece"))]
    if not methods:
        return paragraph("No method of this run was asked about rows with known classes.", "none")
    shown = methods[:MOST]
    bins = {method: _bins(scene, method) for method in methods}
    ece = {method: scene.value(method, "ece") for method in methods}
    drawn = [_panel(f"cal{n}", scene.names[m], bins[m], ece[m], scene.looks[m]) for n, m in enumerate(shown)]
    rows = [
        [method, f"{place * 100 / BINS:.0f} to {(place + 1) * 100 / BINS:.0f}", count, percent(sure), percent(right)]
        for method, found in bins.items()
        for place, (count, sure, right) in enumerate(zip(found.rows, found.confidence, found.right, strict=True))
        if count
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
    told = f"{plain(winner)} is off by {percent(ece[winner])} points on average (ECE)"
    return (
        f"{told}, the least of all."
        if best == winner
        else f"{told}; {plain(best)} is nearest to the truth ({percent(ece[best])})."
    )


def _bins(scene: Scene, method: str) -> _Bins:
    trees = [tree for (_, m, _), tree in scene.story.run.predictions.items() if m == method and len(tree["y"])]
    sure = np.concatenate([tree["probabilities"].max(axis=1) for tree in trees]).astype(np.float64)
    right = np.concatenate([tree["probabilities"].argmax(axis=1) == tree["y"] for tree in trees])
    place = np.clip(np.ceil(sure * BINS).astype(np.int64) - 1, 0, BINS - 1)  # as the metric has them
    rows = np.bincount(place, minlength=BINS)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(place, each, minlength=BINS) / rows for each in (sure, right.astype(np.float64))]
    return _Bins(rows, *means)


def _panel(key: str, name: str, bins: _Bins, ece: float, look: Look) -> str:
    def draw(canvas: Canvas) -> None:
        canvas.title(name, f"ECE {percent(ece)} points; {bins.rows.sum()} rows, {bins.rows.max()} in the fullest bin")
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


def _draw(axes: Axes, bins: _Bins, look: Look) -> None:
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle=(0, (1.5, 2)))
    middles, wide = (np.arange(BINS) + 0.5) * 100 / BINS, 100 / BINS * 0.86
    axes.bar(middles, 22 * bins.rows / bins.rows.max(), width=wide, color=MUTED, alpha=0.22, linewidth=0)
    there = bins.rows > 0
    axes.plot(100 * bins.confidence[there], 100 * bins.right[there], color=look.colour, linewidth=1.2, zorder=3)
    for few, inside in ((False, look.colour), (True, PAPER)):
        kept = there & ((bins.rows < LEAST) == few)
        style: dict[str, Any] = {
            "marker": look.marker,
            "markersize": 6,
            "markerfacecolor": inside,
            "markeredgecolor": look.colour,
        }
        axes.plot(
            100 * bins.confidence[kept], 100 * bins.right[kept], linestyle="none", zorder=4, clip_on=False, **style
        )
