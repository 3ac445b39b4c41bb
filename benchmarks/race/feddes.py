"""A whole federation, ours against rigfl's FedDES: the same split, networks and folds, one core each.

Two federations run at a time, one on each core, ours as well as the peer's. `FedDES` then learns from the pool
that `PeerwiseClassifier` has left, in a process of its own. On both cores ours runs once more, with two workers:
rigfl has none.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from peerwise import simulate
from race.processes import at_once, cores, ours, theirs
from race.settings import FAMILIES, Race
from race.splits import first_sites

PHASES = ("train", "outputs", "fit", "predict")


def measure(race: Race) -> dict[str, Any]:
    names = race.size.federations
    files = {name: race.split(name) for name in names}
    if race.size.sites:
        files = {name: first_sites(file, race.size.sites, race.out) for name, file in files.items()}
    tasks = [partial(_ours, file, names[name]) for name, file in files.items()]
    tasks += [partial(_rigfl, race.peer_python, file, names[name]) for name, file in files.items()]
    found = at_once(*tasks)
    lines = {name: {**mine, "rigfl": peer} for name, mine, peer in zip(names, found, found[len(names) :], strict=False)}
    first = next(iter(names))
    with tempfile.TemporaryDirectory() as folder:
        about = {"file": str(files[first]), "family": names[first], "folder": folder}
        both = ours("race.feddes:federation", cores(), method="peerwise", workers=len(cores()), **about)
    return {"federations": lines, "two workers": {"split": first, "peerwise": both}}


def _ours(file: Path, family: str, core: Sequence[int]) -> dict[str, Any]:
    folder = tempfile.mkdtemp()
    about = {"file": str(file), "family": family, "folder": folder, "workers": 1}
    try:
        return {name: ours("race.feddes:federation", core, method=name, **about) for name in ("peerwise", "feddes")}
    finally:
        shutil.rmtree(folder)


def _rigfl(python: str | None, file: Path, family: str, core: Sequence[int]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        about = {"what": "federation", "file": str(file.resolve()), "work": folder, "family": family}
        return theirs(python, "rigfl_runs.py", core, **about)


def federation(file: str, family: str, folder: str, method: str, workers: int) -> dict[str, Any]:
    """One method's run, in this process: what each site got right, bytes, and seconds by phase over all sites."""
    trained = _counted() if workers == 1 else [0]
    shape = {"models": FAMILIES[family], "assign": "cycle", "folds": 3, "seeds": 1}
    found = simulate(file, out=folder, methods=[method], workers=workers, **shape).results
    return {
        "right": found["accuracy"].tolist(),
        "own": found["own_accuracy"].tolist(),
        "seconds": {phase: float(found[f"seconds_{phase}"].sum()) for phase in PHASES},
        "rows_trained": trained[0],
        "rows_asked": int((np.load(file)["split"] == 2).sum()),
        "bytes": {way: float(found[f"bytes_{way}"].mean()) for way in ("sent", "received")},
    }


def _counted() -> list[int]:
    """A number that grows with every row of every training step from now on."""
    from peerwise.models import training

    rows, epoch = [0], training._epoch

    def counting(net: Any, tensors: Any, step: Any, picks: Any) -> float:
        rows[0] += sum(len(pick) for pick in picks)
        return epoch(net, tensors, step, picks)

    training._epoch = counting
    return rows
