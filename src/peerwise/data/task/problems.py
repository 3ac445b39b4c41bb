"""What is found when a site's rows are held against the task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Inputs
from peerwise.errors import DataError

SHOWN = 5  # of a kind, in one sentence


@dataclass(frozen=True)
class Problem:
    """One sentence; rows with a serious one cannot be used for training."""

    serious: bool
    text: str


@dataclass
class Looked:
    """Rows as far as they could be read, and all that is to be said about them."""

    X: Inputs | None = None
    y: NDArray[np.int64] | None = None
    group: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, text: str) -> None:
        self.problems.append(Problem(True, text))

    def note(self, text: str) -> None:
        self.problems.append(Problem(False, text))

    def check(self, where: str) -> None:
        """Raise if something serious was found, the first of it in one error."""
        serious = [problem.text for problem in self.problems if problem.serious]
        if serious:
            more = len(serious) - SHOWN
            rest = f" And {more} more, which 'peerwise doctor' lists." if more > 0 else ""
            raise DataError(f"{where} does not fit the task. {' '.join(serious[:SHOWN])}{rest}")


def unknown_values(unknown: Mapping[str, int], known: Iterable[str]) -> str:
    """The unknown texts, the commonest first, each with its rows and the nearest known one.

    >>> unknown_values({"Male": 3, "x": 1}, ["female", "male"])
    "'Male' (3 rows, like 'male'), 'x' (1 row)"
    """
    by_lower = {value.lower(): value for value in known}
    shown = []
    for text, count in sorted(unknown.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN]:
        near = get_close_matches(text.lower(), by_lower, n=1)
        like = f", like {by_lower[near[0]]!r}" if near else ""
        shown.append(f"{text[:40]!r} ({rows(count)}{like})")
    more = len(unknown) - SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def listed(names: Iterable[object]) -> str:
    """The first ten of them, in quotes."""
    every = [repr(str(name)[:40]) for name in names]
    return ", ".join(every[:10]) + (f" and {len(every) - 10} more" if len(every) > 10 else "")
