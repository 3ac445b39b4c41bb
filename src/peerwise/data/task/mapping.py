"""How a site's own table is to be read: its names for the task's columns, its codes for the task's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from peerwise.data.task.task import Task
from peerwise.data.task.values import MISSING
from peerwise.errors import ConfigError, choices


@dataclass(frozen=True)
class ColumnMap:
    """``columns``: the local name of a task's column, where it is another. ``codes``: by the task's column what a local
    value stands for, such as ``{"sex": {"M": "male", "1": "male", "9": ""}}``; an empty text is a missing value."""

    columns: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def local(self, column: str) -> str:
        return self.columns.get(column, column)

    def check(self, task: Task) -> None:
        """Refuse names and values that the task does not have: a slip of the pen would otherwise do nothing."""
        known = [task.target, *(feature.name for feature in task.features)]
        for column, local in self.columns.items():
            if task.kind != "table":
                raise ConfigError(
                    f"columns has {column!r}: expected none for kind {task.kind!r}, whose arrays are fixed."
                )
            if column not in known:
                raise ConfigError(f"columns: {choices(column, known, 'column of the task')}")
            if not isinstance(local, str) or not local:
                raise ConfigError(f"columns, {column!r} is {local!r}: expected the name of a column of your table.")
        self._check_doubles(known)
        numbers = {feature.name for feature in task.features if feature.type == "number"}
        meant = {feature.name: feature.values for feature in task.features} | {task.target: task.classes}
        for column, codes in self.codes.items():
            if column not in known:
                raise ConfigError(f"codes: {choices(column, known, 'column of the task')}")
            if not isinstance(codes, Mapping):
                raise ConfigError(f"codes, {column!r} is {codes!r}: expected local values with what they stand for.")
            for local, value in codes.items():
                where = f"codes, {column!r}, {local!r}"
                if not isinstance(value, str):
                    raise ConfigError(f"{where} is {value!r}: expected a text in quotes; '' is a missing value.")
                if column not in numbers and value not in MISSING and value not in meant[column]:
                    raise ConfigError(f"{where}: {choices(value, meant[column], 'value')}")

    def _check_doubles(self, known: list[str]) -> None:
        taken: dict[str, str] = {}
        for column in known:
            local = self.local(column)
            if local in taken:
                raise ConfigError(
                    f"columns gives {local!r} for both {taken[local]!r} and {column!r}: expected a column for each."
                )
            taken[local] = column
