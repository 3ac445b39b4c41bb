"""Many small sites: FedAvg by ours, by packages that simulate rounds, and by bare loops of torch.

The same rows of Fashion-MNIST, shared out at random, the same nets, SGD and one local epoch. Each run is a process of
its own with one thread. A round's CPU seconds are the mean between the first and the last round's end; "start" is all
until the end of the first round, imports included, "end" all after the last. Ours scores validation rows at every site
in every round, keeps each site's best round and saves a checkpoint. Flower's clients run our training loop and score
their rows where they take part. One of the bare loops scores those of all sites, in one batch. The others evaluate
nothing before the end, when the last round's net answers all test rows.
The first weights differ between ours and the others, which shows in the accuracies of few rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import own_peak

from peerwise import load, simulate
from race.peers.sites_task import RoundEnds
from race.processes import Cost, ours, theirs
from race.settings import Federation, Race

LR = 0.01


def measure(race: Race) -> dict[str, Any]:
    return {
        "federations": [measure_federation(race, each) for each in race.size.federations_in_rounds],
        "large": measure_large(race),
        "smallest": measure_smallest(race),
    }


def measure_federation(race: Race, federation: Federation) -> dict[str, Any]:
    file = federation_file(race, federation)
    runs: dict[str, list[Any]] = {}
    for _ in range(race.size.repeats_in_rounds):
        for name, work in _contenders(race, federation, file).items():
            cost = work()
            if cost is not None:
                runs.setdefault(name, []).append(_summary(cost))
    return {**asdict(federation), "contenders": {name: _spread(each) for name, each in runs.items()}}


def measure_large(race: Race) -> dict[str, Any]:
    """Ours alone, with a run folder: the peak memory of very many sites."""
    federation = race.size.large_federation
    file = federation_file(race, federation)
    return {**asdict(federation), **_summary(_ours(federation, file, keep=True))}


SMALLEST = """
import json, sys, time
from peerwise import simulate
started = time.perf_counter()
simulate("digits", **json.loads(sys.argv[1]))
print(time.perf_counter() - started)
"""


def measure_smallest(race: Race) -> dict[str, list[float]]:
    """Wall seconds of the smallest run: the command with its report, a process that imports and calls, the call."""
    found: dict[str, list[float]] = {"command": [], "process": [], "call": []}
    settings = race.size.smallest
    for _ in range(race.size.repeats_in_rounds):
        with tempfile.TemporaryDirectory() as folder:
            options = [f"--{key}={value}" for key, value in {**settings, "out": f"{folder}/run"}.items()]
            found["command"].append(_wall([sys.executable, "-m", "peerwise", "simulate", "digits", *options])[0])
        seconds, printed = _wall([sys.executable, "-c", SMALLEST, json.dumps(settings)])
        found["process"].append(seconds)
        found["call"].append(float(printed))
    return found


def _wall(command: list[str]) -> tuple[float, str]:
    started = time.perf_counter()
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return time.perf_counter() - started, found.stdout


def federation_file(race: Race, federation: Federation) -> Path:
    """A split file with as many train, validation and test rows at each site as the federation says."""
    rows = federation.sites * sum(federation.rows)
    file = race.out / "splits" / f"{race.size.images}_{federation.sites}_sites_{rows}_rows.npz"
    if not file.is_file():
        X, y = _images(race.size.images)
        # Where more rows are wanted than there are, they are drawn with return.
        drawn = np.random.default_rng(0).choice(len(X), rows, replace=rows > len(X))
        client = np.repeat(np.arange(federation.sites), sum(federation.rows))
        split = np.tile(np.repeat(np.arange(3, dtype=np.int8), federation.rows), federation.sites)
        meta = {"kind": "image", "seed": 0, "num_clients": federation.sites, "num_classes": 10}
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, x=X[drawn], y=y[drawn], client=client, split=split, meta=json.dumps(meta))
    return file


def _images(name: str) -> tuple[Any, Any]:
    """Grey pixels (n, 28, 28) and labels; of ``synthetic`` each class has a bright stripe of its own."""
    if name != "synthetic":
        data = load(name)
        return np.asarray(data.X)[:, 0], data.y
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(500) % 10)
    X = rng.integers(0, 100, (500, 28, 28), dtype=np.uint8)
    X[np.arange(500), 2 * y] += 150
    return X, y


def _contenders(race: Race, federation: Federation, file: Path) -> dict[str, Callable[[], Cost | None]]:
    about: dict[str, Any] = {"file": str(file.resolve()), "net": federation.net, "rounds": federation.rounds}
    shared = about | {"batch": federation.batch, "lr": LR, "join": federation.join}

    def bare(how: str) -> Callable[[], Cost | None]:
        return lambda: theirs(sys.executable, "bare_rounds.py", how=how, **shared)

    def package(script: str) -> Callable[[], Cost | None]:
        return lambda: theirs(race.simulator_python, script, **shared)

    found: dict[str, Callable[[], Cost | None]] = {
        "ours, run folder": lambda: _ours(federation, file, keep=True),
        "ours, no folder": lambda: _ours(federation, file, keep=False),
        "pfl": package("pfl_rounds.py"),
        "fluke": package("fluke_rounds.py"),
        "FedLab": package("fedlab_rounds.py"),
        "bare loop, plain": bare("plain"),
        "bare loop, lean": bare("lean"),
        "bare loop, lean, scored": bare("scored"),
    }
    if federation.flower:
        settings = {"batch_size": federation.batch, "join": federation.join}
        found["Flower"] = lambda: ours("race.flower_app:simulation", **settings, **about)
    return found


def _ours(federation: Federation, file: Path, keep: bool) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"models": [federation.net], "join": federation.join}
        budget = {"rounds": federation.rounds, "batch_size": federation.batch, "lr": LR, "local_epochs": 1}
        out = f"{folder}/run" if keep else None
        return ours("race.many_sites:run", file=str(file), out=out, training=budget, **settings)


def run(file: str, out: str | None, **settings: Any) -> dict[str, Any]:
    """In this process: CPU seconds at the end of every round, the mean of the sites' accuracies, peak memory."""
    ends = RoundEnds()

    def watch(event: dict[str, Any]) -> None:
        if event["event"] == "round":
            ends.note()

    results = simulate(file, out=out, methods=["fedavg"], seeds=1, on_event=watch, **settings).results
    return {"ends": ends.seconds, "accuracy": float(results["accuracy"].mean()), "own_peak": own_peak()}


def _summary(cost: Cost) -> dict[str, float]:
    found = cost["said"]
    ends = found["ends"]
    a_round = (ends[-1] - ends[0]) / (len(ends) - 1)
    # Pages shared with other programs count for a part in the tree's peak, in full in the process's own.
    peak = max(cost["peak"], found.get("own_peak", 0.0))
    end = max(cost["cpu"] - ends[-1], 0.0)
    return {"round": a_round, "start": ends[0], "end": end, "peak": peak, "accuracy": found["accuracy"]}


def _spread(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    values = {key: [each[key] for each in runs] for key in runs[0]}
    return {key: {"least": min(each), "median": median(each), "most": max(each)} for key, each in values.items()}
