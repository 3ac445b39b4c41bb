"""A whole federation, ours against rigfl's FedDES: the same split, networks and folds, the same two cores.

python benchmarks/federation.py SPLIT.npz [--peer-python .peers/bin/python]

Sites take LeNet-5 and two light CNNs in turn (rigfl's lenet5, small_cnn and an 8-filter small_cnn). rigfl has no
workers: its torch gets as many threads as --peer-threads says, we get as many workers as --workers says. Wall and CPU
time and the peak memory of the whole process tree include starting Python and reading the data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import measure

from peerwise import simulate

NETS = ("lenet5", "cnn16", "cnn8")
PARTS = ("train", "outputs", "fit", "predict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folds", type=int, default=3, help="rigfl always uses 3")
    parser.add_argument("--epochs", type=int, help="cut our base training short, to try the script out")
    parser.add_argument("--peer-threads", type=int, default=2)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    measure.peer_option(parser)
    a = parser.parse_args()
    if a.ours:
        print(json.dumps(ours(a.split, a.workers, a.folds, a.epochs)))
        return
    options = ["--workers", str(a.workers), "--folds", str(a.folds)]
    options += ["--epochs", str(a.epochs)] if a.epochs else []
    mine = measure.again(__file__, a.split, "--ours", *options)
    print(_line("peerwise", mine), f"own model alone {100 * mine.said['own']:.2f} %")
    print("            CPU and waiting seconds of all sites: " + ", ".join(f"{p} {mine.said[p]:.1f}" for p in PARTS))
    with tempfile.TemporaryDirectory() as folder:
        threads = {"OMP_NUM_THREADS": str(a.peer_threads)}
        theirs = measure.peer(a.peer_python, "federation", a.split.resolve(), folder, **threads)
    if theirs:
        print(_line("rigfl", theirs))
        ratios = (theirs.wall / mine.wall, theirs.cpu / mine.cpu, theirs.peak / mine.peak)
        print("    ratio: wall {:.1f} x, CPU {:.1f} x, memory {:.1f} x".format(*ratios))
    print(measure.load_line())


def ours(split: Path, workers: int, folds: int, epochs: int | None) -> dict[str, float]:
    shape = {"models": NETS, "assign": "cycle", "folds": folds, "epochs": epochs}
    found = simulate(split, methods=["feddes"], seeds=1, workers=workers, **shape).results
    spent = {part: float(found[f"seconds_{part}"].sum()) for part in PARTS}
    return {"accuracy": float(found["accuracy"].mean()), "own": float(found["own_accuracy"].mean()), **spent}


def _line(name: str, cost: measure.Cost) -> str:
    return (
        f"{name:>10}: wall {cost.wall:.1f} s, CPU {cost.cpu:.1f} s, peak {cost.peak:.0f} MB, "
        f"mean accuracy of the sites {100 * cost.said['accuracy']:.2f} %"
    )


if __name__ == "__main__":
    main()
