"""An experiment: what is to be simulated, checked in full before any work begins."""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import tomli_w

from peerwise.data import DATASETS, PARTITIONS, Dataset, load, partition_parameters
from peerwise.errors import ConfigError, choices
from peerwise.methods import method_names, method_parameters
from peerwise.models import ZOO, find_recipe

DEFAULT_MODELS = {
    "table": ("logistic", "forest", "boosting"),
    "image": ("small_cnn", "lenet"),
    "sequence": ("tcn", "cnn1d", "lstm"),
}


@dataclass(frozen=True)
class Experiment:
    """One simulated federation and the methods to compare on it.

    ``dataset``: a known name, or a path (table, split file, folder of images) with ``options`` for its loader; empty
    for a `Dataset` at hand.
    ``partition`` None: the data set's own sites where it has them, else Dirichlet. ``assign``: every site trains all
    ``models``, or one each in turn ("cycle", the default for images). ``rows``: a random subset of the data set.
    ``folds`` and ``epochs`` are those of base training, the same for every method. ``method``: settings by method.
    """

    dataset: str = "heart_disease"
    options: dict[str, Any] = field(default_factory=dict)
    rows: int | None = None
    partition: str | None = None
    partition_settings: dict[str, Any] = field(default_factory=dict)
    sites: int | None = None
    public: int = 0
    models: tuple[str, ...] = ()
    assign: Literal["all", "cycle"] | None = None
    folds: int = 5
    epochs: int | None = None
    methods: tuple[str, ...] = ("local", "feddes")
    method: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: int = 3
    device: str = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", _names(self.models))
        object.__setattr__(self, "methods", _names(self.methods))
        _check(self)

    @property
    def pool_key(self) -> str:
        """Stands for everything that decides the sites and their models: a run folder serves one such key."""
        parts = {k: v for k, v in asdict(self).items() if k not in ("methods", "method", "seeds", "device")}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def settings(self, method: str) -> dict[str, Any]:
        return self.method.get(method, {})

    def label(self, method: str) -> str:
        """The method's name, with a short hash where its settings are not the defaults."""
        settings = self.settings(method)
        if not settings:
            return method
        return f"{method}~{hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]}"

    def filled(self, dataset: Dataset) -> Experiment:
        """With the defaults that depend on the kind of data."""
        kind = dataset.kind
        models = self.models or DEFAULT_MODELS[kind]
        for name in models:
            if find_recipe(name).kind != kind:
                fitting = sorted(other for other, recipe in ZOO.items() if recipe.kind == kind)
                raise ConfigError(
                    f"models: {name!r} takes {ZOO[name].kind} rows, data set {dataset.name!r} has {kind} rows. "
                    f"Choices: {', '.join(fitting)}."
                )
        partition = self.partition or ("natural" if dataset.site is not None else "dirichlet")
        assign = self.assign or ("cycle" if kind == "image" else "all")
        return replace(self, models=models, assign=assign, partition=partition)

    def load_data(self, data_dir: str | Path | None = None) -> Dataset:
        return load(self.dataset, data_dir, **self.options)

    def to_toml(self) -> str:
        return tomli_w.dumps({k: _plain(v) for k, v in asdict(self).items() if v is not None})


def experiment_from(settings: Mapping[str, Any]) -> Experiment:
    """An experiment from plain keys; an unknown one is refused with the nearest choice."""
    known = {f.name for f in fields(Experiment)}
    for key in settings:
        if key not in known:
            raise ConfigError(choices(key, known, "experiment key"))
    return Experiment(**settings)


def read_experiments(path: str | Path) -> dict[str, Experiment]:
    """The experiments of a TOML file: one, or one for each point of its ``[grid]``, all checked; name -> experiment.

    A grid key is dotted, its value a list: ``"partition_settings.alpha" = [0.1, 1.0]``.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"{path} is not there: expected an experiment file, e.g. experiments/heart.toml.")
    try:
        settings = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from error
    grid = settings.pop("grid", {})
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{path}: grid.{key} is {values!r}: expected a list with at least one value.")
    try:
        points = [_with(settings, dict(zip(grid, point, strict=True))) for point in itertools.product(*grid.values())]
        names = ["-".join([path.stem, *(f"{k.split('.')[-1]}{v}" for k, v in zip(grid, p, strict=True))])
                 for p in itertools.product(*grid.values())]  # fmt: skip
        return {name: experiment_from(point) for name, point in zip(names, points, strict=True)}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def set_key(settings: dict[str, Any], key: str, value: Any) -> None:
    """``set_key(settings, "feddes.k", 7)``: a method's parameter, or any dotted experiment key."""
    head, _, rest = key.partition(".")
    if rest and head in method_names():
        head, rest = "method", key
    if not rest:
        settings[head] = value
        return
    inner = settings.setdefault(head, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{key!r}: {head!r} has no keys of its own.")
    first, _, last = rest.partition(".")
    if last:
        inner.setdefault(first, {})[last] = value
    else:
        inner[first] = value


def _with(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    fresh: dict[str, Any] = json.loads(json.dumps(settings))
    for key, value in changes.items():
        set_key(fresh, key, value)
    return fresh


def _names(value: Any) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else tuple(value)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _check(experiment: Experiment) -> None:
    path = Path(experiment.dataset)
    if experiment.dataset and experiment.dataset not in DATASETS and not path.exists():
        raise ConfigError(f"dataset: {choices(experiment.dataset, DATASETS, 'data set')} A path works too.")
    if experiment.partition is not None:
        if experiment.partition not in PARTITIONS:
            raise ConfigError(f"partition: {choices(experiment.partition, PARTITIONS, 'partition')}")
        known = partition_parameters(experiment.partition)
        for key in experiment.partition_settings:
            if key not in known:
                raise ConfigError(f"partition {experiment.partition!r}: {choices(key, known, 'parameter')}")
    elif experiment.partition_settings:
        raise ConfigError(f"partition_settings {experiment.partition_settings} without a partition: name one.")
    for name in experiment.models:
        if name not in ZOO:
            raise ConfigError(f"models: {choices(name, ZOO, 'model')}")
    if not experiment.methods:
        raise ConfigError(f"methods is empty: expected at least one of {', '.join(method_names())}.")
    for name in {*experiment.methods, *experiment.method}:
        if name not in method_names():
            raise ConfigError(f"methods: {choices(name, method_names(), 'method')}")
    for name, settings in experiment.method.items():
        parameters = method_parameters(name)
        for key in settings:
            if key not in parameters:
                raise ConfigError(f"method.{name}: {choices(key, parameters, 'parameter')}")
    _check_numbers(experiment)


def _check_numbers(experiment: Experiment) -> None:
    lowest = {"seeds": 1, "folds": 2, "sites": 1, "public": 0, "rows": 2, "epochs": 1}
    for key, least in lowest.items():
        value = getattr(experiment, key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ConfigError(f"{key} is {value!r}: expected a whole number of at least {least}.")
    if experiment.assign not in (None, "all", "cycle"):
        raise ConfigError(f"assign is {experiment.assign!r}: expected 'all' or 'cycle'.")
