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
from peerwise.space.outputs import Array


@dataclass(frozen=True)
class InputFeatures:
    """How the inputs of one site become a matrix. ``categories``: column name -> its values, for data frames."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    categories: dict[str, list[str]]

    @classmethod
    def fit(cls, X: Any) -> InputFeatures:
        categories: dict[str, list[str]] = {}
        if isinstance(X, pd.DataFrame):
            for name in X.columns:
                if not pd.api.types.is_numeric_dtype(X[name]):
                    categories[str(name)] = sorted(X[name].dropna().astype(str).unique().tolist())
        matrix = _matrix(X, categories)
        counts = np.maximum(np.isfinite(matrix).sum(axis=0), 1)
        mean = np.nansum(matrix, axis=0) / counts
        scale = np.sqrt(np.nansum((matrix - mean) ** 2, axis=0) / counts)
        return cls(mean, np.where(scale > 1e-12, scale, 1.0), categories)

    def transform(self, X: Any) -> Array:
        matrix = _matrix(X, self.categories)
        if matrix.shape[1] != len(self.mean):
            raise DataError(
                f"X has {matrix.shape[1]} input values a row: expected {len(self.mean)}, as in fit. "
                f"Pass the same columns in the same order."
            )
        return np.nan_to_num((matrix - self.mean) / self.scale, nan=0.0).astype(np.float32)

    def to_tree(self) -> dict[str, Any]:
        return {"mean": self.mean, "scale": self.scale, "categories": self.categories}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> InputFeatures:
        return cls(**tree)


def _matrix(X: Any, categories: dict[str, list[str]]) -> NDArray[np.float64]:
    if isinstance(X, Sequences):
        return np.concatenate([_flat(X.static), _flat(X.series)], axis=1)
    if not isinstance(X, pd.DataFrame):
        return _flat(X)
    blocks = []
    for name in X.columns:
        column = X[name]
        if str(name) in categories:
            values = column.astype(str).to_numpy()[:, None]
            blocks.append((values == np.array([categories[str(name)]])).astype(np.float64))
        else:
            blocks.append(column.to_numpy(dtype=np.float64, na_value=np.nan)[:, None])
    return np.concatenate(blocks, axis=1)


def _flat(values: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"sample features need numbers, got an array of {np.asarray(values).dtype}: pass a data frame, or use "
            f"features='decision'."
        ) from error
    array = np.where(np.isfinite(array), array, np.nan)
    return array.reshape(len(array), -1) if len(array) else array.reshape(0, int(np.prod(array.shape[1:])))
