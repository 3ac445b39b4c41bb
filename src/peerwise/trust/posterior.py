"""The class posterior by logistic regression, kept as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from peerwise.errors import ParcelError
from peerwise.models.outputs import softmax

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Linear:
    """softmax(weights x + bias) over the classes that the site has rows of; zero for all others."""

    weights: Floats  # (present, features)
    bias: Floats
    present: NDArray[np.int64]
    classes: int

    @classmethod
    def fit(cls, features: NDArray[np.float32], y: NDArray[np.int64], classes: int) -> Linear:
        present = np.unique(y)
        if len(present) == 1:
            return cls(np.zeros((1, features.shape[1])), np.zeros(1), present, classes)
        model = LogisticRegression(C=1.0, max_iter=300).fit(features, y)
        weights, bias = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
        if len(present) == 2:  # scikit-learn keeps one row for two classes, whose other score is zero
            weights, bias = np.concatenate([0 * weights, weights]), np.concatenate([0 * bias, bias])
        return cls(weights, bias, present, classes)

    def __call__(self, features: NDArray[np.float32]) -> Floats:
        found = np.zeros((len(features), self.classes))
        found[:, self.present] = softmax(features @ self.weights.T + self.bias)
        return found

    def to_tree(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Linear:
        found = cls(**tree)
        good = len(found.weights) == len(found.bias) == len(found.present) and found.present.max() < found.classes
        if not good:
            raise ParcelError("the saved regression does not fit together: it was changed or cut short.")
        return found
