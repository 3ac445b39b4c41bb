"""Methods with rounds: ours against rigfl's and Flower's, on the same split, net, batch size and two cores.

Every site has a small CNN (rigfl's small_cnn, our cnn16), FML's shared net is another one. Before the head rigfl has
one more linear layer, here as wide as what it is given, which it cannot leave out. A round is the time between
two averagings, evaluation included: all choose each site's round on its validation rows, and rigfl asks the test rows
in every round, which it cannot leave out. Ours has two workers, Flower two clients at a time; rigfl has no workers, its
torch gets two threads, and for FedAvg one as well. Memory is the peak of the whole tree of processes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from peerwise import simulate
from race.processes import Cost, cores, ours, theirs
from race.settings import Race

METHODS = ("fedavg", "fedproto", "fml")
BUDGET = {"lr": 0.01, "batch_size": 32, "local_epochs": 1}


def measure(race: Race) -> dict[str, Any]:
    file, net = race.split(race.size.rounds_on), race.size.net[0]
    lines: dict[str, dict[str, Cost | None]] = {}
    for method in METHODS:
        about = {"file": str(file), "rounds": race.size.rounds, "net": net}
        lines[method] = {"ours": ours("race.rounds:run", method=method, workers=len(cores()), **about)}
        if method == "fedavg":
            lines[method]["flower"] = ours("race.flower_app:simulation", **about)
            lines[method]["rigfl, one thread"] = _rigfl(race, file, method, 1)
        lines[method]["rigfl"] = _rigfl(race, file, method, len(cores()))
    return {"split": file.stem, "rounds": race.size.rounds, "methods": lines}


def _rigfl(race: Race, file: Path, method: str, threads: int) -> Cost | None:
    with tempfile.TemporaryDirectory() as folder:
        _, net, width = race.size.net
        about: dict[str, Any] = {"what": "rounds", "file": str(file.resolve()), "work": folder, "method": method}
        about |= {"net": net, "width": width, "count": race.size.rounds}
        return theirs(race.peer_python, "rigfl_runs.py", threads=threads, **about)


def run(file: str, method: str, rounds: int, net: str, workers: int) -> dict[str, Any]:
    """In this process: seconds a round, each site's accuracy in its best round, bytes a site."""
    ends: list[float] = []

    def watch(event: dict[str, Any]) -> None:
        if event["event"] == "round":
            ends.append(time.perf_counter())

    settings: dict[str, Any] = {"methods": [method], "training": {**BUDGET, "rounds": rounds}, "models": [net]}
    settings |= {"method": {"fml": {"student": net}}} if method == "fml" else {}
    found = simulate(file, seeds=1, workers=workers, on_event=watch, **settings).results
    between = (ends[-1] - ends[0]) / (len(ends) - 1)
    sizes = {way: float(found[f"bytes_{way}"].mean()) for way in ("sent", "received")}
    return {"round": between, "right": found["accuracy"].tolist(), "bytes": sizes}
