"""What `simulate` was given as objects, by the names that stand for them in its `Experiment`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peerwise.data import Partition
from peerwise.errors import ConfigError
from peerwise.methods import Method
from peerwise.methods.registry import MadeMethod, made_method
from peerwise.models import Recipe
from peerwise.models.own_recipe import made_recipe
from peerwise.registry import path_of, registered_name
from peerwise.trust import TrustLearner


@dataclass(frozen=True)
class Objects:
    methods: Mapping[str, MadeMethod] = field(default_factory=dict)
    models: Mapping[str, Recipe] = field(default_factory=dict)
    partition: Partition | None = None


NO_OBJECTS = Objects()


def named(settings: Mapping[str, Any]) -> tuple[dict[str, Any], Objects]:
    """The keys of an experiment with names in place of objects, and the objects by these names."""
    plain = dict(settings)
    methods: dict[str, MadeMethod] = {}
    models: dict[str, Recipe] = {}
    if not isinstance(given := settings.get("methods"), str | None):
        plain["methods"], of_methods = [], dict(settings.get("method") or {})
        for each in given if isinstance(given, list | tuple) else [given]:
            if isinstance(each, type) and issubclass(each, Method | TrustLearner):
                raise ConfigError(f"methods holds the class {each.__name__}: expected an object, {each.__name__}(...).")
            if isinstance(each, Method | TrustLearner):
                name, chosen, made = made_method(each)
                if name in (settings.get("method") or {}):
                    raise ConfigError(
                        f"method.{name} has settings, but methods holds an object of that name: give them to the "
                        f"object, {made.kind.__name__}(...)."
                    )
                methods[name] = made
                of_methods |= {name: chosen} if chosen else {}
                each = name
            elif not isinstance(each, str):
                raise ConfigError(f"methods holds {each!r}: expected names, methods or trust learners.")
            plain["methods"].append(each)
        plain |= {"method": of_methods} if of_methods else {}
    if not isinstance(given := settings.get("models"), str | None):
        plain["models"] = []
        for each in given if isinstance(given, list | tuple) else [given]:
            if isinstance(each, Recipe) or callable(each):
                name, recipe = made_recipe(each)
                models[name] = recipe
                each = name
            elif not isinstance(each, str):
                raise ConfigError(
                    f"models holds {each!r}: expected names, recipes or functions that return a classifier."
                )
            plain["models"].append(each)
    partition = settings.get("partition")
    if not callable(partition):
        return plain, Objects(methods, models)
    plain["partition"] = registered_name(partition, "partitions") or path_of(partition)
    return plain, Objects(methods, models, partition)
