"""The simulator: many sites on one machine, one process each, going on where it stopped."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed, parallel_config

from peerwise.data import Dataset, Site, derived_seed, digest, make_sites
from peerwise.errors import ConfigError, PeerwiseError
from peerwise.methods import Method, make_method
from peerwise.parcels import Parcel
from peerwise.run.experiment import Experiment, experiment_from
from peerwise.run.folder import RunFolder
from peerwise.run.rounds import RUN, agree, answer, begin, finish, hear, say
from peerwise.run.score import site_row

Observer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Run:
    """A finished run: one row of ``results`` for each seed, method and site, and the folder they came from."""

    experiment: Experiment
    results: pd.DataFrame
    folder: Path | None


def simulate(
    dataset: str | Dataset | Experiment = "heart_disease",
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
    if workers < 1:
        raise ConfigError(f"workers is {workers}: expected at least 1.")
    experiment, data = _wanted(dataset, settings, data_dir)
    with tempfile.TemporaryDirectory(prefix="peerwise-") as temporary:
        folder = RunFolder(out if out is not None else temporary)
        folder.open(experiment, digest(data.X, data.y))
        tell = _teller(folder, on_event)
        tell({"event": "start", "dataset": data.name, "rows": len(data), "seeds": experiment.seeds,
              "methods": list(experiment.methods)})  # fmt: skip
        rows = [
            row for seed in range(experiment.seeds) for row in _one_seed(experiment, data, seed, folder, workers, tell)
        ]
        results = pd.DataFrame(rows)
        folder.save_results(results)
        tell({"event": "end", "results": str(folder.path / "results.parquet")})
    return Run(experiment, results, Path(out) if out is not None else None)


def _wanted(
    dataset: str | Dataset | Experiment, settings: dict[str, Any], data_dir: str | Path | None
) -> tuple[Experiment, Dataset]:
    if isinstance(dataset, Experiment):
        experiment = replace(dataset, **settings)
        data = experiment.load_data(data_dir)
    elif isinstance(dataset, Dataset):
        experiment, data = experiment_from({"dataset": "", **settings}), dataset
    else:
        experiment = experiment_from({"dataset": dataset, **settings})
        data = experiment.load_data(data_dir)
    return experiment.filled(data), data


def _one_seed(
    experiment: Experiment, data: Dataset, seed: int, folder: RunFolder, workers: int, tell: Observer
) -> Iterator[dict[str, Any]]:
    sites = federation(experiment, data, seed)
    folder.save_split(seed, sites)
    sites = [replace(site, keep=folder.keep) for site in sites]
    for name in experiment.methods:
        label = experiment.label(name)
        run = f"{label}-s{seed}"
        method = make_method(name, experiment.settings(name), folds=experiment.folds, epochs=experiment.epochs)
        tell({"event": "method", "method": label, "seed": seed, "sites": len(sites), "rounds": method.rounds})
        waiting = [site for site in sites if not folder.has_predictions(site.name, run)]
        if waiting:
            _rounds(method, sites, folder, run, workers, tell)
            jobs = [(site, (method, site, folder, run)) for site in waiting]
            _everywhere(_predict, jobs, workers, tell, {"event": "predicted", "run": run})
        for site in sites:
            tree = folder.load_predictions(site.name, run)
            yield {"seed": seed, "method": label, "site": site.name, **site_row(tree)}


def federation(experiment: Experiment, data: Dataset, seed: int) -> list[Site]:
    """The sites of one seed: rows drawn, shared out and split."""
    if experiment.rows is not None and experiment.rows < len(data):
        rng = np.random.default_rng(derived_seed(seed, "rows"))
        data = data.take(np.sort(rng.choice(len(data), experiment.rows, replace=False)))
    return make_sites(
        data,
        experiment.partition,
        experiment.sites,
        seed=seed,
        recipes=experiment.models,
        assign=experiment.assign or "all",
        public=experiment.public,
        device=experiment.device,
        **experiment.partition_settings,
    )


def _rounds(method: Method, sites: list[Site], folder: RunFolder, run: str, workers: int, tell: Observer) -> None:
    """All rounds over worker processes; each step leaves its state in the folder, so any of them can be the last."""
    exchange = folder.exchange(run)
    memory: dict[str, Any] = {}
    for round in range(method.rounds):
        about = {"run": run, "round": round}
        jobs = [(site, (method, site, folder, run, round)) for site in sites]
        _everywhere(_share, jobs, workers, tell, {"event": "shared", **about})
        told, memory = agree(method, round, exchange, memory, sites[0].seed)
        if isinstance(told, Parcel):
            folder.store.save_packed(_told(run, round), *told.encode())
        _everywhere(_absorb, jobs, workers, tell, {"event": "absorbed", **about})


def _share(method: Method, site: Site, folder: RunFolder, run: str, round: int) -> None:
    state = folder.load_state(site.name, run)
    if state is None:
        begin(method, site)
    else:
        site.state = state
    if site.state[RUN].get("shared", -1) >= round:
        return
    say(method, site, round, folder.exchange(run))
    site.state[RUN]["shared"] = round
    folder.save_state(site.name, run, site.state)


def _absorb(method: Method, site: Site, folder: RunFolder, run: str, round: int) -> None:
    state = folder.load_state(site.name, run)
    assert state is not None, "absorb follows share"
    site.state = state
    if site.state[RUN].get("absorbed", -1) >= round:
        return
    if folder.store.has(_told(run, round)):
        told: Any = Parcel.decode(*folder.store.load_packed(_told(run, round)))
    else:
        told = folder.exchange(run).collect(round)
    hear(method, site, round, told)
    site.state[RUN]["absorbed"] = round
    folder.save_state(site.name, run, site.state)


def _predict(method: Method, site: Site, folder: RunFolder, run: str) -> None:
    state = folder.load_state(site.name, run)
    assert state is not None, "predict follows absorb"
    site.state = state
    finish(site)
    started = time.perf_counter()
    probabilities = answer(method, site, site.test.X)
    elapsed = time.perf_counter() - started
    record = site.state[RUN]
    phases = {"train": record["seconds"].get("share", 0.0), "fit": record["seconds"].get("absorb", 0.0)}
    tree = {
        "y": site.test.y,
        "probabilities": probabilities,
        "details": method.details(site, site.test.X),
        "sent": record["sent"],
        "best_round": record.get("best_round"),
        "seconds": {**phases, **site.state.get("seconds", {}), "predict": elapsed},
    }
    folder.save_predictions(site.name, run, tree)


def _everywhere(
    work: Callable[..., None],
    jobs: list[tuple[Site, tuple[Any, ...]]],
    workers: int,
    tell: Observer,
    about: dict[str, Any],
) -> None:
    """One job a site, in this process or in workers, told as they end."""
    if workers == 1:
        for site, arguments in jobs:
            tell({**about, "site": _alone(work, site.name, arguments)})
        return
    with parallel_config("loky", n_jobs=min(workers, len(jobs)), inner_max_num_threads=1):
        pool = Parallel(return_as="generator_unordered", batch_size=1)
        for name in pool(delayed(_alone)(work, site.name, arguments) for site, arguments in jobs):
            tell({**about, "site": name})


def _alone(work: Callable[..., None], name: str, arguments: tuple[Any, ...]) -> str:
    """Run one site's step on one thread, so that the numbers never depend on how many workers there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work(*arguments)
    except PeerwiseError as error:
        raise type(error)(f"site {name!r}: {error}") from error
    finally:
        torch.set_num_threads(threads)
    return name


def _teller(folder: RunFolder, on_event: Observer | None) -> Observer:
    def tell(event: dict[str, Any]) -> None:
        folder.log(event)
        if on_event:
            on_event(event)

    return tell


def _told(run: str, round: int) -> str:
    return f"told/{run}/round-{round}"
