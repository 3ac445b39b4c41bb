"""peerwise demo: four real hospitals, three models each, FedDES against the honest comparisons, one answer opened."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from peerwise.cli.output import results_console
from peerwise.cli.progress import Watch
from peerwise.data import Site, load
from peerwise.evaluate import assess
from peerwise.methods import OneShot, make_method
from peerwise.report import print_assessment
from peerwise.run import Experiment, Run, RunFolder, federation, simulate
from peerwise.trust import FedDES

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
    print_assessment(assess(found, classes=experiment.load_data().classes), console)
    explain_one(found, Path(arguments.out), console)
    console.print(
        f"\nresults: {arguments.out}/results.parquet   settings: {arguments.out}/config.toml",
        soft_wrap=True,
        markup=False,
    )
    return 0


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


def explain_one(run: Run, out: Path, console: Console) -> None:
    """Open the first test patient, hospital by hospital, whose answer FedDES changed; right or wrong, it is shown."""
    folder = RunFolder(out)
    experiment = run.experiment
    method = make_method("feddes", {}, folds=experiment.folds, epochs=experiment.epochs)
    assert isinstance(method, OneShot)
    for site in federation(experiment, experiment.load_data(), 0):
        label = f"{experiment.label('feddes')}-s0"
        local = folder.load_predictions(site.name, "local-s0")["probabilities"].argmax(axis=1)
        ours = folder.load_predictions(site.name, label)["probabilities"].argmax(axis=1)
        changed = np.flatnonzero(local != ours)
        if len(changed):
            state = folder.load_state(site.name, label) or {}
            _show(method, replace(site, state=state), int(changed[0]), local, console)
            return
    console.print("FedDES and the own models agree on every test patient of seed 0.")


def _show(method: OneShot, site: Site, row: int, local: np.ndarray[Any, Any], console: Console) -> None:
    learner = method.learner_at(site)
    assert isinstance(learner, FedDES)
    case = site.test.X[row : row + 1]
    truth, own = site.classes[site.test.y[row]], site.classes[local[row]]
    console.print(f"[bold]One answer opened[/bold]: {site.name}, test patient {row} (truth: {truth})")
    console.print(f"{_described(site, row)}\nown models: {own}", markup=False, soft_wrap=True)
    console.print(str(learner.explain(case)), markup=False, soft_wrap=True)


def _described(site: Site, row: int) -> str:
    values = np.asarray(site.test.X)[row]
    said = [
        f"{feature.name} {feature.categories[int(value)] if feature.is_category else f'{value:g}'}"
        for feature, value in zip(site.features, values, strict=True)
        if np.isfinite(value)
    ]
    return ", ".join(said)
