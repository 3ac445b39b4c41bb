"""Tables and the figure of the study of a thousand peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd


def over_own(found: pd.DataFrame) -> pd.DataFrame:
    """Each line with its gain over the own model of its site, in points."""
    own = found[found["how"] == "own model"].set_index(["seed", "site"])["right"]
    before = own.reindex(pd.MultiIndex.from_frame(found[["seed", "site"]])).to_numpy()
    return found.assign(
        gain=100 * (found["right"] - before), better=found["right"] > before, worse=found["right"] < before
    )


def summary(found: pd.DataFrame) -> pd.DataFrame:
    lines = over_own(found)
    lines = lines.assign(place=lines["asked"].where(lines["how"] != "cascade", -1))
    keys = ["how", "fetched", "place"]
    by_seed = lines.groupby([*keys, "seed"], sort=False)[["right", "gain", "worse", "fit", "answer", "asked"]].mean()
    mean = by_seed.groupby(keys, sort=False).mean()
    mean["seeds"] = by_seed.groupby(keys, sort=False)["gain"].std()
    mean["sites"] = lines.groupby(keys, sort=False)["gain"].std()
    return mean.reset_index()


def tables(found: pd.DataFrame) -> str:
    return summary(found).round(3).to_string()


LOWEST = -4  # points; what is worse falls out of the picture
STYLES = {
    "own rows (fetches all)": ("black", "--", "all are tried on own rows (needs all of them)"),
    "card": ("tab:blue", "-", "classes and rows on the card (most_peers)"),
    "classes, then rows": ("tab:brown", ":", "classes on the card, then rows"),
    "histogram": ("tab:cyan", "-", "label counts (on no card)"),
    "sketch, consensus": ("tab:green", "-", "sketch: agrees with most peers (on no card)"),
    "sketch, like own": ("tab:olive", "-", "sketch: agrees with the own model (on no card)"),
    "rows": ("tab:purple", "-", "rows on the card"),
    "claimed accuracy": ("tab:red", "-", "accuracy claimed (on no card)"),
    "random": ("grey", "-", "at random"),
}
FEW = {
    "card": ("tab:blue", "-", "only so many fetched, by card"),
    "kept": ("tab:orange", "-", "64 fetched by card, the best of them kept"),
    "all asked, few have a say": ("tab:red", ":", "64 fetched and asked, few have a say"),
}


def drawn(found: pd.DataFrame, file: Path) -> None:
    """Gain over the own model: left over the models fetched, right over those asked of each row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    mean = summary(found)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), sharey=True)
    everything = mean[mean["how"] == "all"]
    for how, style in STYLES.items():
        lines = mean[mean["how"] == how]
        _line(left, pd.concat([lines, everything]), style, "fetched", band=how in ("random", "card"))
    panel = f"kept of {found.loc[found['how'] == 'cascade', 'fetched'].iloc[0]}"
    for how, style in FEW.items():
        lines = mean[mean["how"] == (panel if how == "kept" else how)]
        _line(right, lines[lines["asked"] <= 64], style, "asked", band=how == "kept")
    cascade = mean[mean["how"] == "cascade"]
    right.errorbar(
        cascade["asked"], cascade["gain"], cascade["seeds"], fmt="*", color="tab:green", markersize=14,
        label="64 fetched, cascade (docs/frugal.md)",
    )  # fmt: skip
    left.set(xlabel="models fetched of all peers'", ylabel="points over the own model, mean of sites")
    right.set(xlabel="peers' models asked (dotted: that have a say) a row")
    left.set_ylim(LOWEST, max(0.0, mean["gain"].max()) + 2)
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.axhline(0, color="lightgrey", zorder=0)
        axis.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _line(axis: Any, lines: pd.DataFrame, style: tuple[str, str, str], over: str, *, band: bool) -> None:
    colour, dashes, label = style
    axis.plot(lines[over], lines["gain"], dashes, marker="o", markersize=3, color=colour, label=label)
    if band:
        low, high = lines["gain"] - lines["seeds"], lines["gain"] + lines["seeds"]
        axis.fill_between(lines[over], low, high, color=colour, alpha=0.15, linewidth=0)
