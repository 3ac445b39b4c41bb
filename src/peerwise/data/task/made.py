"""A first draft of a task from rows that are at hand."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.rows import Sequences
from peerwise.data.task.task import PublicRows, Task, TaskFeature
from peerwise.data.task.values import LARGEST


def task_from(
    dataset: Dataset,
    *,
    name: str | None = None,
    positive: str | None = None,
    metric: str = "balanced_accuracy",
    target: str = "target",
    public: PublicRows | None = None,
) -> Task:
    """A task that these rows fit; units are left empty. ``positive`` is by default the last of two classes.

    Ranges are those of the rows, half as wide again at either end and rounded outward to one digit, so that nobody's
    exact value is published. That is a courtesy, no guarantee: better put in what is known of each quantity without
    the rows. Names of classes and categories are published as they are.
    """
    if positive is None and len(dataset.classes) == 2:
        positive = dataset.classes[-1]
    shape: dict[str, tuple[int, ...]] = {}
    features: tuple[TaskFeature, ...] = ()
    if isinstance(dataset.X, Sequences):
        shape = {"static": dataset.X.static.shape[1:], "series": dataset.X.series.shape[1:]}
    elif dataset.kind == "image":
        shape = {"x": tuple(dataset.X.shape[1:])}
    else:
        features = tuple(
            TaskFeature(feature.name, "category", values=feature.categories)
            if feature.is_category
            else TaskFeature(feature.name, "number", "", *around(np.asarray(dataset.X)[:, place]))
            for place, feature in enumerate(dataset.features)
        )
    return Task(
        name=name or dataset.name,
        kind=dataset.kind,
        classes=dataset.classes,
        target=target,
        features=features,
        positive=positive,
        metric=metric,
        shape=shape,
        public=public,
    )


def around(column: NDArray[np.floating]) -> tuple[float, float] | tuple[None, None]:
    """A range well around these values; below 0 only if one of them is.

    >>> around(np.array([29.0, 77.0, np.nan]))
    (0.0, 110.0)
    >>> around(np.array([0.5, 0.5]))
    (0.2, 0.8)
    """
    known = column[~np.isnan(column)].astype(np.float64)
    if not len(known):
        return None, None
    low, high = float(known.min()), float(known.max())
    width = high - low or abs(low) or 1.0
    digits = -math.floor(math.log10(width))
    below = -_up(width / 2 - low, digits)
    return (max(0.0, below) if low >= 0 else below), _up(width / 2 + high, digits)


def _up(value: float, digits: int) -> float:
    """Up to a multiple of 10^-digits, within what a float32 can be."""
    step = 10.0**-digits
    return max(-LARGEST, min(LARGEST, round(math.ceil(value / step) * step, digits) + 0.0))
