"""Pictures of the stacking study, as the paper's figures 2 to 5, and its tables, from what stacking.py left.

python experiments/stacking_figures.py runs/stacking --out docs/results
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from curves import save
from matplotlib.axes import Axes
from stacking_relations import relations
from stacking_tables import NAMES, tables

from peerwise.evaluate.contribution import graph_from_scores, in_strength

KEYS = ["protocol", "dataset", "scenario", "setting", "noise", "seed"]
COLOURS = {"adult": "tab:blue", "covertype": "tab:green", "credit_default": "tab:orange"}
STYLES = {"held_out": "-", "pooled": ":", "cv": "--"}
WORDS = {"held_out": "held-out", "pooled": "pooled", "cv": "private 80 % out of fold"}


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sites with their importance (held-out) and self-importances, and edges with both ends' label balance."""
    sites = pd.concat([pd.read_csv(path) for path in sorted(folder.glob("*-sites.csv"))], ignore_index=True)
    edges = pd.concat([pd.read_csv(path) for path in sorted(folder.glob("*-edges.csv"))], ignore_index=True)
    if sites.duplicated([*KEYS, "site"]).any():
        sys.exit(f"{folder} holds a federation with several numbers of rows or repeats: give each a folder of its own.")
    sites["setting"], edges["setting"] = sites["setting"].astype(str), edges["setting"].astype(str)
    own = edges[edges["site"] == edges["peer"]].pivot_table(index=[*KEYS, "site"], columns="variant", values="weight")
    sites = sites.merge(own.add_prefix("self_").reset_index(), on=[*KEYS, "site"])
    held = edges[edges["variant"] == "held_out"]
    found = []
    for key, part in held.groupby(KEYS):
        rows = {site: dict(zip(row["peer"], row["weight"], strict=True)) for site, row in part.groupby("site")}
        importance = in_strength(graph_from_scores(rows))
        found += [{**dict(zip(KEYS, key, strict=True)), "site": s, "importance": v} for s, v in importance.items()]
    sites = sites.merge(pd.DataFrame(found), on=[*KEYS, "site"])
    balance = sites[[*KEYS, "site", "positive"]]
    peers = balance.rename(columns={"site": "peer", "positive": "peer_positive"})
    return sites, held.merge(balance, on=[*KEYS, "site"]).merge(peers, on=[*KEYS, "peer"])


def made(sites: pd.DataFrame) -> str:
    """By protocol and scenario: seeds, commits and minutes."""
    lines = []
    for (protocol, scenario), part in sites.groupby(["protocol", "scenario"]):
        minutes = part.groupby(KEYS)["seconds"].first().sum() / 60
        commits = ", ".join(sorted(part["commit"].astype(str).unique()))
        lines.append(f"{protocol}, {scenario}: {part['seed'].nunique()} seeds; commit {commits}; {minutes:.1f} minutes")
    return "\n" + "\n".join(lines) + "\n"


def by_setting(axes: Axes, sites: pd.DataFrame, variants: list[str], label: str) -> None:
    """Gain over the private model by setting: the mean over sites, a bar for the spread of that mean over seeds."""
    for (name, part), variant in ((pair, v) for pair in sites.groupby("dataset") for v in variants):
        gain = (part[variant] - part["own_80"]).groupby([part["setting"].astype(float), part["seed"]]).mean().unstack()
        axes.errorbar(gain.index, 100 * gain.mean(axis=1), 100 * gain.std(axis=1, ddof=0), capsize=2, lw=1.5,
                      color=COLOURS[str(name)], ls=STYLES[variant], marker="o", ms=3,
                      label=f"{NAMES[str(name)]}, {WORDS[variant]}")  # fmt: skip
    _finish(axes, label, "gain (points of balanced accuracy)")


def against(
    axes: Axes, sites: pd.DataFrame, x: str, y: Callable[[pd.DataFrame], pd.Series[float]], labels: tuple[str, str]
) -> None:
    """A dot a site and seed, and the mean within each sixth of the range (of its logarithm for rows)."""
    for name, part in sites.groupby("dataset"):
        value = y(part)
        axes.plot(part[x], value, ".", ms=3, alpha=0.4, color=COLOURS[str(name)])
        means = pd.DataFrame({"x": part[x], "y": value}).groupby(sixths(part[x], x)).mean()
        axes.plot(means["x"], means["y"], "o-", ms=4, color=COLOURS[str(name)], label=NAMES[str(name)])
    if x == "rows":
        log_rows(axes)
    _finish(axes, *labels)


def sixths(values: pd.Series[float], x: str) -> pd.Series[int]:
    return pd.cut(np.log(values) if x == "rows" else values, 6, labels=False)


def log_rows(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xticks([700, 1000, 1500, 2500, 4000], ["700", "1,000", "1,500", "2,500", "4,000"])
    axes.minorticks_off()


def _finish(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.axhline(0, color="black", lw=0.6)
    axes.grid(alpha=0.25)


def gain(part: pd.DataFrame) -> pd.Series[float]:
    return 100 * (part["held_out"] - part["own_80"])


def quantity(sites: pd.DataFrame, out: Path) -> None:
    here = sites[(sites["scenario"] == "quantity") & (sites["protocol"] == "paper")]
    figure, panels = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    by_setting(panels[0], here, ["held_out", "pooled"], "power (1: equal sizes)")
    against(panels[1], here, "rows", gain, ("rows of the site", "gain, held-out (points)"))
    against(panels[2], here, "rows", lambda part: part["importance"], ("rows of the site", "importance to the others"))
    for variant in ("held_out", "pooled"):
        means = here.groupby(sixths(here["rows"], "rows"))[["rows", f"self_{variant}"]].mean()
        style = {"ls": STYLES[variant], "color": "black", "label": WORDS[variant]}
        panels[3].plot(means["rows"], means[f"self_{variant}"], "o", **style)
    _finish(panels[3], "rows of the site", "importance of the own model")
    log_rows(panels[3])
    panels[0].legend(fontsize=6.5)
    panels[3].legend(fontsize=8)
    save(figure, out / "stacking_quantity.png")


def labels(sites: pd.DataFrame, edges: pd.DataFrame, out: Path) -> None:
    chosen = [t["scenario"].eq("equal_label_skew") & t["protocol"].eq("paper") for t in (sites, edges)]
    here, between = sites[chosen[0]], edges[chosen[1]]
    figure, panels = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    by_setting(panels[0], here, ["held_out", "pooled"], "alpha (large: balanced classes)")
    panels[0].set_xscale("log")
    against(panels[1], here, "positive", gain, ("share of class 1", "gain, held-out (points)"))
    against(
        panels[2], here, "positive", lambda part: part["importance"], ("share of class 1", "importance to the others")
    )
    between = between[between["site"] != between["peer"]]
    cut = [pd.cut(between[column], np.linspace(0, 1, 7), labels=False) for column in ("positive", "peer_positive")]
    grid = between["weight"].groupby(cut).mean().unstack().reindex(index=range(6), columns=range(6))
    drawn = panels[3].imshow(grid, origin="lower", extent=(0, 1, 0, 1), cmap="viridis")
    panels[3].set_xlabel("the other's share of class 1")
    panels[3].set_ylabel("own share of class 1")
    figure.colorbar(drawn, ax=panels[3], label="importance given")
    panels[0].legend(fontsize=6.5)
    save(figure, out / "stacking_labels.png")


def vertical(sites: pd.DataFrame, edges: pd.DataFrame, out: Path) -> None:
    here, between = sites[sites["scenario"] == "vertical"], edges[edges["scenario"] == "vertical"]
    figure, panels = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    for panel, protocol in zip(panels, ("paper", "ours"), strict=False):
        of_protocol = here[here["protocol"] == protocol]
        for (name, noise), part in of_protocol.groupby(["dataset", "noise"]):
            by_share = gain(part).groupby([part["setting"].astype(float), part["seed"]]).mean().unstack()
            panel.errorbar(by_share.index, by_share.mean(axis=1), by_share.std(axis=1, ddof=0), capsize=2, marker="o",
                           ms=3, color=COLOURS[str(name)], ls="-" if noise == 0 else "--",
                           label=f"{NAMES[str(name)]}, eps {noise:g}")  # fmt: skip
        _finish(panel, "share of the columns that a site has", "gain, held-out (points)")
        panel.set_title(
            "paper's: public models saw the test rows" if protocol == "paper" else "ours: no model saw them", fontsize=9
        )
    low, high = min(panel.get_ylim()[0] for panel in panels[:2]), max(panel.get_ylim()[1] for panel in panels[:2])
    for panel in panels[:2]:
        panel.set_ylim(low, high)
    others = between[(between["site"] != between["peer"]) & between["noise"].eq(0) & between["protocol"].eq("ours")]
    against(
        panels[2],
        others,
        "jaccard",
        lambda part: part["weight"],
        ("overlap of columns (Jaccard)", "importance given, eps 0"),
    )
    for (protocol, noise), part in here.groupby(["protocol", "noise"]):
        means = part.groupby(part["setting"].astype(float))["self_held_out"].mean()
        colour, style = "black" if protocol == "ours" else "tab:red", "-" if noise == 0 else "--"
        panels[3].plot(means, marker="o", color=colour, ls=style, label=f"{protocol}, eps {noise:g}")
    _finish(panels[3], "share of the columns that a site has", "importance of the own model")
    panels[0].legend(fontsize=6.5)
    panels[3].legend(fontsize=8)
    save(figure, out / "stacking_vertical.png")


def natural(sites: pd.DataFrame, out: Path) -> None:
    here = sites[(sites["scenario"] == "natural") & (sites["protocol"] == "paper")]
    figure, panels = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
    order = here.groupby(["dataset", "site"])["rows"].mean()
    places = np.arange(len(order))
    for side, variant in enumerate(("held_out", "pooled")):
        for panel, value in ((panels[0], 100 * (here[variant] - here["own_80"])), (panels[1], here[f"self_{variant}"])):
            means = value.groupby([here["dataset"], here["site"]]).agg(["mean", "std"]).reindex(order.index)
            where, colours = places + 0.4 * side - 0.2, [COLOURS[name] for name, _ in order.index]
            panel.bar(where, means["mean"], 0.38, yerr=means["std"], capsize=2, color=colours, alpha=1 - 0.5 * side,
                      label=WORDS[variant])  # fmt: skip
    for panel, what in zip(panels, ("gain (points of balanced accuracy)", "importance of the own model"), strict=True):
        panel.set_xticks(
            places, [f"{site}\n{rows:.0f}" for (_, site), rows in order.items()], fontsize=6.5, rotation=30
        )
        _finish(panel, "site and its rows", what)
    panels[1].legend(fontsize=8)
    save(figure, out / "stacking_natural.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what experiments/stacking.py wrote")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    wanted = parser.parse_args()
    sites, edges = read(wanted.folder)
    sys.stdout.write(tables(sites) + relations(sites, edges) + made(sites))
    quantity(sites, wanted.out)
    labels(sites, edges, wanted.out)
    vertical(sites, edges, wanted.out)
    natural(sites, wanted.out)


if __name__ == "__main__":
    main()
