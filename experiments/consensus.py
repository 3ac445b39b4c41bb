"""Print what the consensus of FedMosaic or FedCT is worth in the first rounds of an experiment (seed 0): how many
classes it names, how many rows have the commonest one, and how many are right, by the labels of the public rows, which
the sites do not know.

python experiments/consensus.py experiments/fedmosaic_practical.toml --fast --methods fedct --rounds 10
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from peerwise.data import Dataset
from peerwise.federation import Session
from peerwise.methods.co_training import CoTraining
from peerwise.run import Experiment, read_experiments
from peerwise.run.contenders import contenders
from peerwise.run.simulate import federation


def follow(experiment: Experiment, data: Dataset, name: str, rounds: int) -> None:
    sites = federation(experiment, data, 0)
    method = contenders(experiment, sites)[name][0].method
    common = sites[0].public_set
    if not isinstance(method, CoTraining) or common is None:
        raise SystemExit(f"{name} has no consensus on public rows: expected a fedmosaic or fedct.")
    for site in sites:
        Session(method, site)
    memory: dict[str, object] = {}
    for round in range(rounds):
        inbox = {site.name: method.share(site, round) for site in sites}
        if not method.shares_in(round):
            continue
        told, memory = method.combine(inbox, memory, np.random.default_rng(0))
        for site in sites:
            method.absorb(site, round, told)
        labels = sites[0].state["consensus"]
        counts = np.bincount(labels[labels >= 0], minlength=len(data.classes))
        sys.stdout.write(
            f"{experiment.dataset:18s}{name:22s}round {round + 1:2d}   classes {np.count_nonzero(counts):2d}   "
            f"commonest {counts.max() / len(labels):4.0%}   right {np.mean(labels == data.y[common.rows]):4.0%}\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--methods", required=True, help="as the experiment calls them, by comma")
    parser.add_argument("--fast", action="store_true", help="the small sizes of the file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for experiment in read_experiments(arguments.experiment, fast=arguments.fast).values():
        data = experiment.load_data()
        for name in arguments.methods.split(","):
            follow(experiment.filled(data), data, name, arguments.rounds)


if __name__ == "__main__":
    main()
