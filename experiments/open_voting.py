"""Open voting against averaging: the tables of the FedSOV paper, resumable, most important cells first.

python experiments/open_voting.py --fast --out runs/open_voting      # small sizes, for two processors
python experiments/open_voting.py --out runs/open_voting_full        # the paper's sizes, for a machine with a GPU
python experiments/open_voting.py --studies disjoint,many --fast --out runs/open_voting
python experiments/open_voting_tables.py runs/open_voting --page docs/results/open_voting.md   # what is there so far

Running again goes on where it stopped; more seeds are added to what is there. ``--minutes`` ends it before the next
cell.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import open_voting_many
import open_voting_students
from open_voting_cells import STUDIES, Cell, cells, data_of, settings_of

from peerwise.errors import PartitionError
from peerwise.evaluate import assess
from peerwise.evaluate.open_set import vote_curves
from peerwise.run import Run, simulate


def run_cell(cell: Cell, seeds: int, out: Path, *, fast: bool, workers: int) -> Iterator[str]:
    """Simulate, and leave the methods' table and the K-curve beside the run; nothing where they are there."""
    size, folder = cell.size(fast=fast), out / cell.name
    if (folder / f"{seeds}_seeds").exists():
        return
    started = time.perf_counter()
    try:
        run = simulate(data_of(cell, size), out=folder, workers=workers, **settings_of(cell, size, seeds))
    except PartitionError as error:  # ten classes at Dirichlet 0.01 lie at ten sites or fewer
        yield f"{folder.name}: left out, there is no such split: {error}"
        return
    write_tables(run, cell, seeds, folder, time.perf_counter() - started)
    (folder / f"{seeds}_seeds").touch()
    yield f"{folder.name}: {time.perf_counter() - started:.0f} s"


def write_tables(run: Run, cell: Cell, seeds: int, folder: Path, seconds: float) -> None:
    found = assess(run)
    about = {"study": cell.study, "dataset": cell.dataset, "split": cell.split, "sites": cell.sites, "net": cell.net}
    about |= {"seeds": seeds}
    lost: dict[str, str] = {}
    for line in found.collapsed:
        said = f"{line['what']} at {line['sites']} of {line['of']}"
        lost[line["method"]] = "; ".join(filter(None, [lost.get(line["method"]), said]))
    table = found.methods.reset_index().assign(**about, cell_seconds=seconds)
    by_seed = found.sites[found.sites["test_rows"] > 0].groupby(["method", "seed"])["accuracy"].mean()
    table["by_seed"] = [" ".join(f"{100 * value:.1f}" for value in by_seed[method]) for method in table["method"]]
    table["collapsed"] = [lost.get(method, "") for method in table["method"]]
    table["method"] = [method.split("~")[0] for method in table["method"]]
    table.to_csv(folder / "methods.csv", index=False)
    curves = vote_curves(run)
    curves["method"] = [method.split("~")[0] for method in curves["method"]]
    means = curves.groupby(["method", "k"], sort=False)["accuracy"].mean().reset_index()
    means.assign(**about).to_csv(folder / "by_k.csv", index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/open_voting"))
    parser.add_argument("--fast", action="store_true", help="small sizes instead of the paper's")
    parser.add_argument("--studies", default=",".join(STUDIES), help=f"by comma, of {', '.join(STUDIES)}")
    parser.add_argument("--sites", help="only these numbers of sites, by comma")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    arguments = parser.parse_args()
    end = time.time() + 60 * arguments.minutes
    for line in wanted(arguments):
        sys.stdout.write(f"{time.strftime('%H:%M')} {line}\n")
        sys.stdout.flush()
        if time.time() > end:
            break


def wanted(arguments: argparse.Namespace) -> Iterator[str]:
    """Runs what is asked for, and says a line after each part of it."""
    at_one_place = {"many": open_voting_many.run, "students": open_voting_students.run}
    for study in arguments.studies.split(","):
        if study in at_one_place:
            yield from at_one_place[study](arguments.out, arguments.seeds, fast=arguments.fast)
            continue
        for cell in cells(study, fast=arguments.fast):
            if not arguments.sites or str(cell.sites) in arguments.sites.split(","):
                yield from run_cell(
                    cell, arguments.seeds, arguments.out, fast=arguments.fast, workers=arguments.workers
                )


if __name__ == "__main__":
    main()
