"""The lines of the table."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Row:
    """``trials``, in how many of them the fault ``struck``, and what was found broken."""

    what: str
    trials: int = 0
    struck: int = 0
    problems: list[str] = field(default_factory=list)
    note: str = ""
