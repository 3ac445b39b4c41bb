"""What the service does not do, told so that a client can mend it: one sentence, and the fields at fault."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

LONGEST = 80  # characters of a value that is shown back
MOST_FAULTS = 20  # of one request; more are not looked for


@dataclass(frozen=True)
class Fault:
    """A field and what is wrong with it; ``value`` as it came, cut short."""

    field: str
    value: Any
    message: str
    expected: str


class Refusal(Exception):
    """An answer other than the one asked for."""

    def __init__(
        self, status: int, message: str, *, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.faults, self.headers = tuple(faults), dict(headers or {})

    @property
    def content(self) -> dict[str, Any]:
        error: dict[str, Any] = {"status": self.status, "message": self.message}
        if self.faults:
            error["fields"] = [asdict(fault) for fault in self.faults]
        return {"error": error}


def later(status: int, message: str, seconds: int = 1) -> Refusal:
    """For what may be asked again soon."""
    return Refusal(status, message, headers={"Retry-After": str(seconds)})


class Faults(list[Fault]):
    """What is wrong with one request, the first few of it."""

    def add(self, field: str, value: Any, expected: str, hint: str = "") -> None:
        shown = short(value)
        self.append(Fault(field, shown, f"{field} is {_said(shown)}: expected {expected}.{hint}", expected))
        if len(self) >= MOST_FAULTS:
            self.check(at_least=True)

    def check(self, *, at_least: bool = False) -> None:
        """Refuse if there is anything."""
        if self:
            others = len(self) - 1
            rest = f" And {'at least ' if at_least else ''}{others} more." if others else ""
            raise Refusal(422, f"{self[0].message}{rest}", faults=self)


def short(value: Any) -> Any:
    """A value as it came, or as much of it as need be said."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."
    return "a list" if isinstance(value, list) else "an object"


def _said(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
