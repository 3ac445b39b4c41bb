"""A table before it is drawn: the terminal, the page and every file format show the same cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Mark = Literal["", "best", "worst"]


@dataclass(frozen=True)
class Column:
    """``name`` as people read it, with line ends where a narrow terminal may break it; ``key`` as programs do.
    ``parts``: the keys of what a cell holds in one, as an interval holds its two ends; its value is then a tuple."""

    name: str
    key: str
    unit: str = ""
    parts: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name in one line."""
        return self.name.replace("-\n", "").replace("/\n", "/").replace("\n", " ")


@dataclass(frozen=True)
class Cell:
    """``text`` as it is shown, ``value`` as it is (None where nothing is known), ``mark`` the best and worst."""

    text: str
    value: Any = None
    mark: Mark = ""


@dataclass(frozen=True)
class Sheet:
    """``key`` names it in files; ``about`` says what it shows. The first column names the rows."""

    key: str
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
