"""The FedDES paper's table 2 in kind from the runs of eicu_mortality.toml, eicu_shock.toml and heart_table2.toml.

python experiments/clinical_tables.py runs/eicu_mortality runs/eicu_shock runs/heart_table2

Prints for each run its sites, balanced accuracy with the published figures beside it, and AUROC.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pages
import pandas as pd
from run_facts import facts

from peerwise.evaluate import Assessment, assess
from peerwise.run import Run
from peerwise.run.loading import load_run

# Published, 50 hospitals of eICU: balanced accuracy, and the share of sites above Local where it is given.
PUBLISHED: dict[str, dict[str, str]] = {
    "mortality": {
        "own": "64.4", "feddes": "71.9 (86)", "global_ensemble": "62.8", "fedkd": "70.0 (82)", "lgfedavg": "68.1",
        "fedgh": "66.8", "fml": "66.2", "fedtgp": "61.1", "fedproto": "54.5",
    },
    "shock": {
        "own": "61.1", "feddes": "65.7 (70)", "global_ensemble": "60.1", "fedkd": "63.2", "lgfedavg": "62.9",
        "fedgh": "64.4 (76)", "fml": "63.4", "fedtgp": "57.3", "fedproto": "51.9",
    },
}  # fmt: skip
SHOWN = ("peerwise", "peerwise:balanced", "peerwise:accuracy", "feddes", "global_ensemble")
HEADS = ["method", "balanced accuracy", "over its bar", "95 %", "won / tied / lost, %", "worst site", "AUROC",
         "sensitivity", "specificity"]  # fmt: skip


def table(run: Run, assessment: Assessment) -> str:
    """A line a method; ± is the spread of the seeds' means over sites."""
    published = PUBLISHED.get(str(run.experiment.options.get("task")))
    lines = [_line("own", [_own(assessment)], published)]
    for name, line in assessment.methods.iterrows():
        gain = "balanced_accuracy_gain"
        cells = [_percent(line, "balanced_accuracy")]
        if name == "local_rounds":
            cells += ["", "", ""]
        else:
            shares = [f"{100 * line[f'balanced_accuracy_{part}']:.0f}" for part in ("wins", "ties", "losses")]
            interval = f"{100 * line[f'{gain}_low']:+.1f} to {100 * line[f'{gain}_high']:+.1f}"
            cells += [f"{100 * line[gain]:+.1f}", interval, " / ".join(shares)]
        cells += [f"{100 * line['balanced_accuracy_worst']:.1f}"]
        cells += [f"{100 * line[key]:.1f}" for key in ("auroc", "sensitivity", "specificity")]
        lines.append(_line(str(name), cells, published))
    heads = [*HEADS, "published"] if published else HEADS
    return pages.table(heads, lines)


def by_site(assessment: Assessment) -> str:
    """Each site's own models and PeerwiseClassifier, the mean over seeds."""
    lines, shown = [], [name for name in SHOWN if name in assessment.methods.index]
    for site, part in assessment.sites.query("method == 'peerwise'").groupby("site"):
        cells = [f"{part['test_rows'].mean():.0f}", _mean(part["own_balanced_accuracy"])]
        here = assessment.sites[assessment.sites["site"] == site].groupby("method")["balanced_accuracy"]
        cells += [_mean(here.get_group(name)) for name in shown]
        lines.append(_line(str(site), cells, None))
    heads = ["site", "test rows", "own", *shown]
    return pages.table(heads, lines)


def _own(assessment: Assessment) -> str:
    lines = assessment.sites.query("method == 'peerwise'")
    by_seed = 100 * lines.groupby("seed")["own_balanced_accuracy"].mean()
    return f"{by_seed.mean():.1f} ± {by_seed.std(ddof=0):.1f}"


def _percent(line: pd.Series, key: str) -> str:
    return f"{100 * line[key]:.1f} ± {100 * line[f'{key}_seed_std']:.1f}"


def _mean(values: pd.Series) -> str:
    return f"{100 * values.mean():.1f} ± {100 * values.std(ddof=0):.1f}"


def _line(name: str, cells: list[str], published: dict[str, str] | None) -> list[str]:
    if published is not None:
        cells = [*cells, *[""] * (len(HEADS) - 1 - len(cells)), published.get(name, "")]
    return [name, *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_FOLDER")
    for folder in parser.parse_args().folders:
        run = load_run(folder)
        assessment = assess(run)
        print(f"## {folder.name}\n\n{facts([run])}\n\n{table(run, assessment)}\n{by_site(assessment)}")


if __name__ == "__main__":
    main()
