"""The tables of FedMosaic's studies from run folders, ours beside the published figures, and the facts below each.

python experiments/fedmosaic_tables.py runs/fedmosaic_*
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pages
from run_facts import facts, runs_of

from peerwise.evaluate import assess
from peerwise.run.finished import Run

ORDER = ("local_rounds", "centralised_rounds", "fedavg", "fedprox", "fedct", "perfedavg", "ditto", "pfedme", "apfl",
         "fedphp", "perfedckt", "fedmosaic:classes", "fedmosaic:confidence")  # fmt: skip
# Accuracy in percent, tables 2 to 4 of the paper, in the order above; of table 3 the mean over the domains.
PUBLISHED = {
    "fedmosaic_pathological-datasetfashion_mnist":
        (99.32, 99.28, 76.72, 77.88, 78.15, 98.63, 99.37, 74.80, 99.26, 99.30, 99.34, 99.40, None),
    "fedmosaic_pathological-datasetcifar10":
        (88.01, 87.90, 64.42, 70.25, 73.91, 87.20, 87.94, 81.47, 87.98, 87.90, 87.95, 88.03, None),
    "fedmosaic_practical-datasetfashion_mnist":
        (98.23, 99.28, 83.71, 84.14, 85.27, 97.11, 98.39, 80.01, 97.96, 98.40, 98.20, 98.43, None),
    "fedmosaic_practical-datasetcifar10":
        (83.91, 87.90, 70.28, 73.35, 74.39, 81.37, 83.89, 81.61, 83.81, 83.75, 83.87, 86.15, None),
    "fedmosaic_feature_shift_office":
        (66.89, 72.48, 53.80, 68.46, 67.55, 67.91, 72.50, 65.00, 57.71, 58.82, 66.44, None, 76.13),
    "fedmosaic_feature_shift_pacs":
        (65.01, 61.55, 47.88, 52.56, 60.56, 62.79, 68.04, 64.69, 67.10, 65.01, 61.36, None, 70.15),
    "fedmosaic_hybrid_office":
        (86.79, 40.92, 37.25, 58.39, 59.42, 71.92, 80.63, 74.83, 80.91, 76.36, 82.49, 89.06, 89.43),
    "fedmosaic_hybrid_pacs":
        (84.64, 66.24, 31.00, 55.23, 56.38, 72.48, 81.47, 75.21, 80.59, 78.25, 79.24, 87.44, 88.36),
}  # fmt: skip


def table(run: Run, name: str) -> list[list[str]]:
    """A line a method: accuracy, its spread, the gain over the site's own net, sites that gain, and what is sent."""
    found = assess(run).methods
    published = dict(zip(ORDER, PUBLISHED[name], strict=True)) if name in PUBLISHED else {}
    head = [
        "method",
        "accuracy",
        "± sites",
        "± seeds",
        "gain over local_rounds",
        "95 % interval",
        "won/tied/lost",
        "sent a site",
    ]
    lines = [head + ["paper"] * bool(published)]
    count = len(run.results[run.results["method"] == "local_rounds"])
    for method, row in found.iterrows():
        own = method == "local_rounds"
        sites = "/".join(f"{row[f'accuracy_{what}'] * count:.0f}" for what in ("wins", "ties", "losses"))
        ends = f"{_points(row['accuracy_gain_low'])} to {_points(row['accuracy_gain_high'])}"
        theirs = published.get(str(method))
        lines.append([
            str(method),
            *(f"{100 * row[key]:.1f}" for key in ("accuracy", "accuracy_std", "accuracy_seed_std")),
            *(["", "", ""] if own else [_points(row["accuracy_gain"]), ends, sites]),
            _bytes(row["bytes_sent"]),
            *([f"{theirs:.2f}" if theirs else ""] if published else []),
        ])  # fmt: skip
    return lines


def trust(run: Run) -> list[list[str]]:
    """What lambda did: the mean over sites and seeds of the first round with a consensus and of the last."""
    lines = [["method", "lambda, first", "lambda, last"]]
    curves = run.curves
    for method, part in curves[curves["name"] == "lambda"].groupby("method", sort=False):
        heard = curves[(curves["name"] == "public loss") & (curves["method"] == method)]["round"]
        if len(heard):
            ends = [part[part["round"] == end]["value"] for end in (heard.min(), heard.max())]
            lines.append([str(method), *(f"{end.mean():.2f}" for end in ends)])
    return lines


def domains(run: Run) -> list[list[str]]:
    """Where sites are domains: accuracy by method and site, the mean over seeds, ± its spread."""
    by = run.results.groupby(["method", "site"], sort=False)["accuracy"]
    means, spread = 100 * by.mean().unstack(), 100 * by.std(ddof=0).unstack()
    cells = means.map("{:.1f}".format) + " ± " + spread.map("{:.1f}".format)
    return [["method", *means.columns], *([str(m), *row] for m, row in zip(cells.index, cells.to_numpy(), strict=True))]


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _bytes(count: float) -> str:
    if np.isnan(count) or not count:
        return "0"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _text(lines: list[list[str]]) -> str:
    return pages.table(lines[0], lines[1:]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_FOLDER")
    for folder in parser.parse_args().folders:
        runs = runs_of(folder)
        for name, run in runs.items():
            sys.stdout.write(f"{name}\n\n{_text(table(run, name))}")
            for more in (trust(run), domains(run) if run.experiment.partition == "natural" else []):
                if len(more) > 1:
                    sys.stdout.write(_text(more))
        sys.stdout.write(f"{folder.name}: {facts(list(runs.values()))}\n\n")


if __name__ == "__main__":
    main()
