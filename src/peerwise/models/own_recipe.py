"""Models of a site's own: a function, named ``module:function`` or by an entry point, that returns a classifier.

These are names from a site's own settings, and asking for one runs its code. A name that somebody else has sent is
looked up with `find_recipe`, which knows the zoo alone and imports nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.errors import ConfigError, PeerwiseError, choices, reason
from peerwise.models.recipe import Fitted, Recipe
from peerwise.models.zoo import ZOO

GROUP = "peerwise.models"
LONGEST = 100
_NAMED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_OFFERED = re.compile(r"\w[\w.-]*", re.ASCII)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
EXPECTED = "expected a function without arguments, or with 'seed', that returns an unfitted classifier or a Recipe"


@cache
def offered() -> dict[str, EntryPoint | None]:
    """What installed packages offer, by name; None for a name that two of them offer. Nothing is imported."""
    found: dict[str, EntryPoint | None] = {}
    for entry in entry_points(group=GROUP):
        if _OFFERED.fullmatch(entry.name) and entry.name not in ZOO:
            other = found.get(entry.name, entry)
            found[entry.name] = entry if other is not None and other.value == entry.value else None
    return found


def plain_name(name: str) -> str:
    """What a model is called in pools, parcels and cards; an unknown name is refused. Nothing is imported.

    >>> plain_name("my_models:make_svm"), plain_name("forest")
    ('my_models.make_svm', 'forest')
    """
    if name in ZOO:
        return name
    if ":" not in name and name in offered():
        return name
    if ":" not in name:
        raise ConfigError(f"{choices(name, [*ZOO, *offered()], 'model')} A model of your own is 'module:function'.")
    if not _NAMED.fullmatch(name) or len(name) > LONGEST:
        raise ConfigError(
            f"model {name[: 2 * LONGEST]!r} is no name of a function: expected 'module:function' in at most {LONGEST} "
            f"letters, digits, dots and underscores, e.g. 'my_models:make_svm'."
        )
    return name.replace(":", ".")


def check_names(names: Sequence[str]) -> None:
    """Refuse unknown models, and two that others could not tell apart. Nothing is imported."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(plain_name(name), name)
        if other != name:
            raise ConfigError(f"models {other!r} and {name!r} would both be called {plain_name(name)!r}: rename one.")


def own_recipe(name: str) -> Recipe:
    """The recipe of a name in this site's own settings: of the zoo, or made of what the site's function returns."""
    plain = plain_name(name)
    if name in ZOO:
        return ZOO[name]
    make = _function(name)
    made = _made(make, name, seed=0)
    about = (inspect.getdoc(make) or type(made).__name__).splitlines()[0]
    if isinstance(made, Recipe):
        return replace(made, name=plain, content=_content(make, made))
    _check_estimator(made, name)
    fit = partial(_fit, partial(_made, make, name), plain)
    return Recipe(plain, "table", about, fit, content=_content(make, made))


def _fit(make: Callable[[int], Any], name: str, *rows: Any, **settings: Any) -> Fitted:
    from peerwise.models.estimator_fit import fit_estimator  # and torch with it, when the first model is trained

    return fit_estimator(make, name, *rows, **settings)


def _function(name: str) -> Callable[..., Any]:
    where = name
    if ":" not in name:
        entry = offered()[name]
        if entry is None:
            raise ConfigError(f"model {name!r} is offered by two packages: remove one, or name 'module:function'.")
        where = entry.value
        plain_name(where)
    module, _, function = where.partition(":")
    try:
        found = getattr(_module(module, name), function, None)
    except PeerwiseError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"model {name!r}: {reason(error)}: expected a module that Python finds. Install its package, or name its "
            f"folder in PYTHONPATH."
        ) from error
    except Exception as error:
        raise ConfigError(
            f"model {name!r}: importing {module!r} failed ({reason(error)}). Correct that file."
        ) from error
    if not callable(found):
        what = "no such name" if found is None else f"a {type(found).__name__} of that name"
        raise ConfigError(f"model {name!r}: {module!r} has {what} as {function!r}: {EXPECTED}.")
    checked: Callable[..., Any] = found
    return checked


def _module(module: str, name: str) -> Any:
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        part = ".".join(parts[:end])
        if part not in sys.modules:
            _refuse_writable(part, name)
    return import_module(module)


def _refuse_writable(module: str, name: str) -> None:
    """Code that others can change would run with this site's rows and keys at hand."""
    spec = find_spec(module)
    if spec is None or os.name == "nt":
        return
    inside = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = [Path(spec.origin)] if spec.origin and spec.has_location else []
    for path in (*files, *(file.parent for file in files), *inside, *(folder.parent for folder in inside)):
        found = path.stat() if path.exists() else None
        # A group of the user's own has the user's number.
        if found and (found.st_mode & 0o002 or (found.st_mode & 0o020 and found.st_gid != found.st_uid)):
            raise ConfigError(
                f"model {name!r}: others may write to {path}: expected code that only this site can change. Take that "
                f"right from them (chmod go-w), or move the module."
            )


def _made(make: Callable[..., Any], name: str, seed: int) -> Any:
    try:
        takes = inspect.signature(make).parameters
        more = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        needed = [each.name for each in takes.values() if each.default is each.empty and each.kind not in more]
        if set(needed) - {"seed"}:
            raise ConfigError(f"model {name!r} takes {', '.join(needed)}: {EXPECTED}.")
        return make(seed=seed) if "seed" in takes else make()
    except PeerwiseError:
        raise
    except Exception as error:
        raise ConfigError(f"model {name!r} failed before any training ({reason(error)}): {EXPECTED}.") from error


def _check_estimator(made: Any, name: str) -> None:
    if isinstance(made, type) or not all(hasattr(made, each) for each in ("fit", "get_params", "set_params")):
        what = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
        raise ConfigError(f"model {name!r} returns {what}: {EXPECTED}, which scikit-learn could clone.")
    if not hasattr(made, "predict_proba"):
        raise ConfigError(
            f"model {name!r} returns a {type(made).__name__} without predict_proba: expected probabilities. Calibrate "
            f"it, e.g. CalibratedClassifierCV({type(made).__name__}(...), ensemble=False)."
        )


def _content(make: Callable[..., Any], made: Any) -> str:
    """Changes with the code and the parameters: models that were kept are used for the same recipe only."""
    parts: list[Any] = [_source(make)]
    if isinstance(made, Recipe):
        fit: Any = made.fit
        parts += [_source(getattr(fit, "func", fit)), made.kind, made.by_epochs]
    else:
        parameters = made.get_params(deep=True)
        kinds: list[Any] = [type(each) for each in (made, *parameters.values()) if hasattr(each, "get_params")]
        parts += [[kind.__module__, kind.__qualname__, _source(kind)] for kind in kinds]
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            parts.append([[key, _ADDRESS.sub("", repr(value))] for key, value in sorted(parameters.items())])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@lru_cache(maxsize=256)
def _source(thing: Any) -> str:
    """A digest of the file that it comes from, as it was when it was first asked for: later changes are not loaded."""
    for each in (inspect.getmodule(thing), thing):
        try:
            return hashlib.sha256(inspect.getsource(each).encode()).hexdigest()  # type: ignore[arg-type]
        except (OSError, TypeError):
            continue
    return ""
