"""Models of a site's own: a function, given as it is or named ``module:function`` or by an entry point, that returns a
classifier.

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
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data.site import Site
from peerwise.errors import ConfigError, PeerwiseError, reason
from peerwise.models.recipe import Fitted, Recipe
from peerwise.models.zoo import ZOO
from peerwise.registry import (
    find_registered,
    is_import_path,
    is_registered,
    offered,
    path_of,
    source_digest,
    unknown,
)

LONGEST = 100
_NAMED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_HASH = re.compile(r"~[0-9a-f]{6}$")  # at the end of an object's name
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
EXPECTED = "expected a function without arguments, or with 'seed', that returns an unfitted classifier or a Recipe"


def plain_name(name: str) -> str:
    """What a model is called in pools, parcels and cards; an unknown name is refused. Nothing is imported.

    >>> plain_name("my_models:make_svm"), plain_name("forest")
    ('my_models.make_svm', 'forest')
    """
    if name in ZOO:
        return name
    if ":" not in name and is_registered(name, "models"):
        return name
    if ":" not in name:
        raise ConfigError(unknown(name, "models"))
    name = _HASH.sub("", name)
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
    if _HASH.search(name):
        raise ConfigError(f"model {name!r} was given as an object: expected that object again, simulate(models=[...]).")
    return _recipe_of(_function(name), name, plain)


def recipe_at(site: Site, name: str) -> Recipe:
    """The recipe of one of a site's models."""
    found: Recipe | None = site.own_recipes.get(name)
    return found or own_recipe(name)


def made_recipe(given: Any) -> tuple[str, Recipe]:
    """A `Recipe`, or a function as `own_recipe` knows it, that was given as an object; with the name that stands for it
    in an experiment, which changes with its code and parameters."""
    if isinstance(given, Recipe):
        fit = getattr(given.fit, "func", given.fit)
        path = f"{path_of(fit).partition(':')[0]}:{given.name}"
        content = given.content or _content(given.fit, given)
    else:
        if not callable(given) or isinstance(given, type) or not hasattr(given, "__name__"):
            raise ConfigError(f"model {given!r}: {EXPECTED}.")
        if given.__name__ == "<lambda>":
            raise ConfigError("models holds a lambda: expected a function with a name. Give it a name with def.")
        path, content = f"{given.__module__}:{given.__name__}", ""
    plain = plain_name(path)
    recipe = replace(given, name=plain, content=content) if content else _recipe_of(given, path, plain)
    return f"{path}~{recipe.content[:6]}", recipe


def _recipe_of(make: Callable[..., Any], name: str, plain: str) -> Recipe:
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
    offer = None if ":" in name else offered("models").get(name)
    where = name if offer is None else offer.entry.value
    if is_import_path(where):
        parts = where.partition(":")[0].split(".")
        for end in range(1, len(parts) + 1):
            if (part := ".".join(parts[:end])) not in sys.modules:
                _refuse_writable(part, name)
    found = find_registered(name, "models")
    if not callable(found):
        raise ConfigError(f"model {name!r}: there is a {type(found).__name__} of that name: {EXPECTED}.")
    checked: Callable[..., Any] = found
    return checked


def _refuse_writable(module: str, name: str) -> None:
    """Code that others can change would run with this site's rows and keys at hand."""
    try:
        spec = find_spec(module)
    except ImportError:  # which the import says better
        return
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
    parts: list[Any] = [source_digest(make)]
    if isinstance(made, Recipe):
        fit: Any = made.fit
        parts += [source_digest(getattr(fit, "func", fit)), made.kind, made.by_epochs]
    else:
        parameters = made.get_params(deep=True)
        kinds: list[Any] = [type(each) for each in (made, *parameters.values()) if hasattr(each, "get_params")]
        parts += [[kind.__module__, kind.__qualname__, source_digest(kind)] for kind in kinds]
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            parts.append([[key, _ADDRESS.sub("", repr(value))] for key, value in sorted(parameters.items())])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
