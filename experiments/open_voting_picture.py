"""The picture of `open_voting.py`."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

SPLITS = ("disjoint", "dirichlet 0.01", "dirichlet 0.1")


def draw(methods: pd.DataFrame, by_k: pd.DataFrame, out: Path) -> None:
    """Accuracy against the number of sites for each split of Fashion-MNIST, and against the number of voters."""
    main = methods[methods["study"].isin(["disjoint", "dirichlet"])]
    figure, panels = plt.subplots(1, len(SPLITS) + 1, figsize=(3.4 * (len(SPLITS) + 1), 3.3), layout="constrained")
    colours = {name: f"C{place}" for place, name in enumerate(main["method"].unique())}
    for axes, split in zip(panels, SPLITS, strict=False):
        for name, part in main[main["split"] == split].groupby("method", sort=False):
            part = part.sort_values("sites")
            axes.errorbar(part["sites"], 100 * part["accuracy"], 100 * part["accuracy_seed_std"].fillna(0),
                          marker="o", color=colours[name], label=name)  # fmt: skip
        _named(axes, split, "sites", sorted(main["sites"].unique()))
    curve = by_k[(by_k["study"] == "dirichlet") & (by_k["split"] == "dirichlet 0.1") & (by_k["sites"] == 10)]
    for name, part in curve.groupby("method", sort=False):
        panels[-1].plot(part["k"], 100 * part["accuracy"], marker="o", color=colours[name], label=name)
    _named(panels[-1], "dirichlet 0.1, 10 sites", "nets that vote", [1, 3, 5, 10])
    panels[0].set_ylabel("accuracy, % of common test rows")
    panels[0].legend(fontsize=7)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90)
    Image.open(drawn).convert("RGB").quantize(64).save(out, optimize=True)


def _named(axes: Axes, title: str, below: str, ticks: list[int]) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(below)
    axes.set_xticks(ticks)
    axes.set_ylim(0, 90)
    axes.grid(alpha=0.25)
