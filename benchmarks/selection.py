"""The selection stage on the same pool outputs, ours against graphroute: CPU time, accuracy, queries, memory.

python benchmarks/selection.py [--peer-python .peers/bin/python] [--pool POOL.npz [--split SPLIT.npz]]

Without --pool a synthetic pool: the site's own model knows every class roughly, each peer a third of them well. A
pool file holds for every site k train_logits_k (n, models, classes), train_y_k, val_*_k and test_*_k; the own model
of site k is column k. Settings of the peer are those of rigfl's FedDES; --balanced gives it the paper's graph too.
Only `FedDES.paper` builds a graph: ours is the class-aware one of the same rows, built apart from the fit.
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
from numpy.typing import NDArray

from peerwise import FedDES
from peerwise.space import DecisionSpace, as_logits, query_edges, train_graph

Tables = dict[str, NDArray[Any]]
ROLES = {"train": "train", "validation": "val", "test": "test"}
PARTS = {"graph": "graph", "fit": "whole fit", "at_once": "queries at once", "in_batches": "in batches of 32"}


def main() -> None:
    a = _arguments()
    if a.ours:
        print(json.dumps(ours(dict(np.load(a.ours)))))
        return
    tables = pool_tables(a.pool, a.split) if a.pool else synthetic(a)
    print(_about(tables))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pool.npz")
        np.savez(file, **tables)
        mine = measure.again(__file__, "--ours", file).said
        print(_line("peerwise", mine))
        print(f"one query {mine['one_median']:8.2f} ms median, {mine['one_p95']:.2f} ms at the 95th percentile")
        theirs = measure.peer(a.peer_python, "selection", file, "--epochs", str(a.peer_epochs))
        if theirs:
            _compare("graphroute", mine, theirs.said)
        if theirs and a.balanced:
            few = ("--balanced", "--epochs", str(a.balanced_epochs))
            balanced = measure.peer(a.peer_python, "selection", file, *few)
            assert balanced
            _compare(f"class-balanced, at most {a.balanced_epochs} epochs", mine, balanced.said)
    print(measure.load_line())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"rows": 2000, "validation": 1000, "queries": 1000, "models": 20, "classes": 10}
    for name, default in {**sizes, "seed": 0, "peer-epochs": 500, "balanced-epochs": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--pool", type=Path)
    parser.add_argument("--split", type=Path, help="the split file of the pool: its inputs are then given to peerwise")
    parser.add_argument("--balanced", action="store_true", help="measure the peer's class-balanced graph too")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    measure.peer_option(parser)
    return parser.parse_args()


# ---- the pools -------------------------------------------------------------------------------------------------------


def synthetic(a: argparse.Namespace) -> Tables:
    rng = np.random.default_rng(a.seed)
    n = a.rows + a.validation + a.queries
    y = rng.integers(0, a.classes, n)
    centres = rng.normal(size=(a.classes, 8))
    x = centres[y] + 0.9 * rng.normal(size=(n, 8))
    logits = np.empty((n, a.models, a.classes))
    for model in range(a.models):
        blur = 0.8 if model == 0 else 0.3
        believed = centres + blur * rng.normal(size=centres.shape)
        known = rng.permutation(a.classes)[: a.classes if model == 0 else max(2, round(a.classes / 3))]
        nearness = -((x[:, None] - believed) ** 2).sum(axis=2) / 2
        logits[:, model] = nearness.min(axis=1, keepdims=True) - 3
        logits[:, model, known] = nearness[:, known]
    cut = np.split(np.arange(n), [a.rows, a.rows + a.validation])
    tables: Tables = {"sites": np.array(1), "own_0": np.array(0)}
    for role, rows in zip(ROLES, cut, strict=True):
        tables |= {f"{role}_logits_0": logits[rows].astype(np.float32), f"{role}_y_0": y[rows]}
        tables[f"{role}_x_0"] = x[rows].astype(np.float32)
    return tables


def pool_tables(pool: Path, split: Path | None) -> Tables:
    found, inputs = np.load(pool), dict(np.load(split)) if split else None
    sites = sum(name.startswith("train_y_") for name in found.files)
    if found["train_logits_0"].shape[1] != sites:
        raise SystemExit(f"{pool}: expected one model a site, in the order of the sites.")
    tables: Tables = {"sites": np.array(sites)}
    for site in range(sites):
        tables[f"own_{site}"] = np.array(site)
        for code, (role, short) in enumerate(ROLES.items()):
            tables[f"{role}_logits_{site}"] = found[f"{short}_logits_{site}"]
            tables[f"{role}_y_{site}"] = found[f"{short}_y_{site}"]
            if inputs:
                here = (inputs["client"] == site) & (inputs["split"] == code)
                tables[f"{role}_x_{site}"] = inputs["x"][here]
    return tables


def _about(tables: Tables) -> str:
    sites = range(int(tables["sites"]))
    own = np.mean([_own_accuracy(tables, site) for site in sites])
    rows = sum(len(tables[f"train_y_{site}"]) for site in sites)
    queries = sum(len(tables[f"test_y_{site}"]) for site in sites)
    models, classes = tables["train_logits_0"].shape[1:]
    size = f"{len(sites)} site(s), {rows} rows, {queries} queries, {models} models, {classes} classes"
    return f"{size}; own model alone: {100 * own:.2f} %"


def _own_accuracy(tables: Tables, site: int) -> float:
    own = tables[f"test_logits_{site}"][:, int(tables[f"own_{site}"])]
    return float((own.argmax(axis=1) == tables[f"test_y_{site}"]).mean())


# ---- our side, in a process of its own -------------------------------------------------------------------------------


def ours(tables: Tables) -> dict[str, float]:
    few = _few(tables)  # compiled kernels are read from their cache before the clock starts
    _learn(few, 0)
    _graph(few, 0)
    total: dict[str, float] = {}
    sites = int(tables["sites"])
    one: list[float] = []
    for site in range(sites):
        found, singles = _one_site(tables, site)
        one += singles
        for key, value in found.items():
            total[key] = total.get(key, 0.0) + value
    total["accuracy"] /= sites
    total["fallback"] /= sites
    return {
        **total,
        "one_median": float(np.median(one)),
        "one_p95": float(np.quantile(one, 0.95)),
        "peak": measure.own_peak(),
    }


def _learn(tables: Tables, site: int) -> FedDES:
    held_out = (
        tables[f"validation_logits_{site}"],
        tables[f"validation_y_{site}"],
        tables.get(f"validation_x_{site}"),
    )
    learner = FedDES(own=[int(tables[f"own_{site}"])], random_state=0)
    rows = tables[f"train_logits_{site}"], tables[f"train_y_{site}"]
    return learner.fit_outputs(*rows, X=tables.get(f"train_x_{site}"), validation=held_out)


def _one_site(tables: Tables, site: int) -> tuple[dict[str, float], list[float]]:
    logits, y, x = (tables.get(f"test_{part}_{site}") for part in ("logits", "y", "x"))
    assert logits is not None
    fit, learner = measure.timed(lambda: _learn(tables, site))
    graph, _ = measure.timed(lambda: _graph(tables, site))

    def ask(start: int, stop: int) -> NDArray[np.float64]:
        return learner.predict_proba_outputs(logits[start:stop], None if x is None else x[start:stop])

    ask(0, 1)
    at_once, answers = measure.timed(lambda: ask(0, len(logits)))
    in_batches, _ = measure.timed(lambda: [ask(start, start + 32) for start in range(0, len(logits), 32)])
    singles = []
    for row in range(min(200, len(logits))):
        started = time.perf_counter()
        ask(row, row + 1)
        singles.append(1000 * (time.perf_counter() - started))
    accuracy = float((answers.argmax(axis=1) == y).mean())
    fallback = float(learner.decide_outputs(logits, x).fallback.mean())
    costs = {"graph": graph, "fit": fit, "at_once": at_once, "in_batches": in_batches}
    return {**costs, "accuracy": accuracy, "fallback": fallback}, singles


def _graph(tables: Tables, site: int) -> object:
    """As the peer's: the edges among the training rows, and those of the validation rows to them."""
    train, validation = (as_logits(tables[f"{role}_logits_{site}"], "logits") for role in ("train", "validation"))
    space = DecisionSpace.fit(train, tables[f"train_y_{site}"])
    return train_graph(space, 3), query_edges(space, validation, 3)


def _few(tables: Tables) -> Tables:
    return {name: values if values.ndim == 0 else values[:60] for name, values in tables.items()}


# ---- the comparison --------------------------------------------------------------------------------------------------


def _line(name: str, said: dict[str, float]) -> str:
    seconds = ", ".join(f"{label} {said[part]:.2f}" for part, label in PARTS.items() if part in said)
    right = f"accuracy {100 * said['accuracy']:.2f} %, fallback {100 * said['fallback']:.0f} %"
    return f"{name:>10}: {right}; CPU seconds: {seconds}; peak {said['peak']:.0f} MB"


def _compare(name: str, mine: dict[str, float], theirs: dict[str, float]) -> None:
    print(_line(name, theirs), f"({theirs['epochs']:.0f} epochs)")
    ratios = [
        f"{label} {theirs[part] / max(mine[part], 1e-3):.1f} x" for part, label in PARTS.items() if part in theirs
    ]
    print(f"     ratio: {', '.join(ratios)}, memory {theirs['peak'] / mine['peak']:.1f} x")


if __name__ == "__main__":
    main()
