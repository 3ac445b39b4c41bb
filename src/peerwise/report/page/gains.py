"""How much each site gains over what it has alone, method by method."""

from __future__ import annotations

import pandas as pd

from peerwise.evaluate.summary import REFERENCES
from peerwise.report.page.dots import Dot, dot_panels, on_a_wider_scale
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Scene, left_out, points
from peerwise.report.sheets import Sheet

MOST = 9  # methods
GAIN = ["accuracy_gain", "accuracy_gain_low", "accuracy_gain_high"]


def gains(scene: Scene) -> str:
    lines = _lines(scene)
    if lines.empty:
        return paragraph("No method of this run can be held to what a site has alone.", "none")
    methods = [name for name in scene.methods if name in set(lines["method"])]
    shown = methods[:MOST]
    rows = {method: _dots(lines[lines["method"] == method]) for method in shown}
    if scene.same_sites:  # the same order everywhere: that of the best method
        order = [dot.label for dot in sorted(rows[shown[0]], key=lambda dot: -dot.value)]
        rows = {method: _ordered(dots, order) for method, dots in rows.items()}
    else:
        rows = {method: sorted(dots, key=lambda dot: -dot.value) for method, dots in rows.items()}
    bars = scene.story.found.methods["bar"]
    titles = {method: f"{scene.names[method]} over {bars[method]}" for method in shown}
    drawn, wider = dot_panels("gain", rows, scene.looks, titles)
    return figure(
        Chart(
            _finding(scene, rows[shown[0]], shown[0]),
            _caption(scene, shown, methods, wider),
            _table(lines, {method: f"{method} over {bars[method]}" for method in methods}),
            pictures=drawn,
        )
    )


def _lines(scene: Scene) -> pd.DataFrame:
    """A line a method and site, or a method, site and seed where another seed has other sites."""
    sites = scene.story.found.sites
    lines = sites[sites["accuracy_gain"].notna() & ~sites["method"].isin(REFERENCES)]
    if scene.same_sites:
        lines = lines.groupby(["method", "site"], sort=False)[GAIN].mean().reset_index()
        return lines.assign(label=[scene.names[site] for site in lines["site"]], row=lines["site"])
    return lines.assign(
        label=[f"{scene.names[site]}, {seed}" for site, seed in zip(lines["site"], lines["seed"], strict=True)],
        row=[f"{site}, seed {seed}" for site, seed in zip(lines["site"], lines["seed"], strict=True)],
    )


def _dots(lines: pd.DataFrame) -> list[Dot]:
    return [Dot(label, *values) for label, *values in lines[["label", *GAIN]].itertuples(index=False)]


def _ordered(dots: list[Dot], order: list[str]) -> list[Dot]:
    by_label = {dot.label: dot for dot in dots}
    return [by_label[label] for label in order if label in by_label]


def _finding(scene: Scene, dots: list[Dot], best: str) -> str:
    better, worse = sum(dot.value > 0 for dot in dots), [dot for dot in dots if dot.value < 0]
    hurt = f"and {len(worse)} lose" if worse else "and none loses"
    of_seeds = "" if scene.same_sites else f" of {len(scene.seeds)} seeds"
    if len(worse) == 1:
        hurt = f"and one loses ({worse[0].label})"
    gain = "gains" if better == 1 else "gain"
    return f"With {plain(best)} {better} of {len(dots)} sites{of_seeds} {gain} {hurt}."


def _caption(scene: Scene, shown: list[str], methods: list[str], wider: list[str]) -> str:
    parts = [
        f"Accuracy of each method minus that of the site's own models (over own, over local), or of the same nets "
        f"trained alone (over local_rounds), on the same {scene.rows}, in points, with 95 % score interval. "
        "Filled: the interval leaves out zero.",
        "Sites in the order of the first method." if scene.same_sites else "Each line is a site of one seed, sorted.",
        "Mean over seeds, ends of intervals too." if scene.same_sites and len(scene.seeds) > 1 else "",
        on_a_wider_scale(wider),
        left_out(shown, methods),
    ]
    return " ".join(part for part in parts if part)


def _table(lines: pd.DataFrame, methods: dict[str, str]) -> Sheet:
    found = {(m, row): _words(*values) for m, row, *values in lines[["method", "row", *GAIN]].itertuples(index=False)}
    names = dict.fromkeys(lines["row"])
    rows = [[row, *(found.get((method, row), "-") for method in methods)] for row in names]
    return numbers("Gain in points (95 % interval)", ["site", *methods.values()], rows)


def _words(gain: float, low: float, high: float) -> str:
    return f"{points(gain)} ({points(low)} to {points(high)})"
