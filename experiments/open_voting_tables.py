"""The tables and the picture of `open_voting.py`: ours beside the published figures.

python experiments/open_voting_tables.py runs/open_voting --picture open_voting.png
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

# Accuracy in percent on the whole data sets, of the FedSOV paper's tables 2, 4, 5, 8 and 9: sites -> figure.
PUBLISHED: dict[tuple[str, str, str], dict[int, float]] = {
    ("fashion_mnist", "disjoint", "fedavg"): {5: 59.9, 10: 37.3, 20: 37.4},
    ("fashion_mnist", "disjoint", "fedgf"): {5: 68.7, 10: 44.8, 20: 42.7},
    ("fashion_mnist", "disjoint", "fedov"): {5: 67.2, 10: 60.1, 20: 70.7},
    ("fashion_mnist", "disjoint", "fedsov"): {5: 73.6, 10: 74.3, 20: 78.6},
    ("fashion_mnist", "dirichlet 0.01", "fedavg"): {5: 54.0, 10: 39.9, 20: 36.0},
    ("fashion_mnist", "dirichlet 0.01", "fedgf"): {5: 60.2, 10: 45.1, 20: 42.1},
    ("fashion_mnist", "dirichlet 0.01", "fedov"): {5: 66.7, 10: 59.7, 20: 59.5},
    ("fashion_mnist", "dirichlet 0.01", "fedsov"): {5: 66.8, 10: 59.0, 20: 62.8},
    ("fashion_mnist", "dirichlet 0.1", "fedavg"): {5: 61.9, 10: 62.7, 20: 64.8},
    ("fashion_mnist", "dirichlet 0.1", "fedgf"): {5: 67.4, 10: 67.1, 20: 63.0},
    ("fashion_mnist", "dirichlet 0.1", "fedov"): {5: 69.4, 10: 76.6, 20: 79.8},
    ("fashion_mnist", "dirichlet 0.1", "fedsov"): {5: 69.7, 10: 75.9, 20: 78.4},
    ("cifar10", "disjoint", "fedavg"): {5: 48.3, 10: 22.2, 20: 23.0},
    ("cifar10", "disjoint", "fedgf"): {5: 48.6, 10: 25.2, 20: 25.3},
    ("cifar10", "disjoint", "fedov"): {5: 44.9, 10: 29.9, 20: 39.4},
    ("cifar10", "disjoint", "fedsov"): {5: 51.3, 10: 39.4, 20: 47.8},
    ("cifar10", "disjoint", "fedsov:full"): {5: 52.2, 10: 37.9, 20: 47.2},
    ("cifar10", "disjoint", "distilled_vote"): {5: 46.3, 10: 28.7, 20: 43.8},
    ("cifar10", "dirichlet 0.01", "fedavg"): {5: 47.5, 10: 31.9, 20: 26.2},
    ("cifar10", "dirichlet 0.01", "fedgf"): {5: 49.0, 10: 35.8, 20: 28.6},
    ("cifar10", "dirichlet 0.01", "fedov"): {5: 41.9, 10: 35.6, 20: 34.9},
    ("cifar10", "dirichlet 0.01", "fedsov"): {5: 48.5, 10: 43.2, 20: 41.2},
    ("cifar10", "dirichlet 0.1", "fedavg"): {5: 49.9, 10: 44.1, 20: 37.7},
    ("cifar10", "dirichlet 0.1", "fedgf"): {5: 52.6, 10: 43.6, 20: 42.4},
    ("cifar10", "dirichlet 0.1", "fedov"): {5: 52.2, 10: 49.4, 20: 51.3},
    ("cifar10", "dirichlet 0.1", "fedsov"): {5: 52.8, 10: 50.7, 20: 54.8},
    ("cifar10", "dirichlet 0.1", "fedsov:full"): {5: 55.7, 10: 49.5, 20: 55.5},
    ("cifar10", "dirichlet 0.1", "distilled_vote"): {5: 52.4, 10: 46.7, 20: 53.6},
    ("coloured_digits", "by colour", "fedavg"): {5: 95.9, 10: 95.1, 20: 75.4},
    ("coloured_digits", "by colour", "fedgf"): {5: 96.8, 10: 94.4, 20: 44.2},
    ("coloured_digits", "by colour", "fedov"): {5: 98.4, 10: 97.8, 20: 97.3},
    ("coloured_digits", "by colour", "fedsov"): {5: 98.4, 10: 97.6, 20: 96.5},
}
HEAD = "| method | accuracy | ± seeds | paper | balanced | open AUROC | best of the K-curve | sent a site | train s |\n"
RULE = "|---|---|---|---|---|---|---|---|---|\n"


def read_table(path: Path) -> pd.DataFrame:
    """What `open_voting.py` has written; text that is not there is empty."""
    table = pd.read_csv(path, dtype={"mark": str, "collapsed": str})
    texts = [name for name in ("mark", "collapsed") if name in table]
    return table.assign(**{name: table[name].fillna("") for name in texts})


def as_markdown(methods: pd.DataFrame, by_k: pd.DataFrame) -> str:
    """An overview of every study, then a table for every federation with what has collapsed there."""
    keys = ["study", "dataset", "split", "sites", "mark", "seeds", "personal"]
    text = "".join(_overview(part) for _, part in methods.groupby(["study", "personal"], sort=False))
    for key, part in methods.groupby(keys, sort=False):
        study, dataset, split, sites, mark, seeds, personal = key
        test = "personal" if personal else "common test"
        text += (
            f"\n{study}: {dataset}, {split}, {sites} sites{', ' + mark if mark else ''}, {seeds} seed(s), {test}\n\n"
        )
        text += HEAD + RULE
        for _, line in part.iterrows():
            same = by_k[(by_k[["dataset", "split", "sites", "mark", "personal", "method"]]
                         == [dataset, split, sites, mark, personal, line["method"]]).all(axis=1)]  # fmt: skip
            text += _row(line, PUBLISHED.get((dataset, split, line["method"]), {}).get(int(sites)), same)
        for _, line in part[part["collapsed"] != ""].iterrows():
            text += f"\n{line['method']}: {line['collapsed']}\n"
    return text


def _overview(methods: pd.DataFrame) -> str:
    """A line a federation, a column a method: accuracy, and in brackets the published one."""
    names = list(dict.fromkeys(methods["method"]))
    text = f"\n| {' | '.join(['data', 'split', 'sites', *names])} |\n|{'---|' * (len(names) + 3)}\n"
    for (dataset, split, sites, mark), part in methods.groupby(["dataset", "split", "sites", "mark"], sort=False):
        found = part.set_index("method")["accuracy"]
        cells = [f"{dataset} {mark}".strip(), split, str(sites)]
        for name in names:
            paper = PUBLISHED.get((dataset, split, name), {}).get(int(sites))
            ours = f"{100 * found[name]:.1f}" if name in found else ""
            cells.append(ours + (f" ({paper:.1f})" if ours and paper is not None else ""))
        text += f"| {' | '.join(cells)} |\n"
    return text


def _row(line: pd.Series[float], paper: float | None, by_k: pd.DataFrame) -> str:
    best = by_k.loc[by_k["accuracy"].idxmax()] if len(by_k) else None
    cells = [
        str(line["method"]),
        f"{100 * line['accuracy']:.1f}",
        _percent(line["accuracy_seed_std"]),
        "" if paper is None else f"{paper:.1f}",
        f"{100 * line['balanced_accuracy']:.1f}",
        _percent(line.get("open_auroc", float("nan"))),
        "" if best is None else f"{100 * best['accuracy']:.1f} (K={best['k']})",
        f"{line['bytes_sent'] / 1000:.0f} kB",
        f"{line['seconds_train']:.0f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _percent(value: float) -> str:
    return "" if pd.isna(value) else f"{100 * value:.1f}"


def draw(methods: pd.DataFrame, by_k: pd.DataFrame, out: Path) -> None:
    """Accuracy against the number of sites for each split of Fashion-MNIST, and the K-curve at ten sites."""
    main = methods[(methods["study"] == "fashion") & ~methods["personal"]]
    splits = [split for split in ("disjoint", "dirichlet 0.01", "dirichlet 0.1") if split in set(main["split"])]
    figure, panels = plt.subplots(1, len(splits) + 1, figsize=(3.4 * (len(splits) + 1), 3.3), layout="constrained")
    colours = {name: f"C{place}" for place, name in enumerate(main["method"].unique())}
    for axes, split in zip(panels, splits, strict=False):
        for name, part in main[main["split"] == split].groupby("method", sort=False):
            part = part.sort_values("sites")
            axes.errorbar(part["sites"], 100 * part["accuracy"], 100 * part["accuracy_seed_std"].fillna(0),
                          marker="o", color=colours[name], label=name)  # fmt: skip
        _named(axes, split, "sites", sorted(main["sites"].unique()))
    curve = by_k[(by_k["study"] == "fashion") & (by_k["split"] == "dirichlet 0.1") & (by_k["sites"] == 10)]
    for name, part in curve[~curve["personal"]].groupby("method", sort=False):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--picture", type=Path, default=Path("open_voting.png"))
    arguments = parser.parse_args()
    tables = [
        pd.concat(map(pd.read_csv, sorted(arguments.folder.glob(f"*/{name}.csv")))) for name in ("methods", "by_k")
    ]
    draw(*tables, arguments.picture)


if __name__ == "__main__":
    main()
