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
from peerwise.errors import ConfigError, choices
from peerwise.methods import check_settings, check_value, hints_of, method_class, method_names, method_parameters
from peerwise.models import ZOO, find_recipe

DEFAULT_MODELS = {
    "table": ("logistic", "forest", "boosting"),
    "image": ("small_cnn", "lenet"),
    "sequence": ("tcn", "cnn1d", "lstm"),
}
LOWEST = {"seeds": 1, "folds": 2, "sites": 1, "public": 0, "rows": 2, "epochs": 1}


@dataclass(frozen=True)
class Experiment:
    """One simulated federation and the methods to compare on it.

    ``dataset``: a known name, or a path (table, split file, folder of images) with ``options`` for its loader; empty
    for a `Dataset` at hand.
    ``partition`` None: the data set's own sites where it has them, else Dirichlet. ``assign``: every site trains all
    ``models``, or one each in turn ("cycle", the default for images). ``rows``: a random subset of the data set.
    ``folds`` and ``epochs`` are those of base training, the same for every method. ``method``: settings by method.
    ``subgroup``: a column by which the test rows are told apart, as `subgroups` does it; no work depends on it.
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
    subgroup: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, _plain(getattr(self, each.name)))
        for key in ("models", "methods"):
            object.__setattr__(self, key, _names(getattr(self, key)))
        _check(self)

    @property
    def pool_key(self) -> str:
        """Stands for everything that decides the sites and their models: a run folder serves one such key."""
        other = ("methods", "method", "seeds", "device", "subgroup")
        parts = {k: v for k, v in asdict(self).items() if k not in other}
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
        partition = self.partition or default_partition(dataset)
        assign = self.assign or ("cycle" if kind == "image" else "all")
        return replace(self, models=models, assign=assign, partition=partition)

    def load_data(self, data_dir: str | Path | None = None) -> Dataset:
        return load(self.dataset, data_dir, **self.options)

    def to_toml(self) -> str:
        return tomli_w.dumps({k: _listed(v) for k, v in asdict(self).items() if v is not None})


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
        check_value(getattr(experiment, each.name), hints[each.name], each.name)
    for key, least in LOWEST.items():
        value = getattr(experiment, key)
        if value is not None and value < least:
            raise ConfigError(f"{key} is {value!r}: expected a whole number of at least {least}.")
    _check_dataset(experiment.dataset)
    _check_partition(experiment)
    _check_known(experiment.models, ZOO, "models", "model")
    if not experiment.methods:
        raise ConfigError(f"methods is empty: expected at least one of {', '.join(method_names())}.")
    _check_known(experiment.methods, method_names(), "methods", "method")
    _check_known(tuple(experiment.method), method_names(), "method", "method")
    for name, settings in experiment.method.items():
        if name not in experiment.methods:
            raise ConfigError(
                f"method.{name} has settings, but methods is {', '.join(experiment.methods)}: add {name!r} to methods, "
                f"or leave its settings out."
            )
        check_settings(settings, hints_of(method_class(name), method_parameters(name)), f"method.{name}")


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
        if name not in known:
            raise ConfigError(f"{key}: {choices(name, known, what)}")
        if name in names[:place]:
            raise ConfigError(f"{key} names {name!r} twice: expected each once.")
