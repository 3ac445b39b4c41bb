"""The selection stage on the same pool outputs, ours against graphroute: CPU time, accuracy, queries, memory.

A pool file holds for every site k train_logits_k (n, models, classes), train_y_k, val_*_k and test_*_k; the own model
of site k is column k, and the inputs are those of the split that the name begins with. Without pool files there is a
synthetic pool: the site's own model knows every class roughly, each peer a third of them well. Settings of the peer are
those of rigfl's FedDES. At the first site of one pool `FedDES` and graphroute are compared on the paper's
class-balanced graph, too, with the same rows and the same number of neighbors of every class.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import own_peak, timed
from numpy.typing import NDArray

from race.processes import KEEP_MEMORY, at_once, ours, theirs
from race.settings import Race

Tables = dict[str, NDArray[Any]]
K_PER_CLASS = 5  # neighbors of every class in the paper's graph, ours and graphroute's
ROLES = {"train": "train", "validation": "val", "test": "test"}


def measure(race: Race) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{name}.npz") for name in _names(race)}
        for name, file in files.items():
            np.savez(file, **(synthetic(race.size.rows_fixed) if name == "synthetic" else pool_tables(race, name)))
        tasks = [partial(_ours, file, name in race.size.paper_pools) for name, file in files.items()]
        tasks += [partial(_graphroute, race.peer_python, file) for file in files.values()]
        balanced = files.get(race.size.balanced_pool)
        if balanced:
            tasks.append(partial(_class_balanced, race.peer_python, balanced))
        found = at_once(*tasks)
        about = {name: described(dict(np.load(file))) for name, file in files.items()}
    figures = {
        name: {"about": about[name], **mine, "graphroute": peer}
        for name, mine, peer in zip(files, found, found[len(files) :], strict=False)
    }
    if balanced:
        figures[race.size.balanced_pool]["class_balanced"] = found[-1]
    return figures


def _names(race: Race) -> list[str]:
    there = [name for name in race.size.pools if race.pools and (race.pools / f"{name}.npz").is_file()]
    for name in race.size.pools:
        if name not in there:
            print(f"{name}.npz is not in --pools: not measured")
    return there or ["synthetic"]


def _ours(file: Path, paper: bool, core: Sequence[int]) -> dict[str, Any]:
    run = partial(ours, "race.selection:learners", core, file=str(file))
    return {"peerwise": run(method="peerwise"), "feddes": run(method="feddes") if paper else None}


def _graphroute(python: str | None, file: Path, core: Sequence[int]) -> Any:
    return theirs(python, "graphroute_pool.py", core, file=str(file))


def _class_balanced(python: str | None, file: Path, core: Sequence[int]) -> dict[str, Any]:
    """`FedDES` and graphroute in turn on this core, with malloc as it is and configured to keep its memory."""
    tables = np.load(file)
    found: dict[str, Any] = {"k": K_PER_CLASS, "rows": {role: len(tables[f"{role}_y_0"]) for role in ROLES}}
    about: dict[str, Any] = {"file": str(file), "k_per_class": K_PER_CLASS}
    for memory, environment in {"malloc": {}, "kept": KEEP_MEMORY}.items():
        found[memory] = {
            "feddes": ours("race.selection:feddes_first_site", core, environment, **about),
            "graphroute": theirs(
                python, "graphroute_pool.py", core, environment=environment, sites=1, batches=False, **about
            ),
        }
    return found


# ---- the pools -------------------------------------------------------------------------------------------------------


def synthetic(rows: int, models: int = 20, classes: int = 10) -> Tables:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 2 * rows)
    centres = rng.normal(size=(classes, 8))
    x = centres[y] + 0.9 * rng.normal(size=(len(y), 8))
    logits = np.empty((len(y), models, classes))
    for model in range(models):
        blur = 0.8 if model == 0 else 0.3
        believed = centres + blur * rng.normal(size=centres.shape)
        known = rng.permutation(classes)[: classes if model == 0 else max(2, round(classes / 3))]
        nearness = -((x[:, None] - believed) ** 2).sum(axis=2) / 2
        logits[:, model] = nearness.min(axis=1, keepdims=True) - 3
        logits[:, model, known] = nearness[:, known]
    tables: Tables = {"sites": np.array(1)}
    for role, part in zip(ROLES, np.split(np.arange(len(y)), [rows, rows + rows // 2]), strict=True):
        tables |= {f"{role}_logits_0": logits[part].astype(np.float32), f"{role}_y_0": y[part]}
        tables[f"{role}_x_0"] = x[part].astype(np.float32)
    return tables


def pool_tables(race: Race, name: str) -> Tables:
    assert race.pools is not None
    found, inputs = np.load(race.pools / f"{name}.npz"), dict(np.load(race.split(name.split("__")[0])))
    sites = sum(key.startswith("train_y_") for key in found.files)
    tables: Tables = {"sites": np.array(sites)}
    for site in range(sites):
        for code, (role, short) in enumerate(ROLES.items()):
            here = (inputs["client"] == site) & (inputs["split"] == code)
            if not np.array_equal(inputs["y"][here], found[f"{short}_y_{site}"]):
                raise SystemExit(
                    f"{name}: the labels of site {site} are not those of its split file. Give its --splits."
                )
            tables[f"{role}_x_{site}"] = inputs["x"][here]
            tables |= {f"{role}_{part}_{site}": found[f"{short}_{part}_{site}"] for part in ("logits", "y")}
    return tables


def described(tables: Tables) -> dict[str, Any]:
    sites = range(int(tables["sites"]))
    own = [tables[f"test_logits_{site}"][:, site].argmax(axis=1) == tables[f"test_y_{site}"] for site in sites]
    sizes = {role: sum(len(tables[f"{role}_y_{site}"]) for site in sites) for role in ROLES}
    models, classes = tables["train_logits_0"].shape[1:]
    right = [float(each.mean()) for each in own]
    return {"sites": len(sites), **sizes, "models": models, "classes": classes, "own": right}


# ---- our side, in a process of its own -------------------------------------------------------------------------------


def learners(file: str, method: str) -> dict[str, Any]:
    tables = dict(np.load(file))
    _warm_up(tables, method)
    seconds = {"fit": 0.0, "queries": 0.0, "batches": 0.0}
    right, singles = [], []
    for site in range(int(tables["sites"])):
        spent, learner = timed(partial(_learn, tables, site, method))
        seconds["fit"] += spent
        rows = len(tables[f"test_y_{site}"])
        for name, size in {"batches": 32, "queries": rows}.items():
            spent, answers = timed(partial(_answer, learner, tables, site, size))
            seconds[name] += spent
        right.append(float((answers.argmax(axis=1) == tables[f"test_y_{site}"]).mean()))
        singles += _one_by_one(learner, tables, site)
    one = {"one_median": float(np.median(singles)), "one_p95": float(np.quantile(singles, 0.95))}
    return {"right": right, "seconds": seconds, **one, "own_peak": own_peak()}


def feddes_first_site(file: str, k_per_class: int) -> dict[str, Any]:
    """`FedDES` at the first site: CPU seconds by phase, epochs and steps of its training."""
    from peerwise.trust import FedDES, feddes
    from race.peers.clock import Clock

    tables = dict(np.load(file))
    _warm_up(tables, "feddes")
    clock = Clock("queries")
    for name in ("train_graph", "query_edges"):
        clock.around(feddes, name, "graph")
    clock.around(FedDES, "_train", "learning")
    with clock.during("rest"):
        learner = _learn(tables, 0, "feddes", k=k_per_class)
    y = tables["test_y_0"]
    with clock.during("queries"):
        answers = _answer(learner, tables, 0, len(y))
    epochs = learner.training_.epochs
    steps = epochs * -(-len(tables["train_y_0"]) // learner.batch_size)
    right = [float((answers.argmax(axis=1) == y).mean())]
    return {"right": right, "epochs": epochs, "steps": steps, "seconds": clock.cpu, "own_peak": own_peak()}


def _warm_up(tables: Tables, method: str) -> None:
    """Compiled kernels are read from their cache before the clock starts."""
    few = {name: values if values.ndim == 0 else values[:60] for name, values in tables.items()}
    _answer(_learn(few, 0, method), few, 0, 60)


def _learn(tables: Tables, site: int, method: str, **settings: Any) -> Any:
    held_out = tuple(tables[f"validation_{part}_{site}"] for part in ("logits", "y", "x"))
    learner = _learner(method)(own=[site], random_state=0, **settings)
    rows = (tables[f"train_{part}_{site}"] for part in ("logits", "y"))
    return learner.fit_outputs(*rows, X=tables[f"train_x_{site}"], validation=held_out)


def _learner(method: str) -> Any:
    """Imported when it is used: PeerwiseClassifier does without torch, whose memory is not to count as its own."""
    if method == "feddes":
        from peerwise import FedDES

        return FedDES
    from peerwise import PeerwiseClassifier

    return PeerwiseClassifier


def _answer(learner: Any, tables: Tables, site: int, size: int) -> NDArray[np.float64]:
    logits, x = tables[f"test_logits_{site}"], tables[f"test_x_{site}"]
    starts = range(0, len(logits), size)
    return np.concatenate([learner.predict_proba_outputs(logits[s : s + size], x[s : s + size]) for s in starts])


def _one_by_one(learner: Any, tables: Tables, site: int) -> list[float]:
    """Milliseconds on the wall of single queries."""
    logits, x = tables[f"test_logits_{site}"], tables[f"test_x_{site}"]
    found = []
    for row in range(min(20, len(logits))):
        started = time.perf_counter()
        learner.predict_proba_outputs(logits[row : row + 1], x[row : row + 1])
        found.append(1000 * (time.perf_counter() - started))
    return found
