"""How unlike the sites are: how many train rows of each class every site has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.report.page.canvas import INK, MUTED, NARROW, SERIES, SMALL, WIDE, Canvas, picture, text_width
from peerwise.report.page.markup import Chart, figure, paragraph, plain
from peerwise.report.page.scene import Scene

FEW_CLASSES = 12
NARROWEST = 9  # pixels for a label


def split(scene: Scene) -> str:
    run, seed = scene.story.run, scene.seeds[0]
    counts = {site: np.asarray(tree["label_counts"]) for (s, _, site), tree in run.predictions.items() if s == seed}
    if not counts or not sum(each.sum() for each in counts.values()):
        return paragraph("How many train rows of each class the sites have is not known.", "none")
    sites, table = list(counts), np.stack(list(counts.values()))
    classes = scene.story.found.settings["classes"]
    seeds = f"Seed {seed}, one of {len(scene.seeds)}. " if len(scene.seeds) > 1 else ""
    names, shown = [scene.names[site] for site in sites], list(scene.classes.values())
    few = len(classes) <= FEW_CLASSES
    small = _drawn("split", NARROW, names, shown, table)
    large = [] if few else [_drawn("splitw", WIDE, names, shown, table)]
    return figure(
        Chart(
            _finding(sites, table),
            "Train rows of each class at each site; the area of a dot is the number of rows, a small cross is none. "
            f"{seeds}",
            scene.story.sheets["split"],
            pictures=[small] if few else [],
            narrow=[] if few else [small],
            wide=large,
        )
    )


def _finding(sites: list[str], table: NDArray[np.int64]) -> str:
    held, total = (table > 0).sum(axis=1), table.sum(axis=1)
    least, most = int(total.argmin()), int(total.argmax())
    sizes = (
        f"Fewest train rows: {plain(sites[least])} ({total[least]}); most: {plain(sites[most])} ({total[most]})"
        if len(sites) > 1
        else f"Train rows at {plain(sites[0])}: {total[0]}"
    )
    many = f"{held.min()} to {held.max()}" if held.min() < held.max() else f"{held[0]}"
    has = "every site has all" if held.min() == table.shape[1] else f"a site has {many} of"
    return f"{sizes}; {has} {table.shape[1]} classes."


def _drawn(key: str, width: int, sites: list[str], classes: list[str], table: NDArray[np.int64]) -> str:
    left = max(text_width(name, SMALL) for name in sites) + 14
    cell = min((width - left - 30) / len(classes), 44.0)
    row = min(max(cell, 16.0), 30.0)
    named = cell >= NARROWEST
    upright = all(text_width(name, SMALL) <= cell for name in classes)
    top = 8 + (20 if upright else 0.72 * max(text_width(name, SMALL) for name in classes) + 12 if named else 0)
    height = int(top + row * len(sites) + 10)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes(left, width - left - cell * len(classes), top, 10)
        axes.set_xlim(-0.5, len(classes) - 0.5)
        axes.set_ylim(len(sites) - 0.5, -0.5)
        y, x = np.nonzero(table)
        largest = min(cell, row) * 0.95
        areas = np.maximum(largest**2 * table[y, x] / table.max(), 1.5)
        axes.scatter(x, y, s=areas, color=SERIES[0], alpha=0.8, linewidth=0, clip_on=False)
        empty = np.nonzero(table == 0)
        axes.plot(
            empty[1], empty[0], linestyle="none", marker="x", markersize=3, markeredgewidth=0.7, color=MUTED, alpha=0.6
        )
        axes.xaxis.tick_top()
        for side in axes.spines.values():
            side.set_visible(False)
        axes.tick_params(length=0, labelcolor=INK, pad=5)
        axes.set_yticks(range(len(sites)), sites, fontsize=min(SMALL, row))
        axes.set_xticks(range(len(classes)) if named else [])
        if named:
            turned: dict[str, Any] = {} if upright else {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
            axes.set_xticklabels(classes, fontsize=SMALL, **turned)

    return picture(key, width, height, draw)
