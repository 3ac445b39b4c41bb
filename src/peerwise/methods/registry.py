"""Methods by name, by class and as objects, with their parameters checked before any work.

A method is a `Method` class, or a `TrustLearner` class, which `OneShot` makes a method of. Its parameters are those of
the constructor, where ``**budget`` stands for the keys of a `Budget`. A name may have a tag, ``name:tag``, so that one
run can hold a method twice with different settings. An object stands for its class and its arguments: it is made again
for every run, as scikit-learn clones an estimator.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, get_type_hints

import numpy as np

from peerwise.errors import ConfigError, PeerwiseError, reason
from peerwise.federation.method import Method, parameters_of
from peerwise.methods.one_shot import OneShot
from peerwise.methods.settings import check_settings, hints_of
from peerwise.registry import find_registered, is_import_path, is_registered, path_of, registered_name, registered_names
from peerwise.trust import TrustLearner

METHOD_KINDS = ("methods", "learners")
GIVEN_BY_THE_RUN = {"pool", "own", "device"}
# Base training belongs to the pool, not to a method, so that all methods of a run meet the same models.
OF_THE_POOL = ("folds", "epochs")
TAG = re.compile(r"[A-Za-z0-9_-]{1,40}")  # part of a file's name
HASH = re.compile(r"~([0-9a-f]{6})$")  # at the end of an object's name
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

MethodClass = type[Method] | type[TrustLearner]


@dataclass(frozen=True)
class MadeMethod:
    """A method that was given as an object: its class, and the arguments that make it again."""

    kind: MethodClass
    settings: dict[str, Any]


def method_names() -> tuple[str, ...]:
    """Registered methods and learners."""
    return tuple(registered_names(*METHOD_KINDS))


def base_name(name: str) -> str:
    """Without its tag and its hash.

    >>> base_name("fedavg:slow"), base_name("fedavg~12ab34"), base_name("my_module:Mine:slow")
    ('fedavg', 'fedavg', 'my_module:Mine')
    """
    return _parts(name)[0]


def tag_of(name: str) -> str:
    return _parts(name)[1]


def _parts(name: str) -> tuple[str, str]:
    parts = HASH.sub("", name).split(":")
    of_name = 2 if len(parts) > 1 and not is_registered(parts[0], *METHOD_KINDS) else 1
    base, tag = ":".join(parts[:of_name]), ":".join(parts[of_name:])
    if len(parts) > of_name and not TAG.fullmatch(tag):
        raise ConfigError(
            f"method {name!r} has the tag {tag!r}: expected letters, digits, dashes and underscores, at most 40, "
            f"e.g. '{base}:dp'."
        )
    return base, tag


def is_path(name: str) -> bool:
    """Whether it is not registered but says where its class is; that of an object may be within a function."""
    return is_import_path(base_name(name).replace(".<locals>", ""))


def short_name(name: str) -> str:
    """What it is called in tables, without tag and hash.

    >>> short_name("fedavg:slow"), short_name("my_module:SharedMeans")
    ('fedavg', 'shared_means')
    """
    base = base_name(name)
    if ":" not in base:
        return base
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", re.split(r"[:.]", base)[-1])
    return words.lower()


def label_base(label: str) -> str:
    """What a method is called in tables, without its tag and its hash.

    >>> label_base("fedavg:slow"), label_base("shared_means~12ab34")
    ('fedavg', 'shared_means')
    """
    return HASH.sub("", label).partition(":")[0]


def method_class(name: str) -> MethodClass:
    """The class of this name; that of a ``module:Name`` is imported."""
    found: Any = find_registered(base_name(name), *METHOD_KINDS)
    if not (isinstance(found, type) and issubclass(found, Method | TrustLearner)):
        raise ConfigError(
            f"method {name!r} is {found!r}: expected a class, of peerwise.Method or peerwise.TrustLearner."
        )
    return found


def made_method(given: Method | TrustLearner) -> tuple[str, dict[str, Any], MadeMethod]:
    """The name that stands for an object in an experiment, its settings as plain data, and what makes it again."""
    if type(given) is OneShot:
        given = given.learner
    kind = type(given)
    defaults = method_parameters(kind)
    settings = given.get_params(deep=False) if isinstance(given, TrustLearner) else _arguments(given)
    settings = {key: value for key, value in settings.items() if key in defaults}
    plain = {key: described(value) for key, value in settings.items()}
    plain = {key: value for key, value in plain.items() if value != described(defaults[key])}
    name = registered_name(kind, *METHOD_KINDS) or path_of(kind)
    name += f"~{short_hash(plain)}" if plain else ""
    return name, plain, MadeMethod(kind, {key: settings[key] for key in plain})


def _arguments(given: Method) -> dict[str, Any]:
    fresh = type(given)(**given.arguments)
    here, there = (described({k: v for k, v in vars(each).items() if k != "arguments"}) for each in (given, fresh))
    if changed := sorted(key for key in {*here, *there} if here.get(key) != there.get(key)):
        raise ConfigError(
            f"{type(given).__name__} has another {changed[0]} than its constructor gives it: expected hyper-parameters "
            f"as arguments, since a run makes the method again. Make one with the value that you want."
        )
    return given.arguments


def method_parameters(method: str | MethodClass) -> dict[str, Any]:
    """Parameter -> default, from the constructor's signature."""
    kind = method_class(method) if isinstance(method, str) else method
    hidden = GIVEN_BY_THE_RUN | (set() if issubclass(kind, TrustLearner) else set(OF_THE_POOL))
    found = parameters_of(kind)
    own = {key: p.default for key, p in found.items() if key not in hidden and p.kind is not p.VAR_KEYWORD}
    return own | {k: v for k, v in default_budget().items() if k not in own} if has_budget(kind) else own


def has_budget(method: str | MethodClass) -> bool:
    """Whether it trains nets for as many rounds and epochs as the run says."""
    kind = method_class(method) if isinstance(method, str) else method
    return any(p.name == "budget" and p.kind is p.VAR_KEYWORD for p in parameters_of(kind).values())


def default_budget() -> dict[str, Any]:
    from peerwise.methods.by_rounds import BUDGET

    return dict(BUDGET)


def check_method(name: str, settings: Any) -> None:
    """Refuse settings that this method does not have, or of the wrong type."""
    kind = method_class(name)
    own = hints_of(kind, method_parameters(kind))
    if has_budget(kind):
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
    kind: MethodClass | None = None,
) -> Method:
    """The method with these settings; ``folds`` and ``epochs`` are those of base training, ``sites`` how many there
    are, for a method that needs the number and was not given it. ``kind``: the class, where the name stands for an
    object."""
    if kind is None:
        check_method(name, settings)
        _check_can_be_made(name, settings)
        kind = method_class(name)
    run: dict[str, Any] = {"folds": folds, "epochs": epochs} | ({} if sites is None else {"sites": sites})
    try:
        if issubclass(kind, TrustLearner):
            learner = kind(**settings)
            learner.check_settings()  # now rather than after the base models were trained
            return OneShot(learner, folds=folds, epochs=epochs)
        accepted = parameters_of(kind)
        return kind(**{**{key: value for key, value in run.items() if key in accepted}, **settings})
    except PeerwiseError:
        raise
    except Exception as error:
        raise ConfigError(
            f"method {name!r}: {kind.__name__} cannot be made ({reason(error)}). Correct that class, or its settings."
        ) from error


def _check_can_be_made(name: str, settings: Mapping[str, Any]) -> None:
    if "<locals>" in name or any(isinstance(value, dict) and "object" in value for value in settings.values()):
        raise ConfigError(
            f"method {name!r} was given as an object: expected that object again, simulate(methods=["
            f"{base_name(name).rpartition(':')[2].rpartition('.')[2]}(...)])."
        )


def _budget_hints() -> dict[str, Any]:
    from peerwise.methods.by_rounds import Budget

    return get_type_hints(Budget)


def _check_lowest(settings: Mapping[str, Any], where: str) -> None:
    for key in ("rounds", "local_epochs", "batch_size"):
        if settings.get(key, 1) < 1:
            raise ConfigError(f"{where}.{key} is {settings[key]}: expected at least 1.")
    if not settings.get("lr", 1) > 0:
        raise ConfigError(f"{where}.lr is {settings['lr']}: expected a learning rate above 0.")


def short_hash(value: Any) -> str:
    """Six digits that stand for a plain value."""
    return _sha256(value)[:6]


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def described(value: Any, within: tuple[int, ...] = ()) -> Any:
    """Plain data that stand for a parameter's value, the same in every process. ``within``: the ids of the objects that
    hold it, so that one that holds itself is described once.

    >>> described((1, Path("rows"), np.float64(0.5), Path))
    [1, 'rows', 0.5, {'object': 'pathlib:Path'}]
    """
    if isinstance(value, np.generic):  # first: np.float64 is a float, and np.str_ a str
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, type):
        return {"object": path_of(value)}
    if isinstance(value, ModuleType):
        return {"object": value.__name__}
    if id(value) in within:
        return {"object": path_of(type(value)), "value": "itself"}
    inner = partial(described, within=(*within, id(value)))
    if isinstance(value, Mapping):
        return {str(key): inner(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(inner, value))
    if hasattr(value, "detach"):  # of torch
        value = value.detach().cpu().numpy()
    if hasattr(value, "__array__"):  # a data frame too
        array = np.asarray(value)
        held = [array.dtype.str, array.shape, repr(array.tolist()) if array.dtype.hasobject else array.tobytes().hex()]
        return {"object": path_of(type(value)), "sha256": _sha256(held)}
    if isinstance(value, np.random.Generator):
        return {"object": path_of(type(value)), "state": inner(value.bit_generator.state)}
    if isinstance(value, set | frozenset):  # whose order changes from process to process
        return {"object": path_of(value), "value": sorted(map(repr, value))}
    if isinstance(value, CodeType):
        return [value.co_code.hex(), inner(value.co_consts), inner(value.co_names)]
    if isinstance(value, FunctionType):
        cells = [None if _is_empty(cell) else cell.cell_contents for cell in value.__closure__ or ()]
        decides = inner([value.__code__, value.__defaults__, value.__kwdefaults__, cells])
        return {"object": path_of(value), "sha256": _sha256(decides)}
    if isinstance(value, MethodType | partial):  # whose attributes do not say what they call
        return {"object": path_of(type(value)), "parts": inner(value.__reduce__()[1:])}
    if hasattr(value, "get_params"):
        return {"object": path_of(type(value)), **inner(value.get_params(deep=False))}
    shown = vars(value) if hasattr(value, "__dict__") else {"value": _ADDRESS.sub("", repr(value))}
    return {"object": path_of(type(value)), **inner(shown)}


def _is_empty(cell: CellType) -> bool:
    """Whether what a function refers to has no value yet."""
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


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
