"""peerwise demo: four real hospitals, three models each, FedDES against the honest comparisons, one answer opened."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerwise.cli.output import results_console
from peerwise.cli.progress import Watch
from peerwise.cli.report_end import print_found, report_written
from peerwise.data import load
from peerwise.evaluate import assess
from peerwise.report.printed import print_opened
from peerwise.run import Experiment, simulate

METHODS = ("local", "global_ensemble", "best_single", "feddes")


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "demo",
        description="UCI Heart Disease: Cleveland, Hungary, Switzerland and Long Beach each train three models on "
        "their own patients, exchange them, and learn for every patient whose model to trust.",
        epilog="example: peerwise demo --seeds 5",
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of splits (default 3)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--out", default="runs/demo", help="run folder (default runs/demo)")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="only write the hospitals' rows there, as CSV")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.files is not None:
        return write_files(arguments.files)
    experiment = Experiment(dataset="heart_disease", methods=METHODS, seeds=arguments.seeds)
    with Watch(arguments.quiet) as watch:
        found = simulate(experiment, out=arguments.out, workers=arguments.workers, on_event=watch)
    console = results_console()
    console.print(f"UCI Heart Disease, four hospitals, three models each, {arguments.seeds} seed(s)\n")
    story = print_found(found, assess(found), console)
    if found.opened is not None:
        print_opened(found.opened, console)
    console.print(
        f"\nresults: {arguments.out}/results.parquet   settings: {arguments.out}/config.toml",
        soft_wrap=True,
        markup=False,
    )
    return report_written(story, Path(arguments.out), console)


def write_files(folder: Path) -> int:
    """One table a hospital, as it might keep it: values by name, empty cells for what is missing."""
    from peerwise.parcels import write_atomic

    data = load("heart_disease")
    assert data.site is not None
    X = np.asarray(data.X)
    for name in sorted(set(data.site.tolist())):
        here = data.site == name
        columns = {
            feature.name: [
                None if np.isnan(value) else feature.categories[int(value)] if feature.is_category else float(value)
                for value in X[here, place]
            ]
            for place, feature in enumerate(data.features)
        }
        table = pd.DataFrame({**columns, "diagnosis": [data.classes[code] for code in data.y[here]]})
        write_atomic(folder / f"{name}.csv", table.to_csv(index=False).encode())
        results_console().print(f"{folder / name}.csv: {len(table)} rows", markup=False, soft_wrap=True)
    return 0
