"""peerwise demo: four real hospitals, three models each, `peerwise` against honest comparisons, one answer opened."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from peerwise.cli.demo_site import serve_hospital
from peerwise.cli.output import results_console
from peerwise.cli.progress import Watch
from peerwise.cli.report_end import print_found, report_written
from peerwise.data import load
from peerwise.evaluate import assess
from peerwise.report.printed import print_opened
from peerwise.run import Experiment, simulate

METHODS = ("local", "global_ensemble", "best_single", "peerwise")


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "demo",
        description="UCI Heart Disease: Cleveland, Hungary, Switzerland and Long Beach each train three models on "
        "their own patients, exchange them, and learn for every patient whose model to trust.",
        epilog="example: peerwise demo --seeds 5",
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of splits (default 3)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--out", help="run folder (default runs/demo, with --serve runs/demo-site)")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="only write the hospitals' rows there, as CSV")
    parser.add_argument("--serve", action="store_true", help="make real sites of them, and show one on a page")
    parser.add_argument("--port", type=int, default=8080, help="of the page (default 8080; 0: any that is free)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.files is not None:
        return write_files(arguments.files)
    if arguments.serve:
        return serve_hospital(Path(arguments.out or "runs/demo-site"), arguments.port, quiet=arguments.quiet)
    out = arguments.out or "runs/demo"
    experiment = Experiment(dataset="heart_disease", methods=METHODS, seeds=arguments.seeds)
    with Watch(arguments.quiet) as watch:
        found = simulate(experiment, out=out, workers=arguments.workers, on_event=watch)
    console = results_console()
    console.print(f"UCI Heart Disease, four hospitals, three models each, {arguments.seeds} seed(s)\n")
    story = print_found(found, assess(found), console)
    if found.opened is not None:
        print_opened(found.opened, console)
    console.print(
        f"\nresults: {out}/results.parquet   settings: {out}/config.toml",
        soft_wrap=True,
        markup=False,
    )
    return report_written(story, Path(out), console)


def write_files(folder: Path) -> int:
    from peerwise.run.peer.demo import write_hospitals

    for path, rows in write_hospitals(load("heart_disease"), folder).items():
        results_console().print(f"{path}: {rows} rows", markup=False, soft_wrap=True)
    return 0
