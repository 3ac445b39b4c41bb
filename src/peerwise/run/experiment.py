"""An experiment: what is to be simulated, checked in full before any work begins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
import tomli_w

from peerwise.data import DATASETS, PARTITIONS, Dataset, default_partition, load, partition_parameters
from peerwise.data.split import FRACTIONS, check_fractions
from peerwise.errors import ConfigError, choices
from peerwise.methods import check_settings, check_value, hints_of, method_names, method_parameters
from peerwise.methods.registry import base_name, check_budget, check_method, default_budget, has_budget, is_by_rounds
from peerwise.models import ZOO, own_recipe
from peerwise.models.own_recipe import check_names

DEFAULT_MODELS = {
    "table": ("logistic", "forest", "boosting"),
    "image": ("small_cnn", "lenet"),
    "sequence": ("tcn", "cnn1d", "lstm"),
}
LOWEST = {"seeds": 1, "folds": 2, "sites": 1, "public": 0, "rows": 2, "epochs": 1, "flipped": 0, "tune": 0}
REFERENCE = "local"
# What decides neither the sites nor their models.
OF_THE_METHODS = ("methods", "method", "seeds", "device", "subgroup", "training", "tune", "join", "absent")


@dataclass(frozen=True)
class Experiment:
    """One simulated federation and the methods to compare on it.

    ``dataset``: a known name, or a path (table, split file, folder of images) with ``options`` for its loader; empty
    for a `Dataset` at hand.
    ``partition`` None: the data set's own sites where it has them, else Dirichlet. ``assign``: every site trains all
    ``models``, or one each in turn ("cycle", the default for images). ``rows``: a random subset of the data set.
    ``public`` unlabelled rows are set aside for all sites, their classes skewed by Dirichlet(``public_alpha``).
    ``flipped``: at so many sites, the first, every label is turned to the next class.
    ``fractions`` of a site's rows are train, validation and test. ``test`` "common": one test set for all sites, at
    none of them (the data set's official one where there is one).
    ``folds`` and ``epochs`` are those of base training, the same for every method. ``method``: settings by method; one
    called ``name:tag`` is that method once more, with settings of its own.
    ``training``: the budget of every method with rounds (rounds, local_epochs, batch_size, optimizer, lr); a method's
    own settings go before it. ``tune``: so many learning rates are tried for each of them, on validation rows.
    ``join``: the share of the sites that take part in a round. ``absent``: rounds (from 0) that a site misses, by name.
    ``subgroup``: a column by which the test rows are told apart, as `subgroups` does it; no work depends on it.
    """

    dataset: str = "heart_disease"
    options: dict[str, Any] = field(default_factory=dict)
    rows: int | None = None
    partition: str | None = None
    partition_settings: dict[str, Any] = field(default_factory=dict)
    sites: int | None = None
    public: int = 0
    public_alpha: float | None = None
    flipped: int = 0
    fractions: list[float] = field(default_factory=lambda: list(FRACTIONS))
    test: Literal["site", "common"] = "site"
    models: tuple[str, ...] = ()
    assign: Literal["all", "cycle"] | None = None
    folds: int = 5
    epochs: int | None = None
    methods: tuple[str, ...] = ("local", "peerwise")
    method: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: int = 3
    device: str = "cpu"
    subgroup: str | None = None
    training: dict[str, Any] = field(default_factory=dict)
    tune: int = 0
    join: float = 1.0
    absent: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, _plain(getattr(self, each.name)))
        for key in ("models", "methods"):
            object.__setattr__(self, key, _names(getattr(self, key)))
        _check(self)

    @property
    def pool_key(self) -> str:
        """Stands for everything that decides the sites and their models: a run folder serves one such key."""
        parts = {k: v for k, v in asdict(self).items() if k not in OF_THE_METHODS}
        own = {name: own_recipe(name).content for name in self.models if name not in ZOO}
        parts |= {"own": own} if own else {}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def by_rounds(self) -> bool:
        """Whether a method trains nets in rounds, so that ``local`` and ``centralised`` do, with the same budget."""
        return any(is_by_rounds(name) for name in self.methods)

    @property
    def misses_rounds(self) -> bool:
        """Whether some sites are away, or silent, in some rounds."""
        return self.join < 1 or any(self.absent.values())

    def settings(self, method: str) -> dict[str, Any]:
        return self.method.get(method, {})

    def budget(self, method: str) -> dict[str, Any] | None:
        """What a site may spend with this method: its own settings, then ``training``, then the defaults; None for a
        method without rounds."""
        if not has_budget(method, by_rounds=self.by_rounds):
            return None
        known = method_parameters(method, by_rounds=self.by_rounds)
        chosen = {**known, **self.training, **self.settings(method)}
        return {key: chosen[key] for key in default_budget()}

    def label(self, method: str) -> str:
        """The method's name, with a short hash where it has no tag and its settings are not the defaults; the one that
        all others are held to keeps its name."""
        settings = self.settings(method)
        plain = not settings or method != base_name(method) or method == REFERENCE
        return method if plain else f"{method}~{short_hash(settings)}"

    def filled(self, dataset: Dataset) -> Experiment:
        """With the defaults that depend on the kind of data."""
        kind = dataset.kind
        models = self.models or DEFAULT_MODELS[kind]
        for name in models:
            if (taken := own_recipe(name).kind) != kind:
                fitting = sorted(other for other, recipe in ZOO.items() if recipe.kind == kind)
                raise ConfigError(
                    f"models: {name!r} takes {taken} rows, data set {dataset.name!r} has {kind} rows. "
                    f"Choices: {', '.join(fitting)}."
                )
        partition = self.partition or default_partition(dataset)
        assign = self.assign or ("cycle" if kind == "image" else "all")
        return replace(self, models=models, assign=assign, partition=partition)

    def load_data(self, data_dir: str | Path | None = None) -> Dataset:
        return load(self.dataset, data_dir, **self.options)

    def to_toml(self) -> str:
        return tomli_w.dumps({k: _listed(v) for k, v in asdict(self).items() if v is not None})


def short_hash(value: Any) -> str:
    """Six digits that stand for a plain value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:6]


def experiment_from(settings: Mapping[str, Any]) -> Experiment:
    """An experiment from plain keys; an unknown one is refused with the nearest choice."""
    _check_keys(settings)
    return Experiment(**settings)


def changed(experiment: Experiment, settings: Mapping[str, Any]) -> Experiment:
    """The experiment with other values for these keys."""
    _check_keys(settings)
    return replace(experiment, **settings)


def _check_keys(settings: Mapping[str, Any]) -> None:
    known = {each.name for each in fields(Experiment)}
    for key in settings:
        if key not in known:
            raise ConfigError(choices(key, known, "experiment key"))


def _names(value: Any) -> Any:
    """``"a, b"`` and ``["a", "b"]`` are the same names; anything else is left for the check to refuse."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Numpy scalars and paths as the plain values that a TOML file can hold."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def _listed(value: Any) -> Any:
    """As TOML has it: lists, and no key without a value."""
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items() if inner is not None}
    return list(value) if isinstance(value, tuple) else value


def _check(experiment: Experiment) -> None:
    hints = get_type_hints(Experiment)
    for each in fields(experiment):
        _check_type(getattr(experiment, each.name), hints[each.name], each.name)
    for key, least in LOWEST.items():
        value = getattr(experiment, key)
        if value is not None and value < least:
            raise ConfigError(f"{key} is {value!r}: expected a whole number of at least {least}.")
    _check_dataset(experiment.dataset)
    check_fractions(tuple(experiment.fractions))
    _check_partition(experiment)
    _check_models(experiment.models)
    _check_shares(experiment)
    _check_methods(experiment)


def _check_models(names: tuple[str, ...]) -> None:
    """Without importing any: an experiment is also read by those who only look at its results."""
    try:
        check_names(names)
    except ConfigError as error:
        raise ConfigError(f"models: {error}") from error
    _check_known(names, names, "models", "model")


def _check_type(value: Any, hint: Any, key: str) -> None:
    try:
        check_value(value, hint, key)
    except ConfigError as error:
        if key != "absent":
            raise
        raise ConfigError(f"{error} For example absent.site-0=[0,1].") from error


def _check_shares(experiment: Experiment) -> None:
    alpha = experiment.public_alpha
    if alpha is not None and (alpha <= 0 or not experiment.public):
        raise ConfigError(
            f"public_alpha is {alpha!r} and public {experiment.public}: expected a number above 0, and public rows "
            f"whose classes it skews."
        )
    if not 0 < experiment.join <= 1:
        raise ConfigError(f"join is {experiment.join!r}: expected a share of the sites, above 0 and at most 1.")
    for site, rounds in experiment.absent.items():
        if any(round < 0 for round in rounds):
            raise ConfigError(f"absent.{site} is {rounds}: expected rounds, which count from 0.")


def _check_methods(experiment: Experiment) -> None:
    methods = experiment.methods
    if not methods:
        raise ConfigError(f"methods is empty: expected at least one of {', '.join(method_names())}.")
    _check_known(methods, method_names(), "methods", "method")
    _check_known(tuple(experiment.method), method_names(), "method", "method")
    for name, settings in experiment.method.items():
        if name not in methods:
            raise ConfigError(
                f"method.{name} has settings, but methods is {', '.join(methods)}: add {name!r} to methods, "
                f"or leave its settings out."
            )
        check_method(name, settings, by_rounds=experiment.by_rounds)
    if experiment.training or experiment.tune:
        check_budget(experiment.training, "training")
        if not any(has_budget(name, by_rounds=experiment.by_rounds) for name in methods):
            given = "training" if experiment.training else "tune"
            raise ConfigError(
                f"{given} is {getattr(experiment, given)}, but none of {', '.join(methods)} trains in rounds: add a "
                f"method that does, e.g. fedavg, or leave it out."
            )


def _check_dataset(dataset: str) -> None:
    path = Path(dataset)
    if not dataset or dataset in DATASETS or path.exists():
        return
    if path.suffix or len(path.parts) > 1:
        raise ConfigError(f"dataset: {dataset} is not there: expected a file, a folder or a known data set.")
    raise ConfigError(f"dataset: {choices(dataset, DATASETS, 'data set')} A path works too.")


def _check_partition(experiment: Experiment) -> None:
    name, settings = experiment.partition, experiment.partition_settings
    if name is None:
        if settings:
            raise ConfigError(f"partition_settings {settings} without a partition: name one.")
        return
    _check_known((name,), PARTITIONS, "partition", "partition")
    hints = hints_of(PARTITIONS[name], partition_parameters(name))
    try:
        check_settings(settings, hints, "partition_settings")
    except ConfigError as error:
        raise ConfigError(f"partition {name!r}: {error}") from error


def _check_known(names: tuple[str, ...], known: Any, key: str, what: str) -> None:
    for place, name in enumerate(names):
        if (base_name(name) if what == "method" else name) not in known:
            raise ConfigError(f"{key}: {choices(name, known, what)}")
        if name in names[:place]:
            raise ConfigError(f"{key} names {name!r} twice: expected each once.")
