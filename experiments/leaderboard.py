"""All methods x all kinds of heterogeneity x the data sets: one leaderboard, resumable, most telling cells first.

python experiments/leaderboard.py --fast --out runs/leaderboard                     # sizes for two cores
python experiments/leaderboard.py --fast --only fashion_mnist,pacs --minutes 30     # these data sets, or kinds
python experiments/leaderboard.py --fast --methods peerwise,stacking --out runs/two  # these methods, and the two bars
python experiments/leaderboard_tables.py runs/leaderboard                           # tables, picture, evidence

Every cell is a run in a folder of its own; running again goes on where it stopped, and ``--minutes`` ends it before the
next cell. Without ``--fast``: ten sites, 8,000 rows, 5 seeds, 50 rounds, for a larger machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data import Dataset, load
from peerwise.errors import PeerwiseError
from peerwise.evaluate import assess
from peerwise.evaluate.recommend import class_share
from peerwise.methods import make_method, method_names
from peerwise.run import Experiment, Run, simulate
from peerwise.run.simulate import federation

IMAGES = ("fashion_mnist", "cifar10", "pacs")
KINDS: dict[str, dict[str, Any]] = {
    "natural": {"partition": "natural"},
    "strong": {"partition": "dirichlet", "partition_settings": {"alpha": 0.1, "min_rows": 40}},
    "mild": {"partition": "dirichlet", "partition_settings": {"alpha": 1.0}},
    "few": {"partition": "exdir", "partition_settings": {"classes_per_site": 3, "alpha": 1.0}},
    "disjoint": {"partition": "disjoint"},
    "strangers": {"partition": "disjoint", "test": "common"},
    "quantity": {"partition": "quantity", "partition_settings": {"exponent": 1.0, "min_rows": 40}},
    "feature": {"partition": "natural"},
    "vertical": {"partition": "vertical", "partition_settings": {"share_of_columns": 0.5}},
    "flipped": {"partition": "dirichlet", "partition_settings": {"alpha": 1.0}, "flipped": 1},
}
# By kind, in order of importance: a cell that is not here does not exist or says nothing (`leaderboard.md` tells why).
CELLS = {
    "natural": ("heart_disease", "adult", "covertype"),
    "strong": ("digits", "fashion_mnist", "covertype", "cifar10"),
    "few": ("digits", "cifar10", "covertype", "fashion_mnist"),
    "mild": ("adult", "cifar10", "digits", "heart_disease", "fashion_mnist", "covertype"),
    "strangers": ("digits", "fashion_mnist", "covertype", "cifar10"),
    "feature": ("office_caltech10", "pacs"),
    "flipped": ("adult", "fashion_mnist", "digits", "heart_disease", "covertype", "cifar10"),
    "quantity": ("adult", "cifar10", "digits", "heart_disease", "fashion_mnist", "covertype"),
    "vertical": ("heart_disease", "adult", "covertype", "digits"),
    "disjoint": ("digits", "fashion_mnist", "covertype", "cifar10"),
}
KEPT = ("seed", "method", "site", "accuracy", "balanced_accuracy", "own_accuracy", "own_balanced_accuracy",
        "reference", "accuracy_gain", "test_rows", "bytes_sent", "bytes_received")  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """``rows`` and ``public`` of all sites together, ``site_rows`` at most at a natural site."""

    sites: int
    rows: int
    site_rows: int
    public: int
    seeds: int
    folds: int
    epochs: int
    rounds: int
    local_epochs: int
    lr: float
    open_epochs: int  # of open-set nets
    changes: dict[str, dict[str, Any]]


FULL = {
    "table": Sizes(10, 8000, 2000, 1000, 5, 5, 60, 50, 1, 0.1, 60, {}),
    "image": Sizes(10, 8000, 2000, 1000, 5, 5, 60, 50, 1, 0.05, 60, {}),
}
SHORT = {"feddes": {"epochs": 40, "patience": 5}, "distilled_vote": {"student_epochs": 40}}
FAST = {
    "table": Sizes(5, 1050, 250, 150, 3, 3, 20, 6, 3, 0.1, 20, SHORT),
    "image": Sizes(4, 750, 160, 110, 3, 3, 20, 6, 2, 0.05, 12, SHORT),
}
# What a method is held to: best_single's pool holds the own models.
BARS = {"local_rounds", "best_single"}
OF_THE_POOL = {"local", "centralised"}  # are in the table as the own models, and with the budget of rounds
FRACTIONS = [0.5, 0.2, 0.3]
NO_VALIDATION = [0.7, 0.0, 0.3]  # own validation rows would choose the round that knows own classes best


def cells() -> list[tuple[str, str]]:
    """(data set, kind), the first data set of every kind first."""
    longest = max(map(len, CELLS.values()))
    return [(names[place], kind) for place in range(longest) for kind, names in CELLS.items() if place < len(names)]


def data_of(dataset: str, kind: str, sizes: Sizes) -> Dataset:
    """Rows from which each seed draws its own; natural sites are cut to the same size where they have more."""
    data, rng = load(dataset), np.random.default_rng(0)
    if KINDS[kind]["partition"] == "natural":
        values = data.column("site")
        assert values is not None, dataset
        kept = [np.flatnonzero(values == name) for name in np.unique(values) if name != "unknown"]
        rows = [rng.choice(part, min(len(part), sizes.site_rows + sizes.public // len(kept)), False) for part in kept]
        return data.take(np.sort(np.concatenate(rows)))
    if dataset == "covertype":  # two of its seven classes have 85 % of the rows, so that a skew would show little else
        scarce = np.bincount(data.y).min()
        return data.take(np.sort(np.concatenate([rng.choice(np.flatnonzero(data.y == code), scarce, False)
                                                 for code in range(len(data.classes))])))  # fmt: skip
    most = min(len(data), 5 * sizes.rows)
    return data.take(np.sort(rng.choice(len(data), most, False)))


def experiment_of(kind: str, sizes: Sizes, methods: list[str], data: Dataset) -> Experiment:
    partition = KINDS[kind]["partition"]
    rows = len(data) if partition == "natural" else min(len(data), sizes.rows)
    sites = min(sizes.sites, len(data.classes)) if partition == "disjoint" else sizes.sites
    opened: dict[str, Any] = {"local_epochs": sizes.open_epochs}
    given = {name: dict(opened) for name in ("fedov", "fedsov", "peerwise_open", "distilled_vote")}
    for name, settings in sizes.changes.items():
        given[name] = given.get(name, {}) | settings
    return Experiment(
        dataset="",
        rows=rows,
        sites=None if partition == "natural" else sites,
        public=min(sizes.public, rows // 7),
        models=("cnn8",) if data.kind == "image" else ("mlp",),
        assign="all",
        folds=sizes.folds,
        epochs=sizes.epochs,
        seeds=sizes.seeds,
        methods=tuple(methods),
        method={name: given[name] for name in methods if name in given},
        training={"rounds": sizes.rounds, "local_epochs": sizes.local_epochs, "batch_size": 16, "lr": sizes.lr},
        fractions=NO_VALIDATION if kind == "strangers" else FRACTIONS,
        **KINDS[kind],
    )


def able(kind: str, sizes: Sizes, data: Dataset) -> tuple[list[str], dict[str, str]]:
    """The methods that can run on these sites, and why the others cannot."""
    experiment = experiment_of(kind, sizes, ["fedavg"], data).filled(data)
    sites = federation(experiment, data, 0)
    names, cannot = [], {}
    for name in sorted(set(method_names()) - OF_THE_POOL):
        try:
            make_method(name, {}, folds=2, epochs=1, sites=len(sites)).check_sites(sites)
            names.append(name)
        except PeerwiseError as error:
            cannot[name] = str(error)
    return names, cannot


def run_cell(dataset: str, kind: str, sizes: Sizes, out: Path, workers: int, methods: Collection[str] = ()) -> None:
    """Simulate, and leave the sites' lines and what there is to know about the run beside it."""
    wall, busy = time.perf_counter(), cpu_seconds()
    folder = out / f"{dataset}_{kind}"
    if (folder / "sites.csv").exists():
        return
    data = data_of(dataset, kind, sizes)
    names, cannot = able(kind, sizes, data)
    if methods and not {*methods} & {*names}:
        return
    names = [name for name in names if not methods or name in {*methods, *BARS}]
    settings = {key: value for key, value in vars(experiment_of(kind, sizes, names, data)).items() if key != "dataset"}
    run = simulate(data, out=folder, workers=workers, **settings)
    took = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - busy}
    write(run, folder, {"dataset": dataset, "kind": kind, "cannot": cannot, **took})
    sys.stdout.write(f"{time.strftime('%H:%M')} {folder.name}: {took['wall']:.0f} s, {took['cpu']:.0f} s of CPU\n")
    sys.stdout.flush()


def cpu_seconds() -> float:
    """Of this process and of workers that have ended."""
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + workers.ru_utime + workers.ru_stime


def write(run: Run, folder: Path, about: dict[str, Any]) -> None:
    found = assess(run)
    table = found.sites.assign(method=[name.split("~")[0] for name in found.sites["method"]])
    if run.experiment.flipped:  # what the others get is asked, not what they can teach the one that misleads
        names = sorted(set(table["site"]))[: run.experiment.flipped]
        table = table[~table["site"].isin(names)]
    phases = [name for name in table.columns if name.startswith("seconds_")]
    table = table.assign(seconds=table[phases].sum(axis=1))
    table[[*KEPT, "seconds"]].round(5).to_csv(folder / "sites.csv", index=False)
    about |= {"fell_back": found.fell_back, "left_out": len(found.peers_left_out), "collapsed": len(found.collapsed)}
    about |= {"facts": facts(run), "commit": run.provenance.get("commit", ""), "provenance": run.provenance}
    (folder / "about.json").write_text(json.dumps(about, indent=1, default=str))


def facts(run: Run) -> dict[str, Any]:
    """What a site can hold its own situation against: means over sites and seeds. ``class_share``: how many classes a
    site's train rows are worth, exp(entropy of the labels), as a share of all classes."""
    counts = [tree["label_counts"] for (_, method, _), tree in run.predictions.items() if method == "local_rounds"]
    return {
        "data": run.kind,
        "classes": len(run.classes),
        "sites": len(counts) // run.experiment.seeds,
        "rows": round(float(np.mean([np.sum(each) for each in counts]))),
        "class_share": round(float(np.mean([class_share(each) for each in counts])), 3),
        "public": run.experiment.public,
        "seeds": run.experiment.seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/leaderboard"))
    parser.add_argument("--fast", action="store_true", help="sizes for two cores")
    parser.add_argument("--only", help="data sets, kinds or cells, by comma, e.g. digits,adult_mild")
    parser.add_argument("--methods", help="only these, by comma, and what they are held to")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further cell after so many")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    end = time.time() + 60 * arguments.minutes
    only = set((arguments.only or "").split(",")) - {""}
    known = {name for dataset, kind in cells() for name in (dataset, kind, f"{dataset}_{kind}")}
    if unknown := only - known:
        raise SystemExit(f"--only: no data set, kind or cell is called {', '.join(sorted(unknown))}.")
    methods = set((arguments.methods or "").split(",")) - {""}
    if unknown := methods - set(method_names()):
        raise SystemExit(f"--methods: no method is called {', '.join(sorted(unknown))}.")
    for dataset, kind in cells():
        if (not only or {dataset, kind, f"{dataset}_{kind}"} & only) and time.time() < end:
            sizes = (FAST if arguments.fast else FULL)["image" if dataset in IMAGES else "table"]
            run_cell(dataset, kind, sizes, arguments.out, arguments.workers, methods)


if __name__ == "__main__":
    main()
