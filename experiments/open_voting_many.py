"""Table 7 of the FedSOV paper: 50 and 100 sites, whose nets vote at one place, as on the paper's server.

In a simulated federation every site tries every other's net, which for a hundred sites takes longer than the training.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from open_voting_cells import VOTES, Cell, Size, data_of, method_settings, split_settings

from peerwise.data import Site, make_sites
from peerwise.evaluate.open_set import open_auroc
from peerwise.federation import Session
from peerwise.methods.fedov import FedOV
from peerwise.methods.fedsov import FedSOV
from peerwise.methods.open_voting import OpenVoting
from peerwise.trust.open_vote import open_vote

SPLITS = ("disjoint", "dirichlet 0.1")


def at_the_first(method: OpenVoting, sites: list[Site]) -> Site:
    """All share, and the first site by name alone hears them, teaches if the method does, and can answer."""
    for site in sites:
        Session(method, site)
    inbox = {site.name: method.share(site, 0) for site in sites}
    first = min(sites, key=lambda site: site.name)
    method.absorb(first, 0, inbox)
    for round in range(1, method.rounds):
        method.absorb(first, round, {first.name: method.share(first, round)})
    return first


def voted(cell: Cell, size: Size, name: str, seed: int) -> dict[str, float]:
    """Accuracy on the common test rows, and the mean open AUROC of the sites' own nets."""
    params = split_settings(cell)
    sites = make_sites(data_of(cell, size), params["partition"], cell.sites, seed=seed, recipes=(cell.net,),
                       public=size.public, fractions=(0.8, 0.0, 0.2), test="common",
                       **params["partition_settings"])  # fmt: skip
    settings = method_settings(name, cell.sites, size)
    method = FedOV(**settings) if name.startswith("fedov") else FedSOV(**settings)
    first = at_the_first(method, sites)
    test = first.test
    outputs = method.open_outputs(first, test.X)
    in_order = sorted(sites, key=lambda site: site.name)
    areas = [
        open_auroc(test.y, outputs[:, place, -1], np.unique(site.train.y).tolist())[0]
        for place, site in enumerate(in_order)
    ]
    right = open_vote(outputs, method.top).probabilities.argmax(axis=1) == test.y
    return {"accuracy": float(right.mean()), "open_auroc": float(np.nanmean(areas))}


def line_of(cell: Cell, name: str, seeds: int, *, fast: bool) -> pd.DataFrame:
    """As a line of `methods.csv`."""
    started = time.perf_counter()
    found = pd.DataFrame([voted(cell, cell.size(fast=fast), name, seed) for seed in range(seeds)])
    spread = {f"{column}_seed_std": found[column].std(ddof=0) for column in found}
    about = {"study": cell.study, "dataset": cell.dataset, "split": cell.split, "sites": cell.sites, "net": cell.net}
    by_seed = " ".join(f"{100 * value:.1f}" for value in found["accuracy"])
    seconds = time.perf_counter() - started
    line = {"method": name, **found.mean(), **spread, **about, "seeds": seeds, "by_seed": by_seed, "collapsed": ""}
    return pd.DataFrame([{**line, "cell_seconds": seconds}])


def run(out: Path, seeds: int, *, fast: bool) -> Iterator[str]:
    """What is not there yet, a folder a method; says what was done."""
    for sites in (50, 100):
        for cell in (Cell("many", "fashion_mnist", split, sites, VOTES) for split in SPLITS):
            for name in VOTES:
                folder = out / f"{cell.name}_{name.replace(':', '-')}"
                if (folder / "methods.csv").exists() and pd.read_csv(folder / "methods.csv")["seeds"][0] >= seeds:
                    continue
                table = line_of(cell, name, seeds, fast=fast)
                folder.mkdir(parents=True, exist_ok=True)
                table.to_csv(folder / "methods.csv", index=False)
                yield f"{folder.name}: {table['cell_seconds'][0]:.0f} s"
