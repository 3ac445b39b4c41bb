"""How time and memory grow with rows, models and sites, ours and the peers'.

Over rows and models: PeerwiseClassifier and graphroute on synthetic pool outputs with as many validation rows as a
quarter of the rows, 250 queries, a process for each size. The peer's cost of an epoch is that of a few epochs, so that
one measurement stays below a minute (one that does not is left out). Over sites: a whole federation, ours and rigfl's,
on the first sites of a split whose sites have been cut in four, so that a site has the same number of rows however many
there are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import own_peak, timed
from pools import outputs

from peerwise import PeerwiseClassifier
from race.feddes import PHASES
from race.processes import at_once, ours, theirs
from race.settings import LIGHT, TABULAR, Race
from race.splits import first_sites

CLASSES, QUERIES, INPUTS, LIMIT = 10, 250, 64, 60.0


def measure(race: Race) -> dict[str, Any]:
    size = race.size
    rows = [(n, size.models_fixed) for n in size.rows]
    models = [(size.rows_fixed, m) for m in size.models]
    peer_rows = [(n, size.models_fixed) for n in size.peer_rows]
    peer_models = [(size.rows_fixed, m) for m in size.peer_models]
    with tempfile.TemporaryDirectory() as folder:
        tasks = [partial(_ours, *pair) for pair in (*rows, *models)]
        if race.peer_python:
            files = {pair: _write(Path(folder), *pair) for pair in (*peer_rows, *peer_models)}
            tasks += [partial(_graphroute, race, files[pair]) for pair in (*peer_rows, *peer_models)]
        found = iter(at_once(*tasks))
        curves = {"rows": {"ours": _curve(size.rows, found)}, "models": {"ours": _curve(size.models, found)}}
        if race.peer_python:
            curves["rows"]["graphroute"] = _curve(size.peer_rows, found)
            curves["models"]["graphroute"] = _curve(size.peer_models, found)
    return {
        "curves": {**curves, "sites": _sites(race)},
        "fixed": {"rows": size.rows_fixed, "models": size.models_fixed},
    }


def _curve(sizes: Sequence[int], found: Any) -> dict[str, list[Any]]:
    """Costs by size, as lists; sizes at which there is none are left out."""
    pairs = [(size, costs) for size in sizes if (costs := next(found)) is not None]
    names = pairs[0][1] if pairs else {}
    return {"size": [size for size, _ in pairs], **{name: [costs[name] for _, costs in pairs] for name in names}}


def _ours(rows: int, models: int, core: Sequence[int]) -> dict[str, float]:
    return ours("race.growth:one", core, rows=rows, models=models)["said"]


def _graphroute(race: Race, file: Path, core: Sequence[int]) -> dict[str, float] | None:
    epochs = race.size.peer_epochs
    about = {"file": str(file), "epochs": epochs, "batches": False}
    cost = theirs(race.peer_python, "graphroute_pool.py", core, LIMIT, **about)
    if cost is None:
        return None
    seconds = cost["said"]["seconds"]
    found = {"graph": seconds["graph"], "epoch": seconds["learning"] / cost["said"]["epochs"]}
    return {**found, "queries": seconds["queries"], "peak": cost["said"]["own_peak"]}


def _write(folder: Path, rows: int, models: int) -> Path:
    """The outputs that `one` makes, as a file for the peer."""
    rng, file = np.random.default_rng(0), folder / f"{rows}_{models}.npz"
    tables: dict[str, Any] = {"sites": np.array(1)}
    for role, count in {"train": rows, "validation": rows // 4, "test": QUERIES}.items():
        tables[f"{role}_logits_0"], tables[f"{role}_y_0"] = outputs(rng, count, models, CLASSES)
    np.savez(file, **tables)
    return file


def one(rows: int, models: int) -> dict[str, float]:
    """CPU seconds by part and peak megabytes of one size, in this process."""
    _run(60, models)  # libraries are loaded before the clock starts
    fit, queries = _run(rows, models)
    return {"fit": fit, "queries": queries, "peak": own_peak()}


def _run(rows: int, models: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    known, held_out, asked = (outputs(rng, count, models, CLASSES) for count in (rows, rows // 4, QUERIES))
    X, held_out_X, asked_X = (
        rng.normal(size=(len(part[1]), INPUTS)).astype(np.float32) for part in (known, held_out, asked)
    )
    learner = PeerwiseClassifier(own=[0], random_state=0)
    fit, _ = timed(lambda: learner.fit_outputs(*known, X, validation=(*held_out, held_out_X)))
    return fit, timed(lambda: learner.predict_proba_outputs(asked[0], asked_X))[0]


# ---- sites -----------------------------------------------------------------------------------------------------------


def _sites(race: Race) -> dict[str, Any]:
    size, file = race.size, race.split(race.size.grown)
    family = LIGHT if "fmnist" in size.grown else TABULAR
    counts = sorted({*size.grown_sites, *size.peer_sites})
    splits = {count: first_sites(file, count, race.out, pieces=4) for count in counts}
    # the longest first, so that both cores end at about the same time
    tasks = [partial(_our_sites, splits[count], family) for count in reversed(size.grown_sites)]
    tasks += [partial(_our_rounds, splits[count], size.net[0]) for count in reversed(size.grown_sites)]
    if race.peer_python:
        tasks += [partial(_rigfl_sites, race, splits[count], family) for count in reversed(size.peer_sites)]
    found = at_once(*tasks)
    few = len(size.grown_sites)
    mine, with_rounds, peers = found[:few], found[few : 2 * few], found[2 * few :]
    curves = {"ours": _curve(size.grown_sites, iter(reversed(mine)))}
    curves["ours, FedAvg"] = _curve(size.grown_sites, iter(reversed(with_rounds)))
    if peers:
        curves["rigfl"] = _curve(size.peer_sites, iter(reversed(peers)))
    return curves


def _our_sites(file: Path, family: str, core: Sequence[int]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        about = {"file": str(file), "family": family, "folder": folder, "method": "peerwise", "workers": 1}
        return _costs(ours("race.feddes:federation", core, **about))


def _our_rounds(file: Path, net: str, core: Sequence[int]) -> dict[str, float]:
    cost = ours("race.rounds:run", core, file=str(file), method="fedavg", rounds=3, net=net, workers=1)
    return {"round": cost["said"]["round"], "peak": cost["peak"]}


def _rigfl_sites(race: Race, file: Path, family: str, core: Sequence[int]) -> dict[str, float] | None:
    with tempfile.TemporaryDirectory() as folder:
        about = {"what": "federation", "file": str(file.resolve()), "work": folder, "family": family}
        cost = theirs(race.peer_python, "rigfl_runs.py", core, 2 * LIMIT, **about)
        return None if cost is None else _costs(cost)


def _costs(cost: Any) -> dict[str, float]:
    said = cost["said"]
    phases = {phase: said["seconds"][phase] for phase in PHASES}
    return {**phases, "cpu": cost["cpu"], "peak": cost["peak"], "received": said["bytes"]["received"]}
