"""What accuracy costs: the mean over sites against the bytes that a site sends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from peerwise.report.cells import percent, size
from peerwise.report.page.canvas import INK, MUTED, NARROW, SMALL, WIDE, Canvas, picture, text_width
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Scene

FEWEST = 3  # ticks
HIGH = 11.0  # pixels of a label
Box = tuple[float, float, float, float]
NEAR = 14  # pixels up or down that need no line between a point and its name
SIDES = ((9, 0, "left"), (-9, 0, "right"), (0, NEAR, "center"), (0, -NEAR, "center"))
FAR = tuple(sign * NEAR * step for step in range(1, 12) for sign in (1, -1))
OFFSETS = (*SIDES, *((x, y, side) for y in FAR for x, side in ((8, "left"), (-8, "right"), (0, "center"))))


@dataclass(frozen=True)
class _Label:
    """Where a name stands, and how far from its point."""

    box: Box
    dx: float
    dy: float
    side: str

    def is_within(self, width: float, height: float) -> bool:
        left, low, right, high = self.box
        return left >= 2 and right <= width - 2 and low >= 30 and high <= height - 14


@dataclass(frozen=True)
class _Point:
    method: str
    sent: float
    accuracy: float


def cost(scene: Scene) -> str:
    if "bytes_sent" not in scene.story.found.methods or scene.story.is_site:
        return paragraph("What was sent was not measured here.", "none")
    points = [_Point(m, scene.value(m, "bytes_sent"), scene.value(m, "accuracy")) for m in scene.methods]
    points = [point for point in points if not math.isnan(point.sent) and not math.isnan(point.accuracy)]
    if len(points) < 2:
        told = f"There is one method only; it sends {size(points[0].sent)} a site." if points else "Nothing is known."
        return paragraph(told, "none")
    rows = [[p.method, size(p.sent), percent(p.accuracy)] for p in points]
    return figure(
        Chart(
            _finding(points),
            f"Mean accuracy on {scene.rows} over sites and seeds, in percent, against the bytes that a site sends in "
            "the whole run (logarithmic; methods that send nothing stand at the left edge). Up and to the left is "
            "better.",
            numbers("Accuracy and bytes sent", ["method", "sent a site", "accuracy %"], rows),
            narrow=[_drawn(scene, points, NARROW, 300)],
            wide=[_drawn(scene, points, WIDE, 360)],
        )
    )


def _finding(points: Sequence[_Point]) -> str:
    best = points[0]
    told = f"The most accurate, {plain(best.method)} ({percent(best.accuracy)} %), sends {size(best.sent)} a site"
    cheap = [p for p in points[1:] if p.sent < best.sent]
    if not cheap or not best.sent:
        return f"{told}; no other method sends less." if len(points) > 1 and best.sent else f"{told}."
    less = f"{plain(cheap[0].method)} ({percent(cheap[0].accuracy)} %, {size(cheap[0].sent)})"
    return f"{told}; of those that send less, {less} comes nearest."


def _drawn(scene: Scene, points: Sequence[_Point], width: int, height: int) -> str:
    sent = [point.sent for point in points if point.sent > 0]
    low, high = (math.log10(min(sent)), math.log10(max(sent))) if sent else (3.0, 3.0)
    room = max(0.5 * (1.6 - (high - low)), 0.12 * (high - low), 0.2)
    low, high = low - room, high + room
    nothing = low - 0.16 * (high - low)  # where methods stand that send nothing
    has_nothing = len(sent) < len(points)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes(46, 14, 26, 44)
        canvas.figure.text(2 / width, 1 - 12 / height, "accuracy, %", color=MUTED, ha="left")
        axes.set_xlim(nothing - 0.06 * (high - low) if has_nothing else low, high)
        _up_and_down(axes, [100 * point.accuracy for point in points])
        _ticks(axes, low, high, nothing if has_nothing else None)
        axes.set_xlabel("sent by a site, bytes (log scale)")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        at = [(math.log10(p.sent) if p.sent > 0 else nothing, 100 * p.accuracy) for p in points]
        for (x, y), point in zip(at, points, strict=True):
            look = scene.looks[point.method]
            axes.plot(
                [x], [y], linestyle="none", marker=look.marker, markersize=8, color=look.colour, markeredgewidth=1.6
            )
        _label(axes, canvas, at, [scene.names[point.method] for point in points])

    return picture(f"cost{width}", width, height, draw)


def _up_and_down(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    room = max(0.14 * (high - low), 1.0)
    axes.set_ylim(low - room, high + room)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _ticks(axes: Axes, low: float, high: float, nothing: float | None) -> None:
    whole = [float(tick) for tick in range(math.ceil(low), math.floor(high) + 1)]
    if len(whole) < FEWEST:  # one power of ten alone is no scale
        steps = [each + math.log10(part) for each in range(math.floor(low), math.ceil(high)) for part in (1, 2, 5)]
        whole = [tick for tick in steps if low <= tick <= high]
    step = max(1, math.ceil(len(whole) / 6))
    places = [*([] if nothing is None else [nothing]), *whole[::step]]
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels(["0" if place == nothing else size(10**place) for place in places])


def place_labels(
    points: Sequence[tuple[float, float]], names: Sequence[str], width: float, height: float
) -> list[_Label]:
    """Each name beside its point, in pixels, where it covers neither a point nor another name; if there is no such
    place near, farther up or down."""
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    placed: dict[int, _Label] = {}
    for place in sorted(range(len(points)), key=lambda each: points[each]):
        (x, y), name = points[place], names[place]
        options = [_Label(_box(x + dx, y + dy, name, side), dx, dy, side) for dx, dy, side in OFFSETS]
        inside = [each for each in options if each.is_within(width, height)] or options
        free = [each for each in inside if not any(_meet(each.box, box) for box in taken)]
        apart = [each for each in inside if not any(_meet(each.box, box) for box in taken[len(points) :])]
        placed[place] = (free or apart or inside)[0]
        taken.append(placed[place].box)
    return [placed[place] for place in range(len(points))]


def _label(axes: Axes, canvas: Canvas, at: Sequence[tuple[float, float]], names: Sequence[str]) -> None:
    pixels = [(float(x), float(y)) for x, y in (axes.transData.transform(point) for point in at)]
    line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
    for point, name, label in zip(pixels, names, place_labels(pixels, names, canvas.width, canvas.height), strict=True):
        axes.annotate(
            name, point, (label.dx, label.dy), xycoords="figure pixels", textcoords="offset pixels", ha=label.side,
            va="center", fontsize=SMALL, color=INK, arrowprops=line if abs(label.dy) > NEAR else None,
            annotation_clip=False,
        )  # fmt: skip


def _box(x: float, y: float, name: str, side: str) -> Box:
    wide = text_width(name, SMALL)
    left = {"left": x, "right": x - wide, "center": x - wide / 2}[side]
    return left, y - HIGH / 2, left + wide, y + HIGH / 2


def _meet(a: Box, b: Box) -> bool:
    return bool(np.all([a[0] < b[2], b[0] < a[2], a[1] < b[3], b[1] < a[3]]))
