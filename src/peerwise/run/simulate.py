"""The simulator: many sites on one machine, going on where it stopped."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from peerwise.data import Dataset, Site, derived_seed, digest, make_sites
from peerwise.errors import ConfigError
from peerwise.methods import Method, check_value, make_method
from peerwise.run.experiment import Experiment, changed, experiment_from
from peerwise.run.folder import RunFolder
from peerwise.run.rounds import agree, check_sites
from peerwise.run.score import site_row
from peerwise.run.steps import Observer, absorb, combines, everywhere, predict, share


@dataclass(frozen=True)
class Run:
    """A finished run: one row of ``results`` for each seed, method and site, and the folder they came from."""

    experiment: Experiment
    results: pd.DataFrame
    folder: Path | None


def simulate(
    dataset: str | Path | Dataset | Experiment = "heart_disease",
    *,
    out: str | Path | None = None,
    workers: int = 1,
    data_dir: str | Path | None = None,
    on_event: Observer | None = None,
    **settings: Any,
) -> Run:
    """Simulate a federation and compare methods on it.

    ``dataset``: a known name, a path, a `Dataset` of your own, or a whole `Experiment`; ``settings`` are the keys of
    `Experiment`. With ``out`` everything is kept there and running again goes on where it stopped; without it only
    the results remain. One seed gives the same numbers whatever ``workers`` is.

    >>> run = simulate("digits", sites=3, rows=300, models=["logistic"], methods=["local", "global_ensemble"], seeds=1)
    >>> sorted(run.results["method"].unique())
    ['global_ensemble', 'local']
    """
    check_value(workers, int, "workers")
    if workers < 1:
        raise ConfigError(f"workers is {workers}: expected at least 1.")
    experiment, data = _wanted(dataset, settings, data_dir)
    sites = federation(experiment, data, 0)
    methods = _methods(experiment, sites)
    with tempfile.TemporaryDirectory(prefix="peerwise-") as temporary:
        folder = RunFolder(out if out is not None else temporary)
        folder.open(experiment, _identity(data))
        tell = _teller(folder, on_event)
        tell({"event": "start", "dataset": data.name, "rows": len(data), "seeds": experiment.seeds,
              "methods": list(methods)})  # fmt: skip
        rows: list[dict[str, Any]] = []
        for seed in range(experiment.seeds):
            here = sites if seed == 0 else federation(experiment, data, seed)
            rows += _one_seed(methods, here, seed, folder, workers, tell)
        results = pd.DataFrame(rows)
        folder.save_results(results)
        tell({"event": "end", "results": str(folder.path / "results.parquet")})
    return Run(experiment, results, Path(out) if out is not None else None)


def federation(experiment: Experiment, data: Dataset, seed: int) -> list[Site]:
    """The sites of one seed: rows drawn, shared out and split; ``site.index`` counts the rows of ``data``."""
    drawn = np.arange(len(data))
    if experiment.rows is not None and experiment.rows > len(data):
        raise ConfigError(f"rows is {experiment.rows}: data set {data.name!r} has only {len(data)}. Leave it out.")
    if experiment.rows is not None and experiment.rows < len(data):
        rng = np.random.default_rng(derived_seed(seed, "rows"))
        drawn = np.sort(rng.choice(len(data), experiment.rows, replace=False))
    sites = make_sites(
        data if len(drawn) == len(data) else data.take(drawn),
        experiment.partition,
        experiment.sites,
        seed=seed,
        recipes=experiment.models,
        assign=experiment.assign or "all",
        public=experiment.public,
        device=experiment.device,
        **experiment.partition_settings,
    )
    return [replace(site, index={part: drawn[rows] for part, rows in site.index.items()}) for site in sites]


def _wanted(
    dataset: str | Path | Dataset | Experiment, settings: dict[str, Any], data_dir: str | Path | None
) -> tuple[Experiment, Dataset]:
    if isinstance(dataset, Experiment):
        experiment = changed(dataset, settings)
    else:
        at_hand = isinstance(dataset, Dataset)
        experiment = experiment_from({"dataset": "" if at_hand else dataset, **settings})
    try:
        torch.empty(0, device=experiment.device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"device is {experiment.device!r}: expected one that is here, e.g. 'cpu'. {reason}"
        ) from error
    data = dataset if isinstance(dataset, Dataset) else experiment.load_data(data_dir)
    return experiment.filled(data), data


def _methods(experiment: Experiment, sites: list[Site]) -> dict[str, Method]:
    """The methods by label, each of them able to run on these sites."""
    methods: dict[str, Method] = {}
    for name in experiment.methods:
        method = make_method(name, experiment.settings(name), folds=experiment.folds, epochs=experiment.epochs)
        check_sites(method, sites)
        methods[experiment.label(name)] = method
    return methods


def _identity(data: Dataset) -> str:
    """Stands for rows, labels and their names."""
    named = hashlib.sha256(repr((data.classes, data.features)).encode()).hexdigest()
    return f"{digest(data.X, data.y)} {named}"


def _one_seed(
    methods: dict[str, Method], sites: list[Site], seed: int, folder: RunFolder, workers: int, tell: Observer
) -> Iterator[dict[str, Any]]:
    folder.save_split(seed, sites)
    sites = [replace(site, keep=folder.keep) for site in sites]
    for label, method in methods.items():
        run = f"{label}-s{seed}"
        tell({"event": "method", "method": label, "seed": seed, "sites": len(sites), "rounds": method.rounds})
        waiting = [site for site in sites if not folder.has_predictions(site.name, run)]
        if waiting:
            _rounds(method, sites, folder, run, workers, tell)
            everywhere(predict, waiting, (method, folder, run), workers, tell, {"event": "predicted", "run": run})
        for site in sites:
            tree = folder.load_predictions(site.name, run)
            yield {"seed": seed, "method": label, "site": site.name, **site_row(tree)}


def _rounds(method: Method, sites: list[Site], folder: RunFolder, run: str, workers: int, tell: Observer) -> None:
    """All rounds over worker processes; each step leaves its state in the folder, so any of them can be the last."""
    memory: dict[str, Any] = {}
    for round in range(method.rounds):
        about, arguments = {"run": run, "round": round}, (method, folder, run, round)
        everywhere(share, sites, arguments, workers, tell, {"event": "shared", **about})
        if combines(method):
            told, memory = agree(method, round, folder.exchange(run), memory, sites[0].seed)
            folder.save_told(run, round, told)
        everywhere(absorb, sites, arguments, workers, tell, {"event": "absorbed", **about})


def _teller(folder: RunFolder, on_event: Observer | None) -> Observer:
    def tell(event: dict[str, Any]) -> None:
        folder.log(event)
        if on_event:
            on_event(event)

    return tell
