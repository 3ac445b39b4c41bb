"""The FedDES paper's tables 1 and 3 and figure 2 from the runs of feddes_fashion.toml and feddes_cifar.toml.

python experiments/feddes_tables.py runs/feddes_fashion runs/feddes_cifar --out docs/results

Prints the tables, the published figures (CIFAR-10) beside ours, and draws figure 2 for each folder into --out.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from pages import table
from run_facts import facts, runs_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from peerwise.evaluate import Assessment, assess
from peerwise.evaluate.selection import home_frequency
from peerwise.run import Run

SETTINGS = [(1.0, 3), (1.0, 5), (1.0, 7), (10.0, 3), (10.0, 5), (10.0, 7)]  # alpha, classes a site
# Published, CIFAR-10, in the order of SETTINGS: accuracy, and the share of sites above Local.
ACCURACY: dict[str, tuple[float, ...]] = {
    "feddes": (85.7, 74.2, 68.4, 81.9, 68.3, 60.2),
    "own": (83.8, 70.9, 63.7, 79.3, 64.0, 54.3),
    "global_ensemble": (44.5, 46.7, 51.1, 49.1, 49.5, 57.0),
    "fedkd": (81.0, 69.2, 61.8, 76.0, 62.7, 51.0),
    "lgfedavg": (81.1, 68.7, 60.9, 76.4, 61.8, 49.5),
    "fedgh": (81.3, 68.3, 60.1, 76.2, 61.3, 49.1),
    "fml": (80.4, 67.8, 60.0, 75.5, 61.1, 48.4),
    "fedtgp": (76.3, 65.9, 58.0, 74.8, 59.8, 50.2),
    "fedproto": (69.8, 57.4, 54.3, 68.1, 57.4, 45.9),
}
WINS: dict[str, tuple[int, ...]] = {
    "feddes": (90, 95, 95, 80, 90, 90),
    "global_ensemble": (0, 0, 10, 0, 20, 60),
    "fedkd": (25, 30, 35, 30, 45, 35),
    "lgfedavg": (20, 20, 10, 20, 25, 20),
    "fedgh": (10, 15, 20, 15, 30, 10),
    "fml": (30, 25, 25, 20, 40, 15),
    "fedtgp": (5, 5, 10, 20, 30, 25),
    "fedproto": (5, 5, 10, 10, 20, 10),
}
BEHAVIOUR: dict[str, tuple[float, ...]] = {
    "published: ensemble size": (4.36, 5.44, 7.07, 4.96, 7.58, 9.73),
    "published: ESS": (3.71, 3.73, 4.12, 3.96, 4.38, 4.71),
    "published: Spearman's ρ": (0.69, 0.59, 0.55, 0.78, 0.72, 0.64),
}
COLUMNS = {"ensemble size": "ensemble_size", "ESS": "ess", "Spearman's ρ": "home_spearman",
           "ρ, peers' rows only": "home_spearman_peers", "share of rows without a choice": "fallback"}  # fmt: skip
HEADS = [f"C={classes} α={alpha:g}" for alpha, classes in SETTINGS]
OF_THE_POOL = ("peerwise", "feddes")

Found = dict[tuple[float, int], tuple[Run, Assessment]]


def read(folder: Path) -> Found:
    """By (alpha, classes a site): the run and what is to be said of it."""
    found: Found = {}
    for run in runs_of(folder).values():
        shares = run.experiment.partition_settings
        found[float(shares["alpha"]), int(shares["classes_per_site"])] = (run, assess(run))
    missing = [setting for setting in SETTINGS if setting not in found]
    if missing:
        raise SystemExit(f"{folder} lacks {missing} (alpha, classes a site): run the experiment to its end first.")
    return found


def table_1(found: Found) -> str:
    """Accuracy, its spread over seeds, the gain over its bar and won/tied/lost sites."""
    names = list(found[SETTINGS[0]][1].methods.index)
    lines = [["own", *(_own(found[setting][1]) for setting in SETTINGS)]]
    for name in names:
        lines.append([name, *(_accuracy(found[setting][1].methods.loc[name], name) for setting in SETTINGS)])
    return table(["method", *HEADS], lines)


def published_1() -> str:
    lines = []
    for name, values in ACCURACY.items():
        wins = [f" ({share})" for share in WINS[name]] if name in WINS else [""] * len(values)
        lines.append([name, *(f"{value:.1f}{won}" for value, won in zip(values, wins, strict=True))])
    return table(["method", *HEADS], lines)


def table_3(found: Found) -> str:
    lines = []
    for name, (label, key) in product(OF_THE_POOL, COLUMNS.items()):
        lines.append([f"{name}: {label}", *(f"{found[here][1].methods.loc[name, key]:.2f}" for here in SETTINGS)])
    lines += [[label, *(f"{value:.2f}" for value in values)] for label, values in BEHAVIOUR.items()]
    return table(["", *HEADS], lines)


def costs(found: Found) -> str:
    """Bytes a site and CPU seconds of a federation, the mean over the settings."""
    tables = [assessment.methods for _, assessment in found.values()]
    lines = []
    for name in tables[0].index:
        rows = pd.DataFrame([table.loc[name] for table in tables])
        seconds = rows[[column for column in rows if column.startswith("seconds_")]].sum(axis=1).mean()
        lines.append([name, f"{rows['bytes_sent'].mean() / 1e3:.0f} kB", f"{seconds:.0f} s"])
    return table(["method", "sent a site", "seconds of all 20 sites, a seed"], lines)


def over_all(found: Found) -> str:
    """Each method over its bar in all settings: points, the spread of the seeds' means, and sites; and over
    `local_rounds` of the same run, whose loss is not weighted by class as that of a pool's models is."""
    sites = pd.concat([assessment.sites.assign(here=str(setting)) for setting, (_, assessment) in found.items()])
    sites = sites[sites["test_rows"] > 0].set_index(["here", "seed", "site"])
    local = sites[sites["method"] == "local_rounds"]
    lines = []
    for name in dict.fromkeys(sites["method"]):
        if name == "local_rounds":
            continue
        part = sites[sites["method"] == name]
        gains = 100 * part["accuracy_gain"]
        shares = [100 * float(np.mean(which)) for which in (gains > 1e-9, gains.abs() <= 1e-9, gains < -1e-9)]
        cells = [_points(gains), _points(100 * part["balanced_accuracy_gain"]), " / ".join(f"{x:.0f}" for x in shares)]
        worst = gains.groupby("seed").min().mean()
        lines.append([name, *cells, f"{worst:+.1f}", _points(100 * (part["accuracy"] - local["accuracy"]))])
    heads = [
        "method",
        "points over its bar",
        "balanced",
        "won / tied / lost, % of sites",
        "worst site",
        "over `local_rounds`",
    ]
    return table(heads, lines)


def _points(gains: pd.Series) -> str:
    return f"{gains.mean():+.2f} ± {gains.groupby('seed').mean().std(ddof=0):.2f}"


def figure_2(found: Found, path: Path) -> None:
    """Mean trust in a model for a class against the share of the class at the model's home, own models apart."""
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), sharex=True, sharey=True)
    for (alpha, classes), axis in zip(SETTINGS, axes.flat, strict=True):
        run, assessment = found[alpha, classes]
        rho = assessment.methods.loc["feddes", "home_spearman"]
        _panel(axis, run)
        axis.set_title(f"{classes} classes a site, α = {alpha:g}: ρ = {rho:.2f}", fontsize=9)
    figure.supxlabel("share of the class among the train rows of the model's home")
    figure.supylabel("mean trust in the model on rows of the class")
    axes[0, 2].legend(loc="upper right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axis: Axes, run: Run) -> None:
    trees = {site: tree for (seed, name, site), tree in run.predictions.items() if (seed, name) == (0, "feddes")}
    lines = home_frequency(trees)
    axis.scatter(lines["frequency"], lines["trust"], s=8, color="#888", label="all sites' rows")
    own = _own_trust(trees)
    axis.scatter(own["frequency"], own["trust"], s=8, color="#c23", label="rows of the model's own site")
    slope, start = np.polyfit(lines["frequency"], lines["trust"], 1)
    axis.plot([0, 1], [start, start + slope], "--", color="#333", linewidth=1)


def _own_trust(trees: dict[str, dict[str, object]]) -> pd.DataFrame:
    """The same with the rows of the model's home alone."""
    parts = [home_frequency({site: tree}) for site, tree in trees.items()]
    return pd.concat([part for part in parts if len(part)])


def _own(assessment: Assessment) -> str:
    lines = assessment.sites.query("method == 'peerwise'")
    by_seed = 100 * lines.groupby("seed")["own_accuracy"].mean()
    return f"{by_seed.mean():.1f} ± {by_seed.std(ddof=0):.1f}"


def _accuracy(line: pd.Series, name: str) -> str:
    text = f"{100 * line['accuracy']:.1f} ± {100 * line['accuracy_seed_std']:.1f}"
    if name == "local_rounds":
        return text
    shares = "/".join(f"{100 * line[f'accuracy_{part}']:.0f}" for part in ("wins", "ties", "losses"))
    return f"{text} ({100 * line['accuracy_gain']:+.1f}; {shares})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_FOLDER")
    parser.add_argument("--out", type=Path, default=Path(), help="where figure 2 goes (default: here)")
    a = parser.parse_args()
    for folder in a.folders:
        found = read(folder)
        print(f"## {folder.name}\n\n{facts([run for run, _ in found.values()])}\n")
        for title, text in (("Table 1", table_1(found)), ("All settings together", over_all(found)),
                            ("Table 3 and figure 2", table_3(found)), ("Cost", costs(found))):  # fmt: skip
            print(f"### {title}\n\n{text}")
        figure_2(found, a.out / f"{folder.name}.png")
    print(f"## Published table 1 (in brackets: % of sites above Local)\n\n{published_1()}")


if __name__ == "__main__":
    main()
