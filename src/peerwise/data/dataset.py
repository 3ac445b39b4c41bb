"""A data set before it is shared out: inputs, class codes, and what is known of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Feature, Inputs, Kind, Sequences
from peerwise.errors import DataError

DIMENSIONS = {"table": 2, "image": 4}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with names: class names, feature names, and where each row comes from.

    ``site``, ``group`` and ``time`` say for each row its natural site (hospital, domain), the patient or customer it
    belongs to, and when it was seen. ``columns`` holds what is kept for partitions and subgroups but is no feature.
    ``natural_split`` (0 train, 1 validation, 2 test) is there when a split file fixes it.
    """

    name: str
    kind: Kind
    X: Inputs
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    features: tuple[Feature, ...] = ()
    site: NDArray[np.str_] | None = None
    group: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""
    licence: str = ""
    natural_split: NDArray[np.int8] | None = None

    def __post_init__(self) -> None:
        self._check_inputs()
        self._check_labels()
        extras = {"site": self.site, "group": self.group, "time": self.time, "natural_split": self.natural_split}
        for name, values in {**extras, **self.columns}.items():
            if values is not None and len(values) != len(self.y):
                raise DataError(f"{self.name}: {name!r} has {len(values)} values for {len(self.y)} rows.")
        if self.natural_split is not None and not np.isin(self.natural_split, (0, 1, 2)).all():
            wrong = sorted(set(self.natural_split.tolist()) - {0, 1, 2})
            raise DataError(f"{self.name}: split holds {wrong}; use 0 for train, 1 for validation, 2 for test.")

    def _check_inputs(self) -> None:
        if self.kind == "sequence":
            if not isinstance(self.X, Sequences):
                raise DataError(f"{self.name}: kind 'sequence' needs Sequences(static, series), not an array.")
        elif isinstance(self.X, Sequences) or self.X.ndim != DIMENSIONS.get(self.kind):
            shape = "Sequences" if isinstance(self.X, Sequences) else self.X.shape
            raise DataError(
                f"{self.name}: X is {shape}, kind is {self.kind!r}; a table is (n, features), an image set "
                "(n, channels, height, width), a sequence set is Sequences(static, series)."
            )
        elif self.features and self.X.shape[1] != len(self.features):
            raise DataError(f"{self.name}: {len(self.features)} feature names for {self.X.shape[1]} columns.")
        if len(self.X) != len(self.y):
            raise DataError(f"{self.name}: {len(self.X)} rows of inputs but {len(self.y)} labels.")

    def _check_labels(self) -> None:
        if len(self.classes) < 2:
            raise DataError(
                f"{self.name}: the target has {len(self.classes)} class {list(self.classes)}; "
                "at least two are needed. Check the target column, or add rows of another class."
            )
        if not np.issubdtype(self.y.dtype, np.integer):
            raise DataError(f"{self.name}: y is {self.y.dtype}, expected integer codes into classes.")
        if len(self.y) and not 0 <= self.y.min() <= self.y.max() < len(self.classes):
            raise DataError(
                f"{self.name}: labels run from {self.y.min()} to {self.y.max()}, "
                f"expected codes 0 to {len(self.classes) - 1} of the {len(self.classes)} classes."
            )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> Dataset:
        """The same data set with these rows only; class and feature names stay."""

        def cut(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[rows]

        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            site=cut(self.site),
            group=cut(self.group),
            time=cut(self.time),
            columns={name: values[rows] for name, values in self.columns.items()},
            natural_split=cut(self.natural_split),
        )

    def column(self, name: str) -> NDArray[np.str_] | None:
        """The values of a site column, kept column or categorical feature as text, or None when there is none."""
        if name == "site":
            return self.site
        if name in self.columns:
            return self.columns[name].astype(str)
        for place, feature in enumerate(self.features):
            if feature.name == name and feature.is_category and not isinstance(self.X, Sequences):
                codes = self.X[:, place]
                known: NDArray[np.str_] = np.array([*feature.categories, "missing"])
                return np.take(known, np.where(np.isnan(codes), len(feature.categories), codes).astype(int))
        return None

    def column_names(self) -> list[str]:
        """What `column` can answer."""
        site = [] if self.site is None else ["site"]
        return site + list(self.columns) + [f.name for f in self.features if f.is_category]
