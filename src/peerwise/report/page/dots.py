"""Dots with intervals against a line at zero: one row a site or subgroup, one picture a method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from peerwise.report.page.canvas import INK, NARROW, PAPER, SMALL, Canvas, picture, text_width
from peerwise.report.page.markup import plain
from peerwise.report.page.scene import Look

TALL, FLAT = 17, 6  # pixels of a row with and without a label
MOST_LABELS = 24
WIDER = 2.5  # times the extent of the first method: such a picture has a scale of its own
LEAST = 0.05  # of that extent


@dataclass(frozen=True)
class Dot:
    """A gain from ``low`` to ``high``, as shares; the interval may be unknown."""

    label: str
    value: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        return self.low > 0 or self.high < 0


def dot_panels(
    key: str, rows: Mapping[str, Sequence[Dot]], looks: Mapping[str, Look], names: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """A picture for each method, on one scale; the names of those that need a wider one."""
    extents = {method: _extent(dots) for method, dots in rows.items()}
    usual = max(next(iter(extents.values())), LEAST)
    wider = [method for method, extent in extents.items() if extent > WIDER * usual]
    shared = [dot for method, dots in rows.items() if method not in wider for dot in dots]
    drawn = []
    for place, (method, dots) in enumerate(rows.items()):
        limits = _limits(dots if method in wider else shared)
        drawn.append(_panel(f"{key}{place}", names[method], dots, looks[method], limits, method in wider))
    return drawn, wider


def on_a_wider_scale(methods: Sequence[str]) -> str:
    return f"On a wider scale: {', '.join(map(plain, methods))}." if methods else ""


def _extent(dots: Sequence[Dot]) -> float:
    return max((abs(v) for dot in dots for v in (dot.value, dot.low, dot.high) if not math.isnan(v)), default=0.0)


def _limits(dots: Sequence[Dot]) -> tuple[float, float]:
    values = [100 * v for dot in dots for v in (dot.value, dot.low, dot.high) if not math.isnan(v)] or [0.0]
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.06 * max(high - low, 1.0)
    return low - room, high + room


def _panel(key: str, name: str, dots: Sequence[Dot], look: Look, limits: tuple[float, float], own_scale: bool) -> str:
    labelled = len(dots) <= MOST_LABELS
    height = (TALL if labelled else FLAT) * len(dots) + 88
    left = max((text_width(dot.label, SMALL) for dot in dots), default=0) + 10 if labelled else 10

    def draw(canvas: Canvas) -> None:
        mean = np.mean([dot.value for dot in dots])
        worse = sum(dot.value < 0 for dot in dots)
        note = f"mean {_signed(100 * float(mean))} points, worse at {worse} of {len(dots)}"
        canvas.title(name, note + (", wider scale" if own_scale else ""))
        axes = canvas.axes(left, 12, 42, 40)
        axes.set_xlim(*limits)
        axes.set_ylim(len(dots) - 0.4, -0.6)
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        axes.grid(axis="x", zorder=0)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        for place, dot in enumerate(dots):
            _one(axes, place, dot, look, 5.5 if labelled else 3.5)
        axes.set_yticks(range(len(dots)) if labelled else [], [dot.label for dot in dots] if labelled else [])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _signed(value, "g")))
        axes.set_xlabel("points of accuracy over own")

    return picture(key, NARROW, height, draw)


def _one(axes: Axes, place: int, dot: Dot, look: Look, size: float) -> None:
    if not math.isnan(dot.low):
        axes.plot([100 * dot.low, 100 * dot.high], [place, place], color=look.colour, linewidth=1.4, zorder=2)
    inside = look.colour if dot.is_sure else PAPER
    style: dict[str, Any] = {
        "marker": look.marker,
        "markersize": size,
        "markerfacecolor": inside,
        "markeredgecolor": look.colour,
    }
    axes.plot([100 * dot.value], [place], linestyle="none", markeredgewidth=1.3, zorder=3, **style)


def _signed(value: float, form: str = ".1f") -> str:
    shown = format(round(value, 6), f"+{form}") if round(value, 6) else "0"
    return shown.replace("-", "\u2212")
