"""The simulator: many sites on one machine, going on where it stopped."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data import Dataset, Indices, Site, derived_seed, digest, made_dataset, make_sites
from peerwise.data.site import PARTS
from peerwise.errors import STOPS_A_RUN, ConfigError, choices, reason
from peerwise.methods import check_value
from peerwise.parcels import write_atomic
from peerwise.registry import path_of
from peerwise.run.contenders import Contender, contenders
from peerwise.run.experiment import Experiment, changed, experiment_from
from peerwise.run.finished import Run, results_of
from peerwise.run.folder import RunFolder
from peerwise.run.loading import kept_provenance, save_index
from peerwise.run.objects import NO_OBJECTS, Objects, named
from peerwise.run.opened import open_one
from peerwise.run.participation import Participation
from peerwise.run.provenance import provenance
from peerwise.run.runner import MethodRun, Observer
from peerwise.run.runner import Predictions as SitePredictions
from peerwise.run.score import Predictions, curves_of
from peerwise.run.subgroups import subgroups
from peerwise.run.tuning import finish_best
from peerwise.run.workers import Workers, open_workers


def simulate(
    dataset: str | Path | Dataset | Callable[..., Dataset] | Experiment = "heart_disease",
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    data_dir: str | Path | None = None,
    on_event: Observer | None = None,
    **settings: Any,
) -> Run:
    """Simulate a federation and compare methods on it.

    ``dataset``: a known name, a path, a `Dataset` or a function of your own that returns one, or a whole `Experiment`;
    ``settings`` are the keys of `Experiment`. ``methods`` and ``models`` may hold objects beside names: methods and
    trust learners, recipes and functions that return a classifier; ``partition`` may be a function. With ``out``
    everything is kept there and running again, with the same objects, goes on where it stopped; without it only the
    results remain. ``executor``: where the workers are, None or ``"local"`` for processes of this machine,
    ``"dask:ADDRESS"``, ``"ray:ADDRESS"``, or a `concurrent.futures.Executor`. ``workers``: how many tasks run at once,
    by default one, or as many as an ``executor`` can; one seed gives the same numbers with any. A site that fails
    answers with something simpler (``fell_back_to`` and ``fell_back_why`` in the results), one at which a peer's model
    fails does without that model (``peers_left_out``); one run at a time may use a folder.

    >>> run = simulate("digits", sites=3, rows=300, models=["logistic"], methods=["local", "global_ensemble"], seeds=1)
    >>> sorted(run.results["method"].unique())
    ['global_ensemble', 'local']
    """
    check_value(workers, int | None, "workers")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers is {workers}: expected at least 1.")
    experiment, data, objects = _wanted(dataset, settings, data_dir)
    sites = federation(experiment, data, 0, objects)
    _check_absent(experiment, sites)
    methods = contenders(experiment, sites, objects)
    groups = subgroups(data, experiment.subgroup) if experiment.subgroup is not None else None
    with tempfile.TemporaryDirectory(prefix="peerwise-") if out is None else nullcontext(out) as place:
        folder = RunFolder(place)
        with open_workers(executor, workers) as team, folder.open(experiment, _identity(data)):
            tell = _teller(folder, on_event)
            tell({"event": "start", "dataset": data.name, "rows": len(data), "seeds": experiment.seeds,
                  "methods": list(methods), "workers": team.workers})  # fmt: skip
            answers = _Answers({}, {}, dict)
            for seed in range(experiment.seeds):
                here = sites if seed == 0 else federation(experiment, data, seed, objects)
                chosen = _one_seed(methods, here, seed, folder, team, tell, experiment)
                answers.take(chosen, here, seed, folder, groups)
                team.forget_all()
            results = results_of(answers.predictions)
            folder.save_results(results)
            write_atomic(folder.path / "curves.parquet", curves_of(answers.predictions).to_parquet(index=False))
            about = _about(experiment, data, folder, partial(_elsewhere, answers.open, team), tell)
            save_index(folder, experiment, about, answers.places, answers.predictions)
            tell({"event": "end", "results": str(folder.path / "results.parquet")})
    return Run(experiment, results, Path(out) if out is not None else None, answers.predictions, **about)


@dataclass
class _Answers:
    """What the sites answered, what the files of each run are called, and how to open a decision of the first seed."""

    predictions: Predictions
    places: dict[tuple[int, str, str], str]
    open: Callable[[], dict[str, Any] | None]

    def take(
        self,
        chosen: list[tuple[Contender, SitePredictions]],
        sites: list[Site],
        seed: int,
        folder: RunFolder,
        groups: Any,
    ) -> None:
        if seed == 0:
            self.open = partial(open_one, chosen, sites, folder)
        for (one, predictions), site in product(chosen, sites):
            tree = predictions[site.name]
            tree["subgroup"] = None if groups is None else groups[site.index["test"]].tolist()
            tree |= {"rounds": one.method.rounds, "lr": one.lr}
            self.predictions[seed, one.label, site.name] = tree
            self.places[seed, one.label, site.name] = one.named(seed)


def _elsewhere(open_case: Callable[[], dict[str, Any] | None], workers: Workers) -> dict[str, Any] | None:
    """In a worker, if it sees the run folder: a process that only leads need not import what a method needs."""
    if not workers.local:
        return open_case()
    [(_, found)] = workers.map(open_case, [()])
    return found  # type: ignore[no-any-return]


def _about(
    experiment: Experiment,
    data: Dataset,
    folder: RunFolder,
    opener: Callable[[], dict[str, Any] | None],
    tell: Observer,
) -> dict[str, Any]:
    """What a report says besides the numbers; that a case cannot be opened costs no results."""
    try:
        opened = opener()
    except STOPS_A_RUN:
        raise
    except Exception as error:
        tell({"event": "warning", "run": "opened", "why": f"no decision can be opened: {reason(error)}"})
        opened = None
    return {
        "classes": data.classes,
        "features": tuple(feature.name for feature in data.features),
        "kind": data.kind,
        "opened": opened,
        "provenance": kept_provenance(folder, provenance(experiment, data, digest(data.X, data.y), folder.path)),
    }


def federation(experiment: Experiment, data: Dataset, seed: int, objects: Objects = NO_OBJECTS) -> list[Site]:
    """The sites of one seed: rows drawn, shared out and split; ``site.index`` counts the rows of ``data``."""
    drawn = np.arange(len(data))
    if experiment.rows is not None and experiment.rows > len(data):
        raise ConfigError(f"rows is {experiment.rows}: data set {data.name!r} has only {len(data)}. Leave it out.")
    if experiment.rows is not None and experiment.rows < len(data):
        rng = np.random.default_rng(derived_seed(seed, "rows"))
        drawn = np.sort(rng.choice(len(data), experiment.rows, replace=False))
    sites = make_sites(
        data if len(drawn) == len(data) else data.take(drawn),
        objects.partition or experiment.partition,
        experiment.sites,
        seed=seed,
        recipes=experiment.models,
        assign=experiment.assign or "all",
        public=experiment.public,
        public_alpha=experiment.public_alpha,
        fractions=(experiment.fractions[0], experiment.fractions[1], experiment.fractions[2]),
        test=experiment.test,
        class_balance=experiment.class_balance,
        device=experiment.device,
        **experiment.partition_settings,
    )
    if experiment.flipped > len(sites):
        raise ConfigError(f"flipped is {experiment.flipped}: expected at most {len(sites)}, as there are sites.")
    parts = ("train", "val") if experiment.test == "common" else PARTS  # the common test rows tell the truth
    flipped = [_flipped(site, parts) for site in sites[: experiment.flipped]]
    counted = [_counted(site, drawn) for site in [*flipped, *sites[experiment.flipped :]]]
    return [site.replace(own_recipes=objects.models) for site in counted] if objects.models else counted


def _counted(site: Site, drawn: Indices) -> Site:
    """With the row numbers of the whole data set."""
    common = site.public_set
    return site.replace(
        index={part: drawn[rows] for part, rows in site.index.items()},
        public_set=None if common is None else replace(common, rows=drawn[common.rows]),
    )


def _flipped(site: Site, parts: Sequence[str]) -> Site:
    """A site that misleads the others: every label of these parts is the next class."""
    turned: dict[str, Any] = {part: getattr(site, part) for part in parts}
    return site.replace(**{part: replace(rows, y=(rows.y + 1) % len(site.classes)) for part, rows in turned.items()})


def _check_absent(experiment: Experiment, sites: list[Site]) -> None:
    names = [site.name for site in sites]
    for name in experiment.absent:
        if name not in names:
            raise ConfigError(f"absent: {choices(name, names, 'site')}")


def _wanted(
    dataset: str | Path | Dataset | Callable[..., Dataset] | Experiment,
    settings: dict[str, Any],
    data_dir: str | Path | None,
) -> tuple[Experiment, Dataset, Objects]:
    settings, objects = named(settings)
    if isinstance(dataset, Experiment):
        experiment = changed(dataset, settings)
    else:
        at_hand = not isinstance(dataset, str | Path)
        experiment = experiment_from({"dataset": "" if at_hand else dataset, **settings})
    if experiment.device != "cpu":
        _check_device(experiment.device)
    if isinstance(dataset, str | Path | Experiment):
        data = experiment.load_data(data_dir)
    else:
        data = made_dataset(dataset, path_of(dataset), data_dir, experiment.options)
    return experiment.filled(data, objects), data, objects


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device is {device!r}: expected one that is here, e.g. 'cpu'. {reason}") from error


def _identity(data: Dataset) -> str:
    """Stands for rows, labels and their names."""
    named = hashlib.sha256(repr((data.classes, data.features)).encode()).hexdigest()
    return f"{digest(data.X, data.y)} {named}"


def _one_seed(
    methods: dict[str, list[Contender]],
    sites: list[Site],
    seed: int,
    folder: RunFolder,
    workers: Workers,
    tell: Observer,
    experiment: Experiment,
) -> list[tuple[Contender, SitePredictions]]:
    """The contender of each method, with its predictions at every site."""
    folder.save_split(seed, sites)
    sites = [site.replace(keep=folder.keep(site.name)) for site in sites]
    present = Participation(experiment.join, experiment.absent, seed)
    chosen = []
    for trials in methods.values():
        runs = [MethodRun(t.named(seed), t.method, sites, folder, workers, tell, present) for t in trials]
        chosen.append(finish_best(trials, runs, seed, tell))
    return chosen


def _teller(folder: RunFolder, on_event: Observer | None) -> Observer:
    def tell(event: dict[str, Any]) -> None:
        folder.log(event)
        if on_event:
            on_event(event)

    return tell
