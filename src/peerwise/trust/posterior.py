"""The class posterior: by logistic regression, and by kernel ridge regression over the inputs; kept as plain arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from peerwise.errors import DataError, ParcelError
from peerwise.models.outputs import count_rows, softmax
from peerwise.space import InputFeatures
from peerwise.trust.base import some_rows
from peerwise.trust.kernel import Floats, Smooth, blocks

TINY = 1e-6
ROWS = 10_000  # of inputs, which can be wide, are learned from at most
Part = tuple[Any, NDArray[np.int64]]  # inputs and labels


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


@dataclass(frozen=True)
class ByInput:
    """The class posterior by kernel ridge regression over the standardised inputs."""

    features: InputFeatures
    smooth: Smooth

    @classmethod
    def fit(cls, parts: Sequence[Part], classes: int, seed: int) -> ByInput | None:
        """Learn from parts, of which the first says how to standardise. Inputs that hold no numbers, such as texts, can
        only be looked at through the models."""
        drawn = _drawn(parts, seed)
        try:
            features = InputFeatures.fit(drawn[0][0])
        except DataError as error:
            warnings.warn(f"the inputs are left out: {error}", stacklevel=2)
            return None
        if not len(features.mean):
            return None
        matrix, y = np.concatenate([features.transform(X) for X, _ in drawn]), np.concatenate([y for _, y in drawn])
        return cls(features, Smooth.fit(matrix, np.eye(classes, dtype=np.float32)[y], y, classes, seed))

    def __call__(self, X: Any) -> Floats:
        parts = [self.smooth(self.features.transform(some_rows(X, block))) for block in blocks(count_rows(X))]
        found = np.concatenate([np.empty((0, len(self.smooth.mean))), *parts])
        return as_probabilities(found, self.smooth.mean)

    def to_tree(self) -> dict[str, Any]:
        return {"features": self.features.to_tree(), "smooth": self.smooth.to_tree()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> ByInput:
        found = cls(InputFeatures.from_tree(tree["features"]), Smooth.from_tree(tree["smooth"]))
        if found.smooth.landmarks.shape[1] != len(found.features.mean):
            raise ParcelError("the saved inputs do not fit their kernel: it was changed or cut short.")
        return found


def _drawn(parts: Sequence[Part], seed: int) -> Sequence[Part]:
    """Not more than `ROWS` rows of all parts together, drawn before they are turned into numbers, which takes room."""
    ends = np.cumsum([len(y) for _, y in parts])
    if ends[-1] <= ROWS:
        return parts
    kept = np.zeros(ends[-1], dtype=bool)
    kept[np.random.default_rng(seed).permutation(ends[-1])[:ROWS]] = True
    chosen = [np.flatnonzero(part) for part in np.split(kept, ends[:-1])]
    return [(some_rows(X, rows), y[rows]) for (X, y), rows in zip(parts, chosen, strict=True)]


def as_probabilities(estimates: Floats, frequencies: Floats) -> Floats:
    """Estimates of 0 and 1 as probabilities; a class that was never seen has none."""
    clipped = np.clip(estimates, TINY * (frequencies > 0), None)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))
