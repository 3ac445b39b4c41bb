"""The body of a request as rows that the models take, held against the bundle; what cannot be used is told by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peerwise.data import Inputs
from peerwise.errors import ParcelError
from peerwise.parcels.strict import strict_json
from peerwise.serve.arrays import picture_file, pictures, sequences
from peerwise.serve.cells import Columns
from peerwise.serve.desk import About
from peerwise.serve.refusal import Faults, Refusal, short
from peerwise.serve.settings import LEVELS, MOST_VALUES, Settings

JSON, CSV = "application/json", "text/csv"
PICTURES = ("image/png", "image/jpeg")
TAKES = {"table": (JSON, CSV), "image": (JSON, *PICTURES), "sequence": (JSON,)}  # by kind of rows
OPTIONS = ("level", "frugal")
DEEPEST = 8  # brackets; a colour image has six
EXAMPLE = 'expected {"row": {...}} or {"rows": [{...}, ...]}'
FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows with all that was wanted of them, and what was odd."""

    X: Inputs
    level: float
    frugal: bool
    notes: tuple[str, ...]


class Reader:
    """Bodies for one bundle."""

    def __init__(self, about: About, settings: Settings) -> None:
        self._about, self._settings = about, settings
        self.columns = Columns.of(about) if about.kind == "table" else None

    def read(self, kind: str, body: bytes, query: Mapping[str, str], *, one: bool = False) -> Asked:
        """``kind`` is the content type, ``one`` whether more than a row is too many."""
        takes = TAKES[self._about.kind]
        if kind not in takes:
            raise Refusal(
                415, f"the content type is {kind[:80]!r}: expected {' or '.join(takes)} for {self._about.kind} rows."
            )
        if kind == JSON:
            return self._json(body, query, one)
        level, frugal = self._options({name: _value(name, text) for name, text in _known(query, OPTIONS).items()})
        if self.columns is not None:
            return self._asked(*self.columns.from_csv(body, 1 if one else self._settings.rows), level, frugal)
        return self._asked(*picture_file(body, self._about.inputs["x"]), level, frugal)

    def _json(self, body: bytes, query: Mapping[str, str], one: bool) -> Asked:
        _known(query, ())
        try:
            found = strict_json(
                body,
                most_bytes=self._settings.body_bytes,
                most_depth=DEEPEST,
                most_values=MOST_VALUES,
                what="the body",
            )
        except ParcelError as error:  # without its remedy, which is for files that peers have sent
            raise Refusal(422, f"{str(error).partition('. ')[0]}; {EXAMPLE}.") from None
        if not isinstance(found, dict):
            raise Refusal(422, f"the body is {_a(found)}: {EXAMPLE}.")
        _known(found, ("row", "rows", *OPTIONS))
        level, frugal = self._options(found)
        rows, names = self._rows(found, one)
        if self.columns is not None:
            return self._asked(*self.columns.from_objects(rows, names), level, frugal)
        if self._about.kind == "image":
            return self._asked(*pictures(rows, names, self._about.inputs["x"]), level, frugal)
        return self._asked(*sequences(rows, names, self._about.inputs), level, frugal)

    def _rows(self, found: dict[str, Any], one: bool) -> tuple[list[dict[str, Any]], list[str]]:
        """The rows, and what each is called."""
        if ("row" in found) == ("rows" in found):
            raise Refusal(422, f"the body has {'both row and rows' if 'row' in found else 'no row'}: {EXAMPLE}.")
        rows = [found["row"]] if "row" in found else found["rows"]
        faults = Faults()
        if not isinstance(rows, list) or not rows:
            faults.add("rows", rows, "a list with at least one row")
            faults.check()
        _few_enough(len(rows), 1 if one else self._settings.rows)
        names = ["row"] if "row" in found else [f"rows[{place}]" for place in range(len(rows))]
        for name, row in zip(names, rows, strict=True):
            if not isinstance(row, dict):
                faults.add(name, row, "an object")
        faults.check()
        return rows, names

    def _options(self, found: Mapping[str, Any]) -> tuple[float, bool]:
        faults = Faults()
        level, frugal = found.get("level", self._settings.level), found.get("frugal", False)
        low, high = LEVELS
        if isinstance(level, bool) or not isinstance(level, int | float) or not low <= level <= high:
            faults.add("level", level, f"a number from {low:g} to {high:g}")
        if not isinstance(frugal, bool):
            faults.add("frugal", frugal, "true or false")
        faults.check()
        return float(level), frugal

    def _asked(self, X: Inputs, notes: list[str], level: float, frugal: bool) -> Asked:
        if frugal and not self._about.frugal:
            notes = [*notes, "this bundle cannot be asked frugally: all models were asked."]
        return Asked(X, level, frugal and self._about.frugal, tuple(notes))


def _known(found: Mapping[str, Any], known: tuple[str, ...]) -> Mapping[str, Any]:
    """Refuse what nobody would read: a slip of the pen would otherwise do nothing."""
    faults = Faults()
    for name in found:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "level and frugal in the body, with the rows"
            faults.add(str(short(name)), found[name], expected)
    faults.check()
    return found


def _value(name: str, text: str) -> Any:
    if name == "frugal":
        return FLAGS.get(text.lower(), text)
    try:
        return float(text)
    except ValueError:
        return text


def _few_enough(rows: int, most: int) -> None:
    if rows > most:
        raise Refusal(413, f"{rows:,} rows: expected at most {most:,} in one request. Send them in several.")


def _a(value: Any) -> str:
    kinds = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
