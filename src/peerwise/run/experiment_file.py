"""Experiments in TOML files, with grids; and single dotted keys, as ``--set`` gives them."""

from __future__ import annotations

import copy
import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from peerwise.errors import ConfigError, choices
from peerwise.methods import method_names
from peerwise.methods.registry import base_name, is_path
from peerwise.run.experiment import Experiment, experiment_from


def read_experiments(path: str | Path, *, fast: bool = False) -> dict[str, Experiment]:
    """The experiments of a TOML file: one, or one for each point of its ``[grid]``, all checked; name -> experiment.

    A grid key is dotted, its value a list: ``"partition_settings.alpha" = [0.1, 1.0]``. The file's own sizes are the
    full ones; with ``fast`` those of its table ``[fast]``, whose keys are dotted too, take their place.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"{path} is not there: expected an experiment file, e.g. experiments/heart.toml.")
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from error
    try:
        has_small, small, grid = "fast" in settings, settings.pop("fast", {}), settings.pop("grid", {})
        if not fast and not has_small:
            return _points(path.stem, settings, grid)
        smaller = _points(path.stem, _shrunk(settings, small), grid)  # its mistakes are told, asked for or not
        return smaller if fast else _points(path.stem, settings, grid)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def set_key(settings: dict[str, Any], key: str, value: Any) -> None:
    """``set_key(settings, "peerwise.k", 7)``: a method's parameter, or any dotted experiment key."""
    path = _key_path(key)
    inner = settings
    for part in path[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{key}: {part!r} is {inner!r}, which has no keys of its own.")
    inner[path[-1]] = value


def _key_path(key: str) -> list[str]:
    known = {each.name for each in fields(Experiment)}
    first, *rest = key.split(".", 1)
    if first in known and first != "method":
        return [first, *rest]
    module, colon, after = key.removeprefix("method.").partition(":")  # a module's name may have dots
    name, *setting = after.split(".", 1) if colon else module.split(".", 1)
    name = f"{module}:{name}" if colon else name
    if setting and (first == "method" or is_path(name) or base_name(name) in method_names()):
        return ["method", name, *setting]
    if first == "method":
        return [first, *rest]
    raise ConfigError(choices(first, {*known, *method_names()}, "method or experiment key"))


def _shrunk(settings: dict[str, Any], small: Any) -> dict[str, Any]:
    if not isinstance(small, dict) or not small:
        raise ConfigError(f"fast is {small!r}: expected a table of smaller sizes, e.g. [fast] with rows = 2000.")
    smaller = copy.deepcopy(settings)
    for key, value in small.items():
        if isinstance(value, dict):
            inner = ", ".join(f'"{key}.{name}" = {given!r}' for name, given in value.items())
            raise ConfigError(f"fast.{key} is a table, which would replace all of {key}: write {inner}.")
        set_key(smaller, key, value)
    return smaller


def _points(stem: str, settings: Mapping[str, Any], grid: Any) -> dict[str, Experiment]:
    if not isinstance(grid, dict):
        raise ConfigError(f"grid is {grid!r}: expected a table of lists.")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"grid.{key} is {values!r}: expected a list with at least one value.")
    found: dict[str, Experiment] = {}
    for point in itertools.product(*grid.values()):
        fresh = copy.deepcopy(dict(settings))
        for key, value in zip(grid, point, strict=True):
            set_key(fresh, key, value)
        name = "-".join([stem, *(_named(key, value) for key, value in zip(grid, point, strict=True))])
        if name in found:
            raise ConfigError(f"grid holds the point {name!r} twice: expected each once.")
        found[name] = experiment_from(fresh)
    return found


def _named(key: str, value: Any) -> str:
    """``alpha0.1``: fit for the name of a folder."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.,+-]+", "_", f"{key.rsplit('.', 1)[-1]}{text}")
