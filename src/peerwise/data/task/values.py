"""Single values of a task, checked: what may stand in its text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from peerwise.errors import ConfigError, choices

LONGEST = 200  # characters of a name
MOST_VALUES = 10_000  # classes, or values of one category
LARGEST = float(np.finfo(np.float32).max)
MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>"})


def name(value: Any, what: str) -> str:
    """A text that can be read aloud, compared and written in a table."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} is {_shown(value)}: expected a text in quotes.")
    if not value or len(value) > LONGEST:
        raise ConfigError(f"{what} has {len(value)} characters: expected 1 to {LONGEST}.")
    if value != value.strip() or not value.isprintable():
        raise ConfigError(
            f"{what} is {_shown(value)}: expected no space at its ends, no line breaks and no invisible characters."
        )
    return value


def names(values: Any, what: str, least: int, most: int = MOST_VALUES) -> tuple[str, ...]:
    """Different names, none of which stands for a missing value."""
    if not isinstance(values, list | tuple):
        raise ConfigError(f"{what} is {_shown(values)}: expected a list of texts.")
    if not least <= len(values) <= most:
        raise ConfigError(f"{what} has {len(values)} entries: expected {least} to {most}.")
    known = tuple(name(value, f"{what}, entry {place}") for place, value in enumerate(values, 1))
    no_doubles(known, what)
    for value in known:
        if value in MISSING:
            raise ConfigError(
                f"{what} has {value!r}, which stands for a missing value in tables: give it another name."
            )
    return known


def no_doubles(values: Sequence[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ConfigError(f"{what} has {value!r} twice: expected each once.")
        seen.add(value)


def one_of(value: Any, known: Iterable[str], what: str, where: str = "the task") -> str:
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{where}: {choices(value, known, what)}")
    return value


def limit(value: Any, what: str) -> float | None:
    """An end of a range, or none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{what} is {_shown(value)}: expected a finite number.")
    if abs(value) > LARGEST:
        raise ConfigError(f"{what} is {value:g}: expected at most 3.4e38 on either side of 0. Choose a larger unit.")
    return float(value) + 0.0  # no negative zero, which would be another digest


def whole(value: Any, what: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigError(f"{what} is {_shown(value)}: expected a whole number from 1 to {most:,}.")
    return value


def sha256(value: Any, what: str) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise ConfigError(f"{what} is {_shown(value)}: expected 64 characters of 0-9 and a-f.")
    return value


def known_keys(found: Any, known: Sequence[str], needed: Sequence[str], what: str) -> dict[str, Any]:
    """A table with these keys and no others."""
    if not isinstance(found, dict):
        raise ConfigError(f"{what} is {_shown(found)}: expected a table with {', '.join(needed)}.")
    for key in found:
        if key not in known:
            raise ConfigError(f"{what}: {choices(key, known, 'key')}")
    lacking = [key for key in needed if key not in found]
    if lacking:
        raise ConfigError(f"{what} lacks {', '.join(lacking)}: expected {', '.join(needed)}.")
    return found


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number with more digits than Python prints
        text = "a huge number"
    return text if len(text) <= 80 else f"{text[:77]}..."
