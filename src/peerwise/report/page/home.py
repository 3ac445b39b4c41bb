"""Are models trusted where they come from? Trust against how common a class is at a model's home, and how many models
have a say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from peerwise.evaluate.selection import home_frequency
from peerwise.metrics import effective_size
from peerwise.report.cells import decimal, percent
from peerwise.report.page.canvas import INK, MUTED, NARROW, PAPER, Canvas, picture, text_width
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Scene, left_out

MOST = 3  # methods
MOST_POINTS = 250
EDGES = (0.0, 1e-9, 0.1, 0.25, 0.5, 1.0 + 1e-9)
BANDS = ("none", "up to 10 %", "10 to 25 %", "25 to 50 %", "above 50 %")
HOLLOW: dict[str, Any] = {"markerfacecolor": PAPER, "markeredgewidth": 1, "markersize": 6}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def home(scene: Scene) -> str:
    if not scene.choosing:
        return paragraph("No method of this run chooses among models.", "none")
    return _against_home(scene) + _sizes(scene)


def _against_home(scene: Scene) -> str:
    lines = {method: found for method in scene.choosing if len(found := _lines(scene, method))}
    known = [m for m in lines if not np.isnan(scene.value(m, "home_spearman"))]
    if not known:
        return paragraph("How common the classes are at the models' homes is not known, or never varies.", "none")
    shown = known[:MOST]
    drawn = [_scatter(scene, f"home{n}", m, lines[m], _top(lines[m]["trust"])) for n, m in enumerate(shown)]
    rows = [[m, decimal(scene.value(m, "home_spearman")), decimal(scene.value(m, "home_spearman_peers")),
             *(percent(value) for value in _bands(lines[m]))] for m in known]  # fmt: skip
    rho = scene.value(shown[0], "home_spearman")
    kind = "rises" if rho > 0.1 else "falls" if rho < -0.1 else "hardly changes"
    return figure(
        Chart(
            f"With {plain(shown[0])} trust in a model {kind} with how common the class is at its home: "
            f"Spearman's rho {rho:.2f}.",
            "Each dot is a model and a class: its mean selection score (trust, %) on rows of that class, at all sites, "
            "against the class's share (%) of the train rows at the model's home. Bars: the mean within a band of "
            "shares; hollow: above the scale, which is each method's own. "
            "Spearman's rho is over all dots of a seed, then the mean over seeds. "
            f"{_thinned(lines, shown)}{left_out(shown, known)}",
            numbers(
                "Spearman's rho, and mean trust in percent by the class's share at home",
                ["method", "rho", "rho, peers' rows only", *BANDS],
                rows,
            ),
            pictures=drawn,
        )
    )


def _lines(scene: Scene, method: str) -> pd.DataFrame:
    run = scene.story.run
    parts = []
    for seed in scene.seeds:
        trees = {site: tree for (s, m, site), tree in run.predictions.items() if (s, m) == (seed, method)}
        parts.append(home_frequency(trees))
    return pd.concat(parts, ignore_index=True)


def _top(trust: pd.Series[float]) -> float:
    """Of the scale: a few dots far above all others do not press these to the ground."""
    most, usual = (float(np.quantile(trust, q)) for q in (1, 0.99))
    return max(1.05 * (most if most < 1.5 * usual else 1.3 * usual), 0.01)


def _bands(lines: pd.DataFrame) -> list[float]:
    places = np.digitize(lines["frequency"].to_numpy(dtype=float), EDGES) - 1
    trust = lines["trust"].to_numpy(dtype=float)
    return [float(trust[places == band].mean()) if (places == band).any() else np.nan for band in range(len(BANDS))]


def _thinned(lines: dict[str, pd.DataFrame], shown: list[str]) -> str:
    most = max(len(lines[method]) for method in shown)
    return f"{MOST_POINTS} of up to {most} dots are drawn. " if most > MOST_POINTS else ""


def _scatter(scene: Scene, key: str, method: str, lines: pd.DataFrame, top: float) -> str:
    order = lines.sort_values(["frequency", "trust"], kind="stable")
    kept = order.iloc[np.unique(np.linspace(0, len(order) - 1, MOST_POINTS).astype(int))]
    look, means = scene.looks[method], _bands(lines)
    rho, peers = (decimal(scene.value(method, column)) for column in ("home_spearman", "home_spearman_peers"))

    def draw(canvas: Canvas) -> None:
        canvas.title(scene.names[method], f"rho {rho}; on peers' rows {peers}")
        axes = canvas.axes(42, 12, 62, 44)
        canvas.figure.text(2 / canvas.width, 1 - 52 / canvas.height, "mean trust, %", color=MUTED)
        style: dict[str, Any] = {"marker": look.marker, "markersize": 4, "markeredgewidth": 0, "clip_on": False}
        x, y = (100 * kept[column].to_numpy(dtype=float) for column in ("frequency", "trust"))
        beyond = y > 100 * top
        axes.plot(x[~beyond], y[~beyond], linestyle="none", color=look.colour, alpha=0.45, **style)
        axes.plot(x[beyond], y[beyond] * 0 + 100 * top, linestyle="none", color=look.colour, **style | HOLLOW)
        for low, high, mean in zip((-0.01, *EDGES[1:-1]), (0.01, *EDGES[2:]), means, strict=True):
            axes.plot([100 * low, 100 * min(high, 1)], [100 * mean, 100 * mean], color=INK, linewidth=2)
        axes.set_xlim(-2, 102)
        axes.set_ylim(0, 100 * top)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("share of the class at the model's home, %")
        axes.grid(axis="y")
        axes.set_axisbelow(True)

    return picture(key, NARROW, 280, draw)


def _sizes(scene: Scene) -> str:
    """How many models have a say in an answer."""
    size: dict[str, NDArray[np.float64]] = {}
    ess: dict[str, NDArray[np.float64]] = {}
    pool = 1
    for method in scene.choosing:
        trusts = [tree["details"]["trust"] for (_, m, _), tree in scene.story.run.predictions.items()
                  if m == method and len(tree["details"].get("trust", ()))]  # fmt: skip
        if not trusts:
            continue
        size[method] = np.quantile(np.concatenate([(each > 0).sum(axis=1) for each in trusts]), QUANTILES)
        ess[method] = np.quantile(np.concatenate([effective_size(each) for each in trusts]), QUANTILES)
        pool = max(pool, *(each.shape[1] for each in trusts))
    if not size:
        return ""
    best = next(iter(size))
    drawn = [
        _strips("size", "Ensemble size", "models with any say in an answer", size, scene, pool),
        _strips("ess", "Effective size (ESS)", "1 / sum of squared trust", ess, scene, pool),
    ]
    rows = [[m, kind, *(f"{v:.1f}" for v in found[m])] for m in size for kind, found in (("size", size), ("ESS", ess))]
    heads = ["method", "of", *(f"{q:.0%}".replace("%", " %") for q in QUANTILES)]
    return figure(
        Chart(
            f"With {plain(best)} the median answer rests on {size[best][2]:.0f} of {pool} models, and on "
            f"{ess[best][2]:.1f} effective ones.",
            f"Number of models that an answer rests on, over the {scene.rows} of all sites and seeds. Mark: median; "
            "thick line: the middle half; thin line: from 5 to 95 % of the rows.",
            numbers("Quantiles over rows, in models", heads, rows),
            pictures=drawn,
        )
    )


def _strips(key: str, title: str, note: str, found: dict[str, NDArray[np.float64]], scene: Scene, pool: int) -> str:
    names = [scene.names[method] for method in found]
    left = max(text_width(name, 10.5) for name in names) + 10

    def draw(canvas: Canvas) -> None:
        canvas.title(title, note)
        axes = canvas.axes(left, 14, 42, 40)
        for place, (method, (low, first, middle, third, high)) in enumerate(found.items()):
            look = scene.looks[method]
            axes.plot([low, high], [place, place], color=look.colour, linewidth=1.2)
            axes.plot([first, third], [place, place], color=look.colour, linewidth=5, alpha=0.55)
            axes.plot(
                [middle],
                [place],
                marker=look.marker,
                markersize=7,
                color=look.colour,
                markeredgecolor=INK,
                linestyle="none",
            )
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.set_xlim(0, pool * 1.04)
        axes.set_yticks(range(len(found)), names)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.set_xlabel("models")

    return picture(key, NARROW, 88 + 24 * len(found), draw)
