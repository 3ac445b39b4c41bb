"""The simulator: many sites on one machine, going on where it stopped."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data import Dataset, Indices, Site, derived_seed, digest, make_sites
from peerwise.data.site import PARTS
from peerwise.errors import STOPS_A_RUN, ConfigError, choices, reason
from peerwise.methods import check_value
from peerwise.parcels import write_atomic
from peerwise.run.contenders import Contender, contenders
from peerwise.run.crew import LOST, spread
from peerwise.run.experiment import Experiment, changed, experiment_from
from peerwise.run.finished import Run, results_of
from peerwise.run.folder import RunFolder
from peerwise.run.loading import kept_provenance, save_index
from peerwise.run.method_run import MethodRun
from peerwise.run.opened import open_one
from peerwise.run.participation import Participation
from peerwise.run.provenance import provenance
from peerwise.run.score import Predictions, curves_of
from peerwise.run.subgroups import subgroups
from peerwise.run.tuning import finish_best
from peerwise.run.workers import Observer


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
    the results remain. One seed gives the same numbers whatever ``workers`` is. A site that fails answers with
    something simpler (``fell_back_to`` and ``fell_back_why`` in the results), one at which a peer's model fails does
    without that model (``peers_left_out``); one run at a time may use a folder.

    >>> run = simulate("digits", sites=3, rows=300, models=["logistic"], methods=["local", "global_ensemble"], seeds=1)
    >>> sorted(run.results["method"].unique())
    ['global_ensemble', 'local']
    """
    check_value(workers, int, "workers")
    if workers < 1:
        raise ConfigError(f"workers is {workers}: expected at least 1.")
    experiment, data = _wanted(dataset, settings, data_dir)
    sites = federation(experiment, data, 0)
    _check_absent(experiment, sites)
    methods = contenders(experiment, sites)
    groups = subgroups(data, experiment.subgroup) if experiment.subgroup is not None else None
    with tempfile.TemporaryDirectory(prefix="peerwise-") if out is None else nullcontext(out) as place:
        folder = RunFolder(place)
        with folder.open(experiment, _identity(data)):
            tell = _teller(folder, on_event)
            tell({"event": "start", "dataset": data.name, "rows": len(data), "seeds": experiment.seeds,
                  "methods": list(methods), "workers": workers})  # fmt: skip
            answers = _Answers({}, {}, dict)
            for seed in range(experiment.seeds):
                here = sites if seed == 0 else federation(experiment, data, seed)
                chosen = _one_seed(methods, here, seed, folder, workers, tell, experiment)
                answers.take(chosen, here, seed, folder, groups)
            results = results_of(answers.predictions)
            folder.save_results(results)
            write_atomic(folder.path / "curves.parquet", curves_of(answers.predictions).to_parquet(index=False))
            about = _about(experiment, data, folder, partial(_elsewhere, answers.open, workers), tell)
            save_index(folder, experiment, about, answers.places, answers.predictions)
            tell({"event": "end", "results": str(folder.path / "results.parquet")})
    return Run(experiment, results, Path(out) if out is not None else None, answers.predictions, **about)


@dataclass
class _Answers:
    """What the sites answered, what the files of each run are called, and how to open a decision of the first seed."""

    predictions: Predictions
    places: dict[tuple[int, str, str], str]
    open: Callable[[], dict[str, Any] | None]

    def take(self, chosen: list[Contender], sites: list[Site], seed: int, folder: RunFolder, groups: Any) -> None:
        if seed == 0:
            self.open = partial(open_one, chosen, sites, folder)
        for one, site in product(chosen, sites):
            tree = folder.load_predictions(site.name, one.named(seed))
            tree["subgroup"] = None if groups is None else groups[site.index["test"]].tolist()
            tree |= {"rounds": one.method.rounds, "lr": one.lr}
            self.predictions[seed, one.label, site.name] = tree
            self.places[seed, one.label, site.name] = one.named(seed)


def _elsewhere(open_case: Callable[[], dict[str, Any] | None], workers: int) -> dict[str, Any] | None:
    """In a worker, if there are any: a process that only leads others imports nothing heavy, and can go on forking."""
    if workers == 1:
        return open_case()
    [(_, found)] = spread(open_case, [()], 1)
    return None if found == LOST else found


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
        public_alpha=experiment.public_alpha,
        fractions=(experiment.fractions[0], experiment.fractions[1], experiment.fractions[2]),
        test=experiment.test,
        device=experiment.device,
        **experiment.partition_settings,
    )
    if experiment.flipped > len(sites):
        raise ConfigError(f"flipped is {experiment.flipped}: expected at most {len(sites)}, as there are sites.")
    parts = ("train", "val") if experiment.test == "common" else PARTS  # the common test rows tell the truth
    flipped = [_flipped(site, parts) for site in sites[: experiment.flipped]]
    return [_counted(site, drawn) for site in [*flipped, *sites[experiment.flipped :]]]


def _counted(site: Site, drawn: Indices) -> Site:
    """With the row numbers of the whole data set."""
    common = site.public_set
    return replace(
        site,
        index={part: drawn[rows] for part, rows in site.index.items()},
        public_set=None if common is None else replace(common, rows=drawn[common.rows]),
    )


def _flipped(site: Site, parts: Sequence[str]) -> Site:
    """A site that misleads the others: every label of these parts is the next class."""
    turned: dict[str, Any] = {part: getattr(site, part) for part in parts}
    return replace(site, **{part: replace(rows, y=(rows.y + 1) % len(site.classes)) for part, rows in turned.items()})


def _check_absent(experiment: Experiment, sites: list[Site]) -> None:
    names = [site.name for site in sites]
    for name in experiment.absent:
        if name not in names:
            raise ConfigError(f"absent: {choices(name, names, 'site')}")


def _wanted(
    dataset: str | Path | Dataset | Experiment, settings: dict[str, Any], data_dir: str | Path | None
) -> tuple[Experiment, Dataset]:
    if isinstance(dataset, Experiment):
        experiment = changed(dataset, settings)
    else:
        at_hand = isinstance(dataset, Dataset)
        experiment = experiment_from({"dataset": "" if at_hand else dataset, **settings})
    if experiment.device != "cpu":
        _check_device(experiment.device)
    data = dataset if isinstance(dataset, Dataset) else experiment.load_data(data_dir)
    return experiment.filled(data), data


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
    workers: int,
    tell: Observer,
    experiment: Experiment,
) -> list[Contender]:
    """Predictions at every site; the contenders that they are of."""
    folder.save_split(seed, sites)
    sites = [replace(site, keep=folder.keep(site.name)) for site in sites]
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
