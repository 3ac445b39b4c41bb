"""Methods by name, found by entry point, so that a new one is one new file in anybody's package.

An entry of the group ``peerwise.methods`` is a `Method` class, or a `TrustLearner` class, which `OneShot` makes a
method of. Parameters are those of the constructor.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from peerwise.errors import ConfigError, choices
from peerwise.methods.base import Method
from peerwise.methods.one_shot import OneShot
from peerwise.methods.settings import check_settings, hints_of
from peerwise.trust import TrustLearner

GROUP = "peerwise.methods"
GIVEN_BY_THE_RUN = {"pool", "own", "device"}
# Base training belongs to the pool, not to a method, so that all methods of a run meet the same models.
OF_THE_POOL = ("folds", "epochs")


@cache
def method_names() -> tuple[str, ...]:
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def method_class(name: str) -> type[Method] | type[TrustLearner]:
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            loaded: type[Method] | type[TrustLearner] = entry.load()
            return loaded
    raise ConfigError(choices(name, method_names(), "method"))


def method_parameters(name: str) -> dict[str, Any]:
    """Parameter -> default, from the constructor's signature."""
    kind = method_class(name)
    hidden = GIVEN_BY_THE_RUN | (set() if issubclass(kind, TrustLearner) else set(OF_THE_POOL))
    found = inspect.signature(kind).parameters
    return {key: p.default for key, p in found.items() if key not in hidden}


def make_method(name: str, settings: Mapping[str, Any], *, folds: int, epochs: int | None) -> Method:
    """The method with these settings; ``folds`` and ``epochs`` are those of base training."""
    kind = method_class(name)
    check_settings(settings, hints_of(kind, method_parameters(name)), f"method.{name}")
    if issubclass(kind, TrustLearner):
        learner = kind(**settings)
        learner.check_settings()  # now rather than after the base models were trained
        return OneShot(learner, folds=folds, epochs=epochs)
    pool: dict[str, Any] = {"folds": folds, "epochs": epochs}
    accepted = inspect.signature(kind).parameters
    method: Method = kind(**settings, **{key: pool[key] for key in OF_THE_POOL if key in accepted})
    return method


def describe(name: str) -> str:
    return first_sentence(inspect.getdoc(method_class(name)) or "")


def first_sentence(text: str) -> str:
    """
    >>> first_sentence("As `FedDES`, with ``k``\\nneighbours. More.")
    'As FedDES, with k neighbours.'
    """
    paragraph = " ".join(text.split("\n\n")[0].split()).replace("`", "")
    end = re.search(r"[.;:](?= [A-Z]|$)|;", paragraph)
    return f"{paragraph[: end.start()]}." if end else paragraph
