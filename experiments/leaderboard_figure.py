"""The critical-difference diagram of the leaderboard."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

from peerwise.evaluate.ranks import Ranking

COLOURS = {"one exchange": "#2a6f97", "rounds": "#c8553d", "alone": "#333333"}


def draw(found: Ranking, by_rounds: Mapping[str, bool], out: Path) -> None:
    """A line a method: its mean rank, and half a critical difference to both sides, so that two methods differ where
    their lines do not overlap. With so many methods the usual bars of groups cannot be read."""
    names = list(found.ranks.index)
    figure, axes = plt.subplots(figsize=(7.6, 0.185 * len(names) + 1.1), layout="constrained")
    for place, name in enumerate(names):
        rank, colour = found.ranks[name], COLOURS[_class(name, by_rounds)]
        axes.plot(
            [rank - found.critical / 2, rank + found.critical / 2], [place, place], color=colour, alpha=0.35, lw=2.5
        )
        axes.plot(rank, place, "o", color=colour, markersize=4.5)
    best = found.ranks.iloc[0] + found.critical / 2
    axes.axvline(best, color="#999999", lw=0.8, ls=":")
    axes.text(
        best,
        len(names) - 0.2,
        " lines that reach left of here: not told from the best",
        fontsize=7,
        color="#666666",
        va="center",
    )
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.set_ylim(len(names), -1)
    axes.set_xlim(0, len(names) + 1)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color(COLOURS[_class(name, by_rounds)])
    for what, colour in COLOURS.items():
        axes.plot([], [], "o", color=colour, label=what)
    axes.legend(fontsize=8, loc="upper right", facecolor="white", framealpha=1)
    axes.set_xlabel(f"mean rank by accuracy over {found.blocks} settings (1 is best); lines: half of the critical "
                    f"difference of {found.critical:.1f}", fontsize=8)  # fmt: skip
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=110)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(64).save(out, optimize=True)


def _class(name: str, by_rounds: Mapping[str, bool]) -> str:
    if name in ("own", "local_rounds"):
        return "alone"
    return "rounds" if by_rounds.get(name) or name == "centralised_rounds" else "one exchange"
