"""Settings checked against type hints, before any work: names, types and choices."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from peerwise.errors import ConfigError, choices

WORDS = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", types.NoneType: "nothing"}


def check_settings(settings: Any, hints: Mapping[str, Any], where: str) -> None:
    """Refuse what is no table, a key that is not there and a value of the wrong type, with the key and the choices."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{where} is {settings!r}: expected a table of parameters.")
    for key, value in settings.items():
        if key not in hints:
            known = choices(key, hints, "parameter") if hints else f"unknown parameter {key!r}: there are none."
            raise ConfigError(f"{where}: {known}")
        if not _is_plain(value):
            raise ConfigError(
                f"{where}.{key} is {value!r}: expected {_words(hints[key])}, as settings are kept as text. A method or "
                f"a trust learner that you make yourself takes such an object: give the method to run_method."
            )
        check_value(value, hints[key], f"{where}.{key}")


def check_value(value: Any, hint: Any, key: str) -> None:
    if not _fits(value, hint):
        raise ConfigError(f"{key} is {value!r}: expected {_words(hint)}.")


def hints_of(function: Callable[..., Any], names: Iterable[str]) -> dict[str, Any]:
    """The type hints of these parameters; `Any` where there is none or it cannot be read, as of a `partial`."""
    try:
        hints = get_type_hints(function.__init__ if isinstance(function, type) else function)  # type: ignore[misc]
    except (NameError, TypeError):
        hints = {}
    return {name: hints.get(name, Any) for name in names}


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(each) for each in (*value, *value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


def _fits(value: Any, hint: Any) -> bool:
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if kind in (tuple, list, Sequence):
        return isinstance(value, list | tuple) and all(_fits(each, inner[0]) for each in value)
    if kind is dict:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return not (isinstance(hint, type) and hint in WORDS) or isinstance(value, hint)


def _is_object(hint: Any) -> bool:
    """Whether no setting can be one, such as a scikit-learn estimator."""
    return isinstance(hint, type) and get_origin(hint) is None and hint is not Any and hint not in WORDS


def _words(hint: Any) -> str:
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        return " or ".join(_words(each) for each in inner if not _is_object(each))
    if hint is Any:
        return "text, a number, a list or a table"
    if kind is Literal:
        return " or ".join(repr(each) for each in inner)
    if kind in (tuple, list, Sequence):
        return f"a list of {_words(inner[0])}"
    if kind is dict:
        return "a table" if inner[1] is Any else f"a table of {_words(inner[1])}"
    return WORDS.get(hint, str(hint))
