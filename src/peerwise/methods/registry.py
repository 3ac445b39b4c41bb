"""Methods by name, found by entry point, so that a new one is one new file in anybody's package.

An entry of the group ``peerwise.methods`` is a `Method` class, or a `TrustLearner` class, which `OneShot` makes a
method of. Parameters are those of the constructor, where ``**budget`` stands for the keys of a `Budget`. A method may
be called ``name:tag``, so that one run can hold it twice with different settings.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

from peerwise.errors import ConfigError, choices
from peerwise.methods.base import Method
from peerwise.methods.one_shot import OneShot
from peerwise.methods.settings import check_settings, hints_of
from peerwise.trust import TrustLearner

GROUP = "peerwise.methods"
GIVEN_BY_THE_RUN = {"pool", "own", "device"}
# Base training belongs to the pool, not to a method, so that all methods of a run meet the same models.
OF_THE_POOL = ("folds", "epochs")
TAG = re.compile(r"[A-Za-z0-9_-]{1,40}")  # part of a file's name


@cache
def entries() -> dict[str, EntryPoint]:
    """By name; read once, as it takes a look at every installed package."""
    return {entry.name: entry for entry in reversed(tuple(entry_points(group=GROUP)))}


def method_names() -> tuple[str, ...]:
    return tuple(sorted(entries()))


def base_name(name: str) -> str:
    """
    >>> base_name("fedavg:slow"), base_name("fedavg")
    ('fedavg', 'fedavg')
    """
    base, colon, tag = name.partition(":")
    if colon and not TAG.fullmatch(tag):
        raise ConfigError(
            f"method {name!r} has the tag {tag!r}: expected letters, digits, dashes and underscores, at most 40, "
            f"e.g. '{base}:dp'."
        )
    return base


def method_class(name: str, *, by_rounds: bool = False) -> type[Method] | type[TrustLearner]:
    """The class of this name; ``by_rounds``: the one that stands for it in a run of methods with rounds."""
    entry = entries().get(base_name(name))
    if entry is None:
        raise ConfigError(choices(base_name(name), method_names(), "method"))
    loaded: type[Method] | type[TrustLearner] = entry.load()
    other = loaded.by_rounds() if by_rounds and issubclass(loaded, Method) else None
    return other or loaded


def is_by_rounds(name: str) -> bool:
    """Whether it trains nets, a little in every round, so that all others of its run must have the same budget."""
    kind = method_class(name)
    # Whoever is one has loaded that module, which waits for torch; nobody else has to.
    module = sys.modules.get("peerwise.methods.by_rounds")
    return module is not None and issubclass(kind, module.ByRounds)


def method_parameters(name: str, *, by_rounds: bool = False) -> dict[str, Any]:
    """Parameter -> default, from the constructor's signature."""
    kind = method_class(name, by_rounds=by_rounds)
    hidden = GIVEN_BY_THE_RUN | (set() if issubclass(kind, TrustLearner) else set(OF_THE_POOL))
    found = inspect.signature(kind).parameters
    own = {key: p.default for key, p in found.items() if key not in hidden and p.kind is not p.VAR_KEYWORD}
    return own | {k: v for k, v in default_budget().items() if k not in own} if _takes_budget(kind) else own


def has_budget(name: str, *, by_rounds: bool = False) -> bool:
    return _takes_budget(method_class(name, by_rounds=by_rounds))


def default_budget() -> dict[str, Any]:
    from peerwise.methods.by_rounds import BUDGET

    return dict(BUDGET)


def check_method(name: str, settings: Any, *, by_rounds: bool = False) -> None:
    """Refuse settings that this method does not have, or of the wrong type."""
    kind = method_class(name, by_rounds=by_rounds)
    own = hints_of(kind, method_parameters(name, by_rounds=by_rounds))
    if _takes_budget(kind):
        hints = _budget_hints()
        check_settings(settings, own | {key: hint for key, hint in hints.items() if own[key] is Any}, f"method.{name}")
        _check_lowest(settings, f"method.{name}")
    else:
        check_settings(settings, own, f"method.{name}")


def check_budget(settings: Any, where: str) -> None:
    check_settings(settings, _budget_hints(), where)
    _check_lowest(settings, where)


def make_method(
    name: str,
    settings: Mapping[str, Any],
    *,
    folds: int,
    epochs: int | None,
    sites: int | None = None,
    by_rounds: bool = False,
) -> Method:
    """The method with these settings; ``folds`` and ``epochs`` are those of base training, ``sites`` how many there
    are, for a method that has to know and was not told."""
    check_method(name, settings, by_rounds=by_rounds)
    kind = method_class(name, by_rounds=by_rounds)
    if issubclass(kind, TrustLearner):
        learner = kind(**settings)
        learner.check_settings()  # now rather than after the base models were trained
        return OneShot(learner, folds=folds, epochs=epochs)
    run: dict[str, Any] = {"folds": folds, "epochs": epochs} | ({} if sites is None else {"sites": sites})
    accepted = inspect.signature(kind).parameters
    method: Method = kind(**{**{key: value for key, value in run.items() if key in accepted}, **settings})
    return method


def _takes_budget(kind: type) -> bool:
    return any(p.name == "budget" and p.kind is p.VAR_KEYWORD for p in inspect.signature(kind).parameters.values())


def _budget_hints() -> dict[str, Any]:
    from peerwise.methods.by_rounds import Budget

    return get_type_hints(Budget)


def _check_lowest(settings: Mapping[str, Any], where: str) -> None:
    for key in ("rounds", "local_epochs", "batch_size"):
        if settings.get(key, 1) < 1:
            raise ConfigError(f"{where}.{key} is {settings[key]}: expected at least 1.")
    if not settings.get("lr", 1) > 0:
        raise ConfigError(f"{where}.lr is {settings['lr']}: expected a learning rate above 0.")


def describe(name: str) -> str:
    return first_sentence(inspect.getdoc(method_class(name)) or "")


def first_sentence(text: str) -> str:
    """
    >>> first_sentence("As `PeerwiseClassifier`, with ``k``\\nneighbours. More.")
    'As PeerwiseClassifier, with k neighbours.'
    >>> first_sentence("Averages (Qu et al., 2022; Li et al., 2020). More.")
    'Averages (Qu et al., 2022; Li et al., 2020).'
    """
    paragraph = " ".join(text.split("\n\n")[0].split()).replace("`", "")
    for end in re.finditer(r"[.;:](?= [A-Z]|$)|;", paragraph):
        before = paragraph[: end.start()]
        if before.count("(") == before.count(")"):
            return f"{before}."
    return paragraph
