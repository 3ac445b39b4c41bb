"""Rounds a second of methods with rounds, ours against rigfl's: the same split, networks, batch size and two cores.

python benchmarks/rounds.py SPLIT.npz [--rounds 30] [--peer-python .peers/bin/python]
python benchmarks/rounds.py --sites 20,100     # ours alone: memory by the number of sites

Every site has a small CNN (rigfl's small_cnn, our cnn16), FML's shared net is another one. A round is the time between
two averagings, evaluation included: both choose each site's round on its validation rows, ours among all rounds,
rigfl's among those in which --peer-evaluates lets it evaluate (it then asks the test rows too, which it cannot leave
out). rigfl has no workers: its torch gets as many threads as --peer-threads says. Memory is the peak of the whole tree
of processes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np

from peerwise import Dataset, simulate

METHODS = ("fedavg", "fedproto", "fml")
BUDGET = {"lr": 0.01, "batch_size": 32, "local_epochs": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--peer-threads", type=int, default=2)
    parser.add_argument("--peer-evaluates", type=int, default=1, metavar="ROUNDS")
    parser.add_argument("--sites", help="numbers of sites with 100 rows each, to see how memory grows")
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    measure.peer_option(parser)
    a = parser.parse_args()
    if not a.split and not a.sites:
        parser.error("expected a split file, or --sites with numbers of sites, e.g. --sites 20,100")
    if a.ours:
        print(json.dumps(ours(a.split, a.ours, a.rounds, a.workers, int(a.sites or 0))))
    elif a.sites:
        growth(a)
    else:
        race(a)


def race(a: argparse.Namespace) -> None:
    for method in a.methods.split(","):
        mine = measure.again(__file__, a.split, "--ours", method, *_options(a))
        print(_line("peerwise", method, mine))
        with tempfile.TemporaryDirectory() as folder:
            options = ("--method", method, "--rounds", str(a.rounds), "--evaluate-every", str(a.peer_evaluates))
            threads = {"OMP_NUM_THREADS": str(a.peer_threads)}
            theirs = measure.peer(a.peer_python, "rounds", a.split.resolve(), folder, *options, **threads)
        if theirs:
            print(_line("rigfl", method, theirs))
            ratios = (theirs.said["round"] / mine.said["round"], theirs.cpu / mine.cpu, theirs.peak / mine.peak)
            print("    ratio: rounds a second {:.1f} x, CPU of all {:.1f} x, memory {:.2f} x".format(*ratios))
    print(measure.load_line())


def growth(a: argparse.Namespace) -> None:
    counts = [int(part) for part in a.sites.split(",")]
    for method in a.methods.split(","):
        for count in counts:
            cost = measure.again(__file__, "--ours", method, "--sites", str(count), *_options(a))
            print(f"{method} with {count} sites: peak {cost.peak:.0f} MB, {cost.said['round']:.2f} s a round")
    print(measure.load_line())


def ours(split: Path | None, method: str, rounds: int, workers: int, sites: int) -> dict[str, float]:
    ends: list[float] = []

    def watch(event: dict[str, Any]) -> None:
        if event["event"] == "round":
            ends.append(time.perf_counter())

    settings: dict[str, Any] = {"methods": [method], "training": {**BUDGET, "rounds": rounds}, "models": ["cnn16"]}
    settings |= {"method": {"fml": {"student": "cnn16"}}} if method == "fml" else {}
    data: Path | Dataset | None = split
    if sites:
        data = _made_up(100 * sites)
        settings |= {"partition": "dirichlet", "partition_settings": {"alpha": 100.0}, "sites": sites}
    found = simulate(data, seeds=1, workers=workers, on_event=watch, **settings).results  # type: ignore[arg-type]
    return {"round": (ends[-1] - ends[0]) / (len(ends) - 1), "accuracy": float(found["accuracy"].mean())}


def _made_up(rows: int) -> Dataset:
    """Images that cost what Fashion-MNIST's cost."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 10
    X = rng.integers(0, 256, (rows, 1, 28, 28), dtype=np.uint8)
    return Dataset("made up", "image", X, y, tuple(str(label) for label in range(10)))


def _options(a: argparse.Namespace) -> list[str]:
    return ["--rounds", str(a.rounds), "--workers", str(a.workers)]


def _line(name: str, method: str, cost: measure.Cost) -> str:
    return (
        f"{name:>10} {method:>9}: {1 / cost.said['round']:.2f} rounds a second; whole run wall {cost.wall:.1f} s, CPU "
        f"{cost.cpu:.1f} s, peak {cost.peak:.0f} MB, accuracy {100 * cost.said['accuracy']:.2f} %"
    )


if __name__ == "__main__":
    main()
