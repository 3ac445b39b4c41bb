"""Rows of a table, as objects by name or as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.task.cells import number_of, place_of
from peerwise.data.task.problems import listed
from peerwise.data.task.task import Task, TaskFeature
from peerwise.data.task.values import LARGEST
from peerwise.errors import DataError
from peerwise.serve.desk import About
from peerwise.serve.refusal import Fault, Faults, Refusal, short
from peerwise.serve.settings import MOST_VALUES

MOST_OTHERS = 1000  # columns that the task does not have
NAN = float("nan")
Table = NDArray[np.float32]


@dataclass(frozen=True)
class Columns:
    """The features of a bundle; those of a learner that was saved without names are called x0, x1, ..."""

    features: tuple[TaskFeature, ...]
    target: str

    @classmethod
    def of(cls, about: About) -> Columns:
        features = about.features or tuple(TaskFeature(f"x{place}") for place in range(about.inputs["x"][0]))
        return cls(features, about.target)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {feature.name: place for place, feature in enumerate(self.features)}

    @cached_property
    def _codes(self) -> list[dict[str, float]]:
        return [{value: float(code) for code, value in enumerate(feature.values)} for feature in self.features]

    @cached_property
    def _task(self) -> Task:
        """To read a table by; of one without labels, classes are of no account."""
        target = self.target if self.target and self.target not in self._places else "\N{WHITE SQUARE}"
        return Task("rows", "table", ("0", "1"), target, self.features, positive="1")

    # ---- objects -----------------------------------------------------------------------------------------------------

    def from_objects(self, rows: list[dict[str, Any]], names: list[str]) -> tuple[Table, list[str]]:
        """A name that is absent, and null, are missing values."""
        faults = Faults()
        table = []
        for name, row in zip(names, rows, strict=True):
            cells = [NAN] * len(self.features)
            for key, value in row.items():
                place = self._places.get(key)
                if place is None:
                    self._unknown(faults, name, key, value)
                else:
                    cells[place] = self._number(faults, f"{name}.{key}", place, value)
            if not faults and all(cell != cell for cell in cells):
                faults.add(name, short(row), f"at least one value among {listed(self._places)}")
            table.append(cells)
        faults.check()
        X = np.array(table, np.float32)
        return X, self._outside(X)

    def _unknown(self, faults: Faults, name: str, key: str, value: Any) -> None:
        near = get_close_matches(key[:200], self._places, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        field = f"{name}.{short(key)}"
        expected = f"a name among {listed(self._places)}"
        faults.append(Fault(field, short(value), f"{field} is not known: expected {expected}.{hint}", expected))
        if len(faults) > 1:  # the first says what is expected; a wrong table would fill pages
            faults.check(at_least=True)

    def _number(self, faults: Faults, field: str, place: int, value: Any) -> float:
        """The value as the models have it: a number, the code of a category, NaN for a missing one."""
        if value is None:
            return NAN
        feature, found = self.features[place], None
        if feature.type == "category":
            if not isinstance(value, list | dict):
                text = str(value).lower() if isinstance(value, bool) else str(value).strip()
                found = place_of(text, self._codes[place], {})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = float(value) if abs(value) <= LARGEST else None
        elif isinstance(value, str):
            found = number_of(value.strip())
        if found is None:
            faults.add(field, value, _expected(feature), _nearest(feature, value))
            return NAN
        return found

    def _outside(self, X: Table) -> list[str]:
        notes = []
        for feature, column in zip(self.features, X.T, strict=True):
            low = -np.inf if feature.low is None else np.float32(feature.low)
            high = np.inf if feature.high is None else np.float32(feature.high)
            if outside := int(((column < low) | (column > high)).sum()):
                known = int((~np.isnan(column)).sum())
                which = f"{column[~np.isnan(column)][0]:g}" if known == 1 else f"{outside} of {known} values"
                notes.append(
                    f"{feature.name} has {which} outside {_range(feature)}: is it in another unit? Units are not "
                    f"converted."
                )
        return notes

    # ---- CSV ---------------------------------------------------------------------------------------------------------

    def from_csv(self, body: bytes, most_rows: int) -> tuple[Table, list[str]]:
        """A header line and rows; values that are not known become missing ones, with a note."""
        from peerwise.data.loaders.table import text_cells
        from peerwise.data.task import inputs_of

        cells = body.count(b",") + max(body.count(b"\n"), body.count(b"\r")) + 1
        if cells > MOST_VALUES:
            raise Refusal(413, f"the table has about {cells:,} cells: expected at most {MOST_VALUES:,} in one request.")
        try:
            text = body.decode("utf-8-sig")
            self._check_header(next(csv.reader(io.StringIO(text, newline=""), strict=True), []))
            frame = text_cells(io.StringIO(text, newline=""))
        except (ValueError, csv.Error) as error:  # of text that is not UTF-8, too
            raise Refusal(422, f"the body is no CSV table ({error}): expected a header line, then rows.") from None
        if len(frame) > most_rows:
            raise Refusal(
                413, f"{len(frame):,} rows: expected at most {most_rows:,} in one request. Send them in several."
            )
        try:
            found = inputs_of(self._task, frame, "the table")
        except DataError as error:
            raise Refusal(422, str(error)) from None
        return np.asarray(found.X), list(found.notes)

    def _check_header(self, header: list[str]) -> None:
        if len(header) > len(self.features) + MOST_OTHERS:
            raise Refusal(
                422,
                f"the first line has {len(header):,} cells: expected the {len(self.features):,} columns of the task, "
                f"and at most {MOST_OTHERS:,} others.",
            )
        there = Counter(header)
        if len(there) < len(header):
            twice = next(name for name, count in there.items() if count > 1)
            raise Refusal(422, f"column {short(twice)!r} is there twice: expected each column once.")
        if lacking := [name for name in self._places if name not in there]:
            found = f"found {listed(header)}" if header else "found no line"
            raise Refusal(
                422,
                f"the table lacks {listed(lacking)}: expected a column for each feature, whose cells may be empty; "
                f"{found}.",
                faults=[
                    Fault(name, None, f"column {name!r} is not there", "a column of this name") for name in lacking[:20]
                ],
            )


def _range(feature: TaskFeature) -> str:
    low = "" if feature.low is None else f"{feature.low:g}"
    high = "" if feature.high is None else f"{feature.high:g}"
    ends = f"{low} to {high}" if low and high else f"from {low}" if low else f"up to {high}"
    return f"{ends} {feature.unit}".strip()


def _expected(feature: TaskFeature) -> str:
    if feature.type == "category":
        return f"one of {listed(feature.values)}"
    return "a number" if not feature.unit else f"a number in {feature.unit}"


def _nearest(feature: TaskFeature, value: Any) -> str:
    if feature.type != "category" or not isinstance(value, str):
        return ""
    by_lower = {name.lower(): name for name in feature.values}
    near = get_close_matches(value[:200].lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
