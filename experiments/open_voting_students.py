"""Tables 15 to 18 of the FedSOV paper: what the student of an open vote learns from how much of whose data.

Ten sites, the nets of `fedsov` without pruning, trained once a split and seed. The student learns the vote from rows of
the first n sites (n = 10 to 1), or from a share of all rows: the sites' own train rows ("train"), or as many other rows
of the same classes ("test"), which no net has seen and which are no test rows. The student sees no label.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from open_voting_cells import Cell, Size, method_settings, split_settings
from open_voting_many import at_the_first

from peerwise.data import Dataset, Site, load, make_sites
from peerwise.methods.distilled_vote import DistilledVote
from peerwise.methods.fedsov import FedSOV
from peerwise.parcels import Keep

SPLITS = ("disjoint", "dirichlet 0.1")
COUNTS = {True: (10, 7, 5, 3, 1), False: tuple(range(10, 0, -1))}  # small sizes or the paper's
SHARES = {True: (0.5, 0.25, 0.1), False: (0.75, 0.5, 0.25, 0.1)}
Images = NDArray[Any]


def federation(data: Dataset, cell: Cell, size: Size, seed: int) -> tuple[list[Site], Dataset]:
    """The sites with their common test rows, and as many other train rows, which nobody has."""
    rng, official = np.random.default_rng(seed), data.columns["official_split"]
    train = rng.permutation(np.flatnonzero(official == "train"))
    many = size.rows or len(train) // 2
    test = np.flatnonzero(official == "test")
    test = rng.choice(test, size.tested or len(test), False)
    params = dict(split_settings(cell))
    partition, drawn = params["partition"], params.get("partition_settings", {})
    here = data.take(np.sort(np.concatenate([train[:many], test])))
    sites = make_sites(here, partition, cell.sites, seed=seed, recipes=(cell.net,), fractions=(0.8, 0.0, 0.2),
                       test="common", **drawn)  # fmt: skip
    return sites, data.take(train[many : 2 * many])


def like(sites: list[Site], pool: Dataset) -> list[Images]:
    """For each site as many rows of the pool of each of its classes, or what is left of them; none twice."""
    places = {int(code): list(np.flatnonzero(pool.y == code)) for code in np.unique(pool.y)}
    found = []
    for site in sites:
        taken: list[int] = []
        for code, count in zip(*np.unique(site.train.y, return_counts=True), strict=True):
            taken += places[int(code)][:count]
            del places[int(code)][:count]
        found.append(np.asarray(pool.X)[taken])
    return found


def lessons(parts: list[Images], rng: np.random.Generator, *, fast: bool) -> Iterator[tuple[int, float, Images]]:
    """How many sites' data, which share of it, and the rows."""
    for count in COUNTS[fast]:
        yield count, 1.0, np.concatenate(parts[:count])
    everything = rng.permutation(np.concatenate(parts))
    for share in SHARES[fast]:
        yield len(parts), share, everything[: round(share * len(everything))]


def taught(cell: Cell, seed: int, *, fast: bool) -> pd.DataFrame:
    """A line a student, and one for the vote that they learn from: accuracy on the common test rows."""
    size = cell.size(fast=fast)
    sites, pool = federation(load(cell.dataset), cell, size, seed)
    keep, test = Keep(), sites[0].test
    lines = []

    def asked(method: Any, public: Images | None) -> float:
        first = at_the_first(method, [site.replace(public=public, state={}, keep=keep) for site in sites])
        return float((method.predict_proba(first, test.X).argmax(axis=1) == test.y).mean())

    vote = FedSOV(**method_settings("fedsov:full", cell.sites, size))
    lines.append({"source": "vote", "sites": cell.sites, "share": 1.0, "accuracy": asked(vote, None)})
    student = DistilledVote(**method_settings("distilled_vote", cell.sites, size))
    for source, parts in {"train": [np.asarray(site.train.X) for site in sites], "test": like(sites, pool)}.items():
        for count, share, rows in lessons(parts, np.random.default_rng(seed), fast=fast):
            found = {"source": source, "sites": count, "share": share, "rows": len(rows)}
            lines.append({**found, "accuracy": asked(student, rows)})
    return pd.DataFrame(lines).assign(split=cell.split, seed=seed)


def run(out: Path, seeds: int, *, fast: bool) -> Iterator[str]:
    """What is not there yet, a file a split and seed; says what was done."""
    folder = out / "students"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(seeds):
        for split in SPLITS:
            cell = Cell("students", "fashion_mnist", split, 10, ())
            path = folder / f"{cell.name}_{seed}.csv"
            if path.exists():
                continue
            started = time.perf_counter()
            table = taught(cell, seed, fast=fast)
            seconds = time.perf_counter() - started
            table.assign(seconds=seconds).to_csv(path, index=False)
            yield f"{path.stem}: {seconds:.0f} s"
