"""Open voting against averaging: the grid of the FedSOV paper in small, resumable, most important cells first.

python experiments/open_voting.py --out runs/open_voting --studies fashion,cifar,pruning,alpha,public,colour --seeds 1
python experiments/open_voting.py --out runs/open_voting --table      # what is there so far, as Markdown

Running again goes on where it stopped; more seeds or methods are added to what is there. ``--hours`` ends it before the
next cell. ``--personal`` tests every site on rows like its own instead of on one common test set.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from open_voting_tables import as_markdown, read_table

from peerwise.data import Dataset, load
from peerwise.data.loaders.coloured import coloured_digits
from peerwise.evaluate import assess
from peerwise.evaluate.open_set import vote_curves
from peerwise.run import simulate

SITES = (10, 5, 20)  # the paper's middle one first
SPLITS: dict[str, dict[str, Any]] = {
    "disjoint": {"partition": "disjoint"},
    "dirichlet 0.1": {"partition": "dirichlet", "partition_settings": {"alpha": 0.1}},
    "dirichlet 0.01": {"partition": "dirichlet", "partition_settings": {"alpha": 0.01, "min_rows": 1}},
}
SIZES = {"fashion_mnist": (3000, 1000), "cifar10": (2300, 1000)}  # train rows of all sites and public ones, test rows
EPOCHS = {"fashion_mnist": 10, "cifar10": 10, "coloured_digits": 20}
PUBLIC = 300
BATCH = 16  # a tenth of the rows leaves as many steps as the paper's 64 only with small batches
AVERAGING = {"rounds": 10, "local_epochs": 5, "optimizer": "adam", "lr": 0.001, "batch_size": BATCH}
MAIN = ("fedov", "fedsov", "fedsov:full", "distilled_vote", "fedavg", "fedsov:magnitude", "fedgf")


@dataclass(frozen=True)
class Cell:
    """One federation and the methods on it. ``name`` is its folder."""

    study: str
    dataset: str
    split: str
    sites: int
    methods: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    mark: str = ""

    @property
    def name(self) -> str:
        parts = (self.dataset, self.split.replace(" ", "-"), f"{self.sites}sites", self.mark)
        return "_".join(part for part in parts if part)


def cells(study: str) -> Iterator[Cell]:
    if study in ("fashion", "cifar"):
        dataset = {"fashion": "fashion_mnist", "cifar": "cifar10"}[study]
        for split in SPLITS:
            for sites in SITES:
                yield Cell(study, dataset, split, sites, MAIN)
    elif study == "pruning":
        shares = (0.5, 0.8, 0.95, 0.99)
        methods = tuple(f"fedsov:{how}-{100 * share:.0f}" for share in shares for how in ("tickets", "magnitude"))
        given = {name: {"compress": name[7:].split("-")[0], "sparsity": int(name[-2:]) / 100} for name in methods}
        yield Cell(study, "fashion_mnist", "disjoint", 10, ("fedsov", "fedsov:full", *methods), settings=given)
    elif study == "alpha":
        for alpha in (0.05, 0.5, 0.9):
            split = f"dirichlet {alpha:g}"
            changes = {"partition": "dirichlet", "partition_settings": {"alpha": alpha}}
            yield Cell(study, "fashion_mnist", split, 10, ("fedov", "fedsov", "fedsov:full", "fedavg"), changes)
    elif study == "public":
        for mark, changes in {
            "public100": {"public": 100},
            "public1000": {"public": 1000},
            "skewed": {"public": 300, "public_alpha": 0.1},
        }.items():
            yield Cell(study, "fashion_mnist", "disjoint", 10, ("fedsov:full", "distilled_vote"), changes, mark=mark)
    elif study == "colour":
        for sites in SITES:
            changes = {"partition": "natural", "public": 0}
            methods = ("fedov", "fedsov", "fedsov:full", "fedavg", "fedgf")
            yield Cell(study, "coloured_digits", "by colour", sites, methods, changes)
    else:
        raise SystemExit(f"unknown study {study!r}: expected fashion, cifar, pruning, alpha, public or colour.")


def data_of(cell: Cell) -> Dataset:
    """So many train rows and test rows of the official parts, the same for every cell; with more or fewer public rows
    there are as many more or fewer, so that the sites have as many as elsewhere."""
    if cell.dataset == "coloured_digits":
        return coloured_digits(colours=cell.sites)
    data, rng = load(cell.dataset), np.random.default_rng(0)
    parts = zip(("train", "test"), SIZES[cell.dataset], strict=True)
    drawn = [rng.choice(np.flatnonzero(data.columns["official_split"] == part), size, False) for part, size in parts]
    more = cell.changes.get("public", PUBLIC) - PUBLIC
    if more > 0:
        spare = np.setdiff1d(np.flatnonzero(data.columns["official_split"] == "train"), drawn[0])
        drawn.append(rng.choice(spare, more, False))
    else:
        drawn[0] = drawn[0][: len(drawn[0]) + more]
    return data.take(np.sort(np.concatenate(drawn)))


def settings_of(cell: Cell, seeds: int, *, personal: bool) -> dict[str, Any]:
    epochs = {"local_epochs": EPOCHS[cell.dataset], "batch_size": BATCH}
    pruning = {"prune_epochs": 1}
    given: dict[str, dict[str, Any]] = {
        "fedov": epochs,
        "fedsov": epochs | pruning | {"sites": cell.sites},
        "fedsov:full": epochs | {"compress": "none"},
        "fedsov:magnitude": epochs | pruning | {"sites": cell.sites, "compress": "magnitude"},
        "distilled_vote": epochs | {"student_epochs": 50},
    }
    given |= {name: epochs | pruning | settings for name, settings in cell.settings.items()}
    averaging = set(cell.methods) & {"fedavg", "fedgf"}
    split = SPLITS.get(cell.split, {})
    if cell.split == "disjoint" and cell.sites > 10:  # two sites share a class, as in the paper
        split = {"partition": "pathological", "partition_settings": {"classes_per_site": 1}}
    return {
        "sites": None if cell.dataset == "coloured_digits" else cell.sites,
        "public": PUBLIC,
        "models": ["simple_cnn"],
        "methods": cell.methods,
        "method": {name: given[name] for name in cell.methods if name in given},
        "seeds": seeds,
        # Without validation rows an averaging method answers with its last round, as published.
        **({"fractions": [0.7, 0.0, 0.3]} if personal else {"test": "common", "fractions": [0.8, 0.0, 0.2]}),
        **({"training": AVERAGING} if averaging else {}),
        **split,
        **cell.changes,
    }


def run_cell(cell: Cell, seeds: int, out: Path, *, personal: bool, workers: int) -> None:
    """Simulate, and leave the methods' table, the K-curve and what has collapsed beside the run."""
    started, busy = time.perf_counter(), time.process_time()
    folder = out / (f"personal_{cell.name}" if personal else cell.name)
    run = simulate(data_of(cell), out=folder, workers=workers, **settings_of(cell, seeds, personal=personal))
    found = assess(run)
    about = {"study": cell.study, "dataset": cell.dataset, "split": cell.split, "sites": cell.sites, "mark": cell.mark}
    about |= {"seeds": seeds, "personal": personal}
    lost: dict[str, str] = {}
    for line in found.collapsed:
        said = f"{line['what']} at {line['sites']} of {line['of']}: {line['why']}"
        lost[line["method"]] = "; ".join(filter(None, [lost.get(line["method"]), said]))
    table = found.methods.reset_index().assign(**about)
    table["collapsed"] = [lost.get(method, "") for method in table["method"]]
    table["method"] = [method.split("~")[0] for method in table["method"]]
    _add(table, folder / "methods.csv")
    curves = vote_curves(run)
    curves["method"] = [method.split("~")[0] for method in curves["method"]]
    _add(
        curves.groupby(["method", "k"], sort=False)["accuracy"].mean().reset_index().assign(**about),
        folder / "by_k.csv",
    )
    took, worked = time.perf_counter() - started, time.process_time() - busy
    sys.stdout.write(f"{time.strftime('%H:%M')} {folder.name}: {took:.0f} s, {worked:.0f} s of this processor\n")
    sys.stdout.flush()


def _add(table: pd.DataFrame, path: Path) -> None:
    """To what is there of other methods and studies."""
    if path.exists():
        before = read_table(path)
        mine = set(zip(table["study"], table["method"], strict=True))
        others = [key not in mine for key in zip(before["study"], before["method"], strict=True)]
        table = pd.concat([before[others], table])
    table.to_csv(path, index=False)


def read(out: Path, name: str) -> pd.DataFrame:
    """The tables of this name of all cells, one below the other."""
    return pd.concat([read_table(path) for path in sorted(out.glob(f"*/{name}"))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/open_voting"))
    parser.add_argument("--studies", default="fashion,cifar,pruning,alpha,public,colour")
    parser.add_argument("--methods", help="only these of a cell, by comma, e.g. fedov,fedsov")
    parser.add_argument("--sites", help="only these numbers of sites, by comma")
    parser.add_argument("--splits", help="only these splits, by comma, e.g. disjoint")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--hours", type=float, default=float("inf"))
    parser.add_argument("--personal", action="store_true")
    parser.add_argument("--table", action="store_true", help="no run: print what is there")
    arguments = parser.parse_args()
    if arguments.table:
        sys.stdout.write(as_markdown(read(arguments.out, "methods.csv"), read(arguments.out, "by_k.csv")))
        return
    end = time.time() + 3600 * arguments.hours
    wanted = [cell for study in arguments.studies.split(",") for cell in cells(study)]
    for cell in wanted:
        if arguments.sites and str(cell.sites) not in arguments.sites.split(","):
            continue
        if arguments.splits and cell.split not in arguments.splits.split(","):
            continue
        if arguments.methods:
            kept = tuple(name for name in cell.methods if name in arguments.methods.split(","))
            cell = Cell(cell.study, cell.dataset, cell.split, cell.sites, kept, cell.changes, cell.settings, cell.mark)
        if cell.methods and time.time() < end:
            run_cell(cell, arguments.seeds, arguments.out, personal=arguments.personal, workers=arguments.workers)


if __name__ == "__main__":
    main()
