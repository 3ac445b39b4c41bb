"""The site's own rows behind a bundle, where they are at hand and still those that it was fitted to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from peerwise.data import Inputs, Sequences, Site
from peerwise.data.task import Task
from peerwise.errors import PeerwiseError


class KnownRows:
    """``read`` gives the site with its rows, read when they are first asked for; it may fail, or give other rows than
    those fitted to, which ``is_same`` tells: then nothing is known of any row."""

    def __init__(self, task: Task, read: Callable[[], Site], is_same: Callable[[Site], bool]) -> None:
        self._task, self._read, self._is_same = task, read, is_same

    @cached_property
    def _site(self) -> Site | None:
        try:
            site = self._read()
        except (PeerwiseError, OSError):
            return None
        return site if self._is_same(site) else None

    def described(self, near: dict[str, Any]) -> dict[str, Any]:
        """A nearest known case with the part of the rows that it is of, its number there, and its values by feature."""
        if self._site is None:
            return near
        train, row = len(self._site.train), near["row"]
        part, rows, place = (
            ("train", self._site.train, row) if row < train else ("validation", self._site.val, row - train)
        )
        values = as_sent(self._task, rows.X, place) if self._task.kind == "table" else None
        return near | {"part": part, "case": place + 1, "values": values}

    def cases(self) -> list[dict[str, Any]]:
        """The validation rows, each as a client would send it."""
        if self._site is None:
            return []
        rows = self._site.val
        return [
            {"case": place + 1, "label": self._site.classes[rows.y[place]], "row": as_sent(self._task, rows.X, place)}
            for place in range(len(rows))
        ]


def as_sent(task: Task, X: Inputs, row: int) -> dict[str, Any]:
    """One row as a client sends it: values by feature, pixels, or static and series."""
    if isinstance(X, Sequences):
        return {"static": _listed(X.static[row]), "series": _listed(X.series[row])}
    if task.kind == "image":
        return {"pixels": X[row].tolist()}
    found: dict[str, Any] = {}
    for feature, value in zip(task.features, X[row].tolist(), strict=True):
        if np.isnan(value):
            found[feature.name] = None
        else:
            found[feature.name] = feature.values[int(value)] if feature.type == "category" else _short(value)
    return found


def _short(value: float) -> float:
    """A float32 as people write it.

    >>> _short(float(np.float32(2.3)))
    2.3
    """
    return float(str(np.float32(value)))


def _listed(values: Any) -> Any:
    """As nested lists, None where there is no value."""
    found = values.astype(object)
    found[np.isnan(values)] = None
    return found.tolist()
