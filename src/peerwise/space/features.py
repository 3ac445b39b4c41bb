"""Sample node features from raw inputs: numbers standardised, categories one-hot, missing values at the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data.rows import Sequences
from peerwise.errors import DataError
from peerwise.space.outputs import Array, flat

MOST_CATEGORIES = 50
FARTHEST = 1e6  # standard deviations from the mean: what lies beyond would be infinite once it is squared


@dataclass(frozen=True)
class InputFeatures:
    """How the inputs of one site become a matrix.

    For data frames, ``columns`` are their names (found again by name) and ``categories`` the values of those that hold
    no numbers; of these, columns with more than 50 different values (names, dates, free text) are left out.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    columns: list[str]
    categories: dict[str, list[str]]

    @classmethod
    def fit(cls, X: Any) -> InputFeatures:
        columns: list[str] = []
        categories: dict[str, list[str]] = {}
        if isinstance(X, pd.DataFrame):
            X = X.infer_objects()
            for place, name in enumerate(map(str, X.columns)):
                column = X.iloc[:, place]
                if not pd.api.types.is_numeric_dtype(column):
                    found = column.dropna().astype(str).unique().tolist()
                    if len(found) > MOST_CATEGORIES:
                        continue
                    categories[name] = sorted(found)
                columns.append(name)
            if not columns:
                raise DataError(
                    f"X has no column of numbers, or of at most {MOST_CATEGORIES} different values: expected one. "
                    f"Use features='decision'."
                )
        matrix = _matrix(X, columns, categories)
        counts = np.maximum(np.isfinite(matrix).sum(axis=0), 1)
        mean = np.nansum(matrix, axis=0) / counts
        scale = np.sqrt(np.nansum((matrix - mean) ** 2, axis=0) / counts)
        return cls(mean, np.where(scale > 1e-12, scale, 1.0), columns, categories)

    def transform(self, X: Any) -> Array:
        matrix = _matrix(X, self.columns, self.categories)
        if matrix.shape[1] != len(self.mean):
            raise DataError(
                f"X has {matrix.shape[1]} input values a row: expected {len(self.mean)}, as in fit. "
                f"Pass the same columns in the same order."
            )
        standard = np.nan_to_num((matrix - self.mean) / self.scale, nan=0.0)
        return np.clip(standard, -FARTHEST, FARTHEST).astype(np.float32)

    def to_tree(self) -> dict[str, Any]:
        return {"mean": self.mean, "scale": self.scale, "columns": self.columns, "categories": self.categories}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> InputFeatures:
        return cls(**tree)


def _matrix(X: Any, columns: list[str], categories: dict[str, list[str]]) -> NDArray[np.float64]:
    """One row a row of X; what is missing or not finite is NaN."""
    if isinstance(X, Sequences):
        return np.concatenate([_numbers(X.static), _numbers(X.series)], axis=1)
    if not isinstance(X, pd.DataFrame) or not columns:
        return _numbers(X)
    names = [str(name) for name in X.columns]
    absent = [name for name in columns if name not in names]
    if absent:
        raise DataError(f"X lacks the column {absent[0]!r}: expected the columns of fit, {columns}.")
    places = [names.index(name) for name in columns]
    blocks = [_block(X.iloc[:, place], name, categories) for place, name in zip(places, columns, strict=True)]
    return np.concatenate(blocks, axis=1)


def _block(column: Any, name: str, categories: dict[str, list[str]]) -> NDArray[np.float64]:
    if name not in categories:
        return _numbers(column.to_frame(), f"column {name!r} of X")
    values = column.astype(str).to_numpy(dtype=object)[:, None]
    one_hot: NDArray[np.float64] = (values == np.array([categories[name]], dtype=object)).astype(np.float64)
    one_hot[column.isna().to_numpy()] = np.nan
    return one_hot


def _numbers(values: Any, what: str = "X") -> NDArray[np.float64]:
    try:
        frame = isinstance(values, pd.DataFrame)
        array = values.to_numpy(dtype=np.float64, na_value=np.nan) if frame else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} holds something that is no number ({error}): sample features need numbers, or a data frame with "
            f"categories. Pass one, or use features='decision'."
        ) from error
    return flat(np.where(np.isfinite(array), array, np.nan))
