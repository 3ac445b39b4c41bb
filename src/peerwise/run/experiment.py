"""An experiment: what is to be simulated, checked in full before any work begins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
import tomli_w

from peerwise.data import Dataset, default_partition, load, partition_function, partition_parameters
from peerwise.data.split import FRACTIONS, check_fractions
from peerwise.errors import ConfigError, choices
from peerwise.methods import check_settings, check_value, hints_of, method_names, method_parameters
from peerwise.methods.registry import (
    HASH,
    METHOD_KINDS,
    base_name,
    check_budget,
    check_method,
    default_budget,
    described,
    has_budget,
    is_path,
    short_hash,
    short_name,
    tag_of,
)
from peerwise.models import ZOO, own_recipe
from peerwise.models.own_recipe import check_names
from peerwise.registry import is_import_path, is_registered, registered_names, unknown
from peerwise.run.objects import NO_OBJECTS, Objects

DEFAULT_MODELS = {
    "table": ("logistic", "forest", "boosting"),
    "image": ("small_cnn", "lenet"),
    "sequence": ("tcn", "cnn1d", "lstm"),
}
LOWEST = {"seeds": 1, "folds": 2, "sites": 1, "public": 0, "rows": 2, "epochs": 1, "flipped": 0, "tune": 0}
REFERENCES = ("local", "local_rounds")  # that other methods are held to, and so keep their names
# What decides neither the sites nor their models.
OF_THE_METHODS = ("methods", "method", "defaults", "seeds", "device", "subgroup", "training", "tune", "join", "absent")


@dataclass(frozen=True)
class Experiment:
    """One simulated federation and the methods to compare on it.

    ``dataset``: a known name, ``module:function``, or a path (table, split file, folder of images) with ``options`` for
    its loader; empty for a `Dataset` or a function at hand.
    ``partition`` None: the data set's own sites where it has them, else Dirichlet. ``assign``: every site trains all
    ``models``, or one each in turn ("cycle", the default for images). ``rows``: a random subset of the data set.
    ``public`` unlabelled rows are set aside for all sites, their classes skewed by Dirichlet(``public_alpha``).
    ``flipped``: at so many sites, the first, every label is turned to the next class.
    ``fractions`` of a site's rows are train, validation and test. ``test`` "common": one test set for all sites, at
    none of them (the data set's official one where there is one).
    ``class_balance`` "balanced": classes count alike, however rare, in the training of methods with rounds, in the
    choice of their best round and in the answers of ``peerwise``.
    ``folds`` and ``epochs`` are those of base training, the same for every method. ``method``: settings by method; one
    called ``name:tag`` is that method once more, with settings of its own.
    ``methods``, ``models`` and ``partition`` may also be ``module:Name``. What `simulate` was given as an object stands
    here by a name, which has a hash of its settings where they are not the defaults. ``defaults``: the parameters of
    methods that are not registered, written down by `simulate`, so that a folder can be read without their code.
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
    class_balance: Literal["none", "balanced"] = "none"
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
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict)

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
        own = {name: own_recipe(name).content for name in self.models if name not in ZOO and not HASH.search(name)}
        parts |= {"own": own} if own else {}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def misses_rounds(self) -> bool:
        """Whether some sites are away, or silent, in some rounds."""
        return self.join < 1 or any(self.absent.values())

    def settings(self, method: str) -> dict[str, Any]:
        return self.method.get(method, {})

    def parameters(self, method: str) -> dict[str, Any]:
        """Of a method, and their defaults; none of one that is not registered before `simulate` has found them."""
        base = base_name(method)
        if is_registered(base, *METHOD_KINDS):
            return method_parameters(base)
        return self.defaults.get(base, {})

    def budget(self, method: str) -> dict[str, Any] | None:
        """What a site may spend with this method: its own settings, then ``training``, then the defaults; None for a
        method without rounds."""
        base = base_name(method)
        known = self.parameters(method)
        if is_registered(base, *METHOD_KINDS):
            if not has_budget(base):
                return None
        elif not known or not set(default_budget()) <= set(known):
            return None
        chosen = {**known, **self.training, **self.settings(method)}
        return {key: chosen[key] for key in default_budget()}

    def label(self, method: str) -> str:
        """What the method is called in tables: its name, with its tag, or with a short hash where its settings are not
        the defaults. What others are held to keeps its name."""
        settings, tag, name = self.settings(method), tag_of(method), short_name(method)
        if tag:
            return f"{name}:{tag}"
        return name if not settings or name in REFERENCES else f"{name}~{short_hash(settings)}"

    def filled(self, dataset: Dataset, objects: Objects = NO_OBJECTS) -> Experiment:
        """With the defaults that depend on the kind of data and on code, and all that is named by it checked."""
        kind = dataset.kind
        models = self.models or DEFAULT_MODELS[kind]
        for name in models:
            if (taken := (objects.models.get(name) or own_recipe(name)).kind) != kind:
                fitting = sorted(other for other, recipe in ZOO.items() if recipe.kind == kind)
                raise ConfigError(
                    f"models: {name!r} takes {taken} rows, data set {dataset.name!r} has {kind} rows. "
                    f"Choices: {', '.join(fitting)}."
                )
        partition = self.partition or default_partition(dataset)
        _check_partition_settings(partition, objects.partition or partition, self.partition_settings)
        assign = self.assign or ("cycle" if kind == "image" else "all")
        filled = replace(self, models=models, assign=assign, partition=partition, defaults=self._defaults(objects))
        _check_budgets(filled)
        return filled

    def _defaults(self, objects: Objects) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name in filter(is_path, self.methods):
            made = objects.methods.get(name)
            if made is None:
                check_method(name, self.settings(name))
            found[base_name(name)] = described(method_parameters(base_name(name) if made is None else made.kind))
        return found

    def load_data(self, data_dir: str | Path | None = None) -> Dataset:
        if not self.dataset:
            raise ConfigError("the data set was given as an object: expected it again, simulate(my_dataset).")
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
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ConfigError(f"models names {name!r} twice: expected each once.")


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
    """Without importing any that is not registered, as with models; `Experiment.filled` checks those."""
    methods = experiment.methods
    if not methods:
        raise ConfigError(f"methods is empty: expected at least one of {', '.join(method_names())}.")
    _check_known(methods, "methods", *METHOD_KINDS)
    _check_known(tuple(experiment.method), "method", *METHOD_KINDS)
    for name, settings in experiment.method.items():
        if name not in methods:
            raise ConfigError(
                f"method.{name} has settings, but methods is {', '.join(methods)}: add {name!r} to methods, "
                f"or leave its settings out."
            )
        if not is_path(name) and not HASH.search(name):
            check_method(name, settings)
    for name in filter(is_path, methods):
        _check_path(name, experiment.defaults)
    for name in methods:
        if (found := HASH.search(name)) and found[1] != short_hash(experiment.settings(name)):
            raise ConfigError(
                f"methods: {name!r} stands for an object with other settings than method.{name} has: give the object "
                f"to simulate, or name {base_name(name)!r}."
            )
    if experiment.training or experiment.tune:
        check_budget(experiment.training, "training")
    if experiment.defaults or not any(map(is_path, methods)):
        _check_budgets(experiment)


def _check_path(name: str, known: Mapping[str, Any]) -> None:
    """Refuse a misspelt name with a tag, which looks like a module and a class."""
    module = base_name(name).partition(":")[0]
    near = get_close_matches(module, method_names(), n=1)
    if near and base_name(name) not in known and "." not in module and find_spec(module) is None:
        raise ConfigError(f"methods: {choices(base_name(name), method_names(), 'method')}")


def _check_budgets(experiment: Experiment) -> None:
    if (not experiment.training and not experiment.tune) or any(map(experiment.budget, experiment.methods)):
        return
    given = "training" if experiment.training else "tune"
    raise ConfigError(
        f"{given} is {getattr(experiment, given)}, but none of {', '.join(experiment.methods)} trains in rounds: add a "
        f"method that does, e.g. fedavg, or leave it out."
    )


def _check_dataset(dataset: str) -> None:
    path = Path(dataset)
    if not dataset or is_registered(dataset, "datasets") or path.exists() or is_import_path(dataset):
        return
    if path.suffix or len(path.parts) > 1:
        raise ConfigError(f"dataset: {dataset} is not there: expected a file, a folder or a known data set.")
    known = registered_names("datasets")
    raise ConfigError(f"dataset: {choices(dataset, known, 'data set')} A path or 'module:function' works too.")


def _check_partition(experiment: Experiment) -> None:
    name, settings = experiment.partition, experiment.partition_settings
    if name is None:
        if settings:
            raise ConfigError(f"partition_settings {settings} without a partition: name one.")
        return
    _check_known((name,), "partition", "partitions")
    if ":" not in name:
        _check_partition_settings(name, name, settings)


def _check_partition_settings(name: str, partition: Any, settings: dict[str, Any]) -> None:
    hints = hints_of(partition_function(partition), partition_parameters(partition))
    try:
        check_settings(settings, hints, "partition_settings")
    except ConfigError as error:
        raise ConfigError(f"partition {name!r}: {error}") from error


def _check_known(names: tuple[str, ...], key: str, *kinds: str) -> None:
    for place, name in enumerate(names):
        base = base_name(name) if kinds == METHOD_KINDS else name
        written = base.replace(".<locals>", "").replace("<lambda>", "function")  # of an object
        if (":" not in base and not is_registered(base, *kinds)) or (":" in base and not is_import_path(written)):
            raise ConfigError(f"{key}: {unknown(base, *kinds)}")
        if name in names[:place]:
            raise ConfigError(f"{key} names {name!r} twice: expected each once.")
