"""Does everyone gain? Each subgroup of rows against what sites have alone."""

from __future__ import annotations

from peerwise.evaluate.summary import REFERENCES
from peerwise.report.page.dots import Dot, dot_panels, on_a_wider_scale
from peerwise.report.page.markup import Chart, figure, paragraph, plain
from peerwise.report.page.scene import Scene, left_out, short_names

MOST = 6  # methods
GAIN = ["accuracy_gain", "accuracy_gain_low", "accuracy_gain_high"]


def subgroups(scene: Scene) -> str:
    table = scene.story.found.subgroups
    column = scene.story.run.experiment.subgroup
    if not len(table):
        return paragraph(
            "No subgroup was named. With --subgroup and a column, such as sex or ward, they are shown here.", "none"
        )
    if "accuracy_gain" not in table:
        return paragraph("No method of this run can be held to what a site has alone.", "none")
    lines = table[table["accuracy_gain"].notna() & ~table["method"].isin(REFERENCES)]
    methods = [name for name in scene.methods if name in set(lines["method"])]
    if not methods:
        return paragraph("No method of this run can be held to what a site has alone.", "none")
    shown = methods[:MOST]
    counts = lines.groupby("subgroup", sort=False)["rows"].max()
    names = short_names(counts.index, 14)
    labels = {group: f"{name} ({counts[group]:.0f})" for group, name in names.items()}
    rows = {
        method: [Dot(labels[group], *values) for group, *values in part[["subgroup", *GAIN]].itertuples(index=False)]
        for method in shown
        for part in [lines[lines["method"] == method]]
    }
    bars = scene.story.found.methods["bar"]
    titles = {method: f"{scene.names[method]} over {bars[method]}" for method in shown}
    drawn, wider = dot_panels("sub", rows, scene.looks, titles)
    return figure(
        Chart(
            _finding(rows[shown[0]], shown[0], column or ""),
            f"Accuracy minus that of what a site has alone, in points, with 95 % interval, by {plain(column)}; in "
            f"brackets the {scene.rows} of a seed, all sites together. Filled: the interval leaves out zero. "
            "Intervals are not corrected for the number of subgroups. "
            f"{on_a_wider_scale(wider)} {left_out(shown, methods)}",
            scene.story.sheets["subgroups"],
            pictures=drawn,
        )
    )


def _finding(dots: list[Dot], method: str, column: str) -> str:
    worse = [dot.label.rsplit(" (", 1)[0] for dot in dots if dot.value < 0]
    better = sum(dot.value > 0 for dot in dots)
    told = f"With {plain(method)} {better} of {len(dots)} subgroups by {plain(column)} gain{'s' * (better == 1)}"
    lost = f"{', '.join(worse)} {'loses' if len(worse) == 1 else 'lose'}" if worse else "none loses"
    return f"{told} and {lost}."
