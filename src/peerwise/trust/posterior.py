"""Estimates of p(class | row) from a pool's outputs or from the inputs, and how to pool them into one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from sklearn.linear_model import LogisticRegression

from peerwise.errors import DataError, ParcelError
from peerwise.models.outputs import count_rows, softmax
from peerwise.space import InputFeatures
from peerwise.trust.base import some_rows
from peerwise.trust.kernel import Floats, Smooth, blocks

Codes = NDArray[np.int64]
Estimates = Sequence[Floats] | NDArray[np.floating[Any]]  # (estimates, n, classes)
ROWS = 10_000  # regressions over all classes, and over inputs, which can be wide, learn from at most so many rows
SHRINKAGE = 3.0  # of the pooling weights toward equal ones, in rows
BIAS_SHRINKAGE = 10.0  # of each class's bias toward zero, in rows
FLOOR = 1e-6  # of a probability within a logarithm
RULES = np.linspace(0.0, 1.2, 13)  # powers of the class frequency that `balanced_thresholds` tries


@dataclass(frozen=True)
class Linear:
    """softmax(weights x + bias) over the classes that the site has rows of; zero for all others."""

    weights: Floats  # (present, features)
    bias: Floats
    present: Codes
    classes: int

    @classmethod
    def fit(cls, features: NDArray[np.float32], y: Codes, classes: int, weight: Floats | None = None) -> Linear:
        present = np.unique(y)
        if len(present) == 1:
            return cls(np.zeros((1, features.shape[1])), np.zeros(1), present, classes)
        model = LogisticRegression(C=1.0, max_iter=300).fit(features, y, sample_weight=weight)
        # In the order in which it is kept and read back: last digits of products depend on it.
        weights, bias = model.coef_.astype(np.float64, order="C"), model.intercept_.astype(np.float64)
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
class Scores:
    """Kernel ridge estimates of the class indicators as probabilities: softmax(scale * estimate) over the classes that
    the site has rows of.

    The estimates leave [0, 1]; clipping them there would lose the order of the rows beyond, and would leave them as
    timid as ridge estimates are. ``scale`` has the smallest log-loss on estimates of rows that were left out.
    """

    scale: float
    present: NDArray[np.bool_]

    @classmethod
    def fit(cls, held_out: Floats, y: Codes, weight: Floats) -> Scores:
        present = np.bincount(y, minlength=held_out.shape[1]) > 0

        def loss(power: float) -> float:
            truth = cls(np.exp(power), present)(held_out)[np.arange(len(y)), y]
            return float(np.average(-np.log(np.maximum(truth, FLOOR)), weights=weight) + 1e-3 * (power - 1.5) ** 2)

        return cls(float(np.exp(minimize_scalar(loss, bounds=(-1, 5), method="bounded").x)), present)

    def __call__(self, estimates: Floats) -> Floats:
        found = np.zeros_like(estimates)
        found[:, self.present] = softmax(self.scale * estimates[:, self.present])
        return found

    def to_tree(self) -> dict[str, Any]:
        return {"scale": self.scale, "present": self.present}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Scores:
        return cls(float(tree["scale"]), np.asarray(tree["present"], dtype=bool))


@dataclass(frozen=True)
class ByInput:
    """The class posterior by kernel ridge regression over the standardized inputs."""

    features: InputFeatures
    smooth: Smooth
    scores: Scores

    @classmethod
    def fit(
        cls, parts: Sequence[Any], y: Codes, classes: int, seed: int, weight: Floats, group: Codes | None = None
    ) -> tuple[ByInput, Codes, Floats] | None:
        """Learn from parts of the inputs, of which the first says how to standardize. Also which rows were learned from
        (at most `ROWS`) and their leave-one-out estimates. None for inputs that hold no numbers, such as texts, which
        can only be looked at through the models."""
        chosen = drawn(len(y), ROWS, seed)
        # Draw rows before converting them to numbers, to save memory.
        start, kept = 0, []
        for part in parts:
            rows = chosen[(chosen >= start) & (chosen < start + count_rows(part))] - start
            kept.append(some_rows(part, rows))
            start += count_rows(part)
        try:
            features = InputFeatures.fit(next(part for part in kept if count_rows(part)))
        except DataError as error:
            warnings.warn(f"the inputs are left out: {error}", stacklevel=2)
            return None
        if not len(features.mean):
            return None
        matrix = np.concatenate([features.transform(part) for part in kept if count_rows(part)])
        targets = np.eye(classes, dtype=np.float32)[y[chosen]]
        groups = None if group is None else group[chosen]
        smooth, estimates = Smooth.fit(matrix, targets, y[chosen], classes, seed, weight[chosen], groups)
        scores = Scores.fit(estimates, y[chosen], weight[chosen])
        return cls(features, smooth, scores), chosen, scores(estimates)

    def __call__(self, X: Any) -> Floats:
        parts = [self.smooth(self.features.transform(some_rows(X, block))) for block in blocks(count_rows(X))]
        return self.scores(np.concatenate([np.empty((0, len(self.smooth.mean))), *parts]))

    def to_tree(self) -> dict[str, Any]:
        return {name: getattr(self, name).to_tree() for name in ("features", "smooth", "scores")}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> ByInput:
        found = cls(
            InputFeatures.from_tree(tree["features"]),
            Smooth.from_tree(tree["smooth"]),
            Scores.from_tree(tree["scores"]),
        )
        if found.smooth.landmarks.shape[1] != len(found.features.mean):
            raise ParcelError("the saved inputs do not fit their kernel: it was changed or cut short.")
        return found


@dataclass(frozen=True)
class LogPool:
    """Log-linear pooling: p(c) proportional to exp(bias_c) times the product over k of p_k(c) ** weight_k.

    Before, each p_k is mixed with the site's class frequencies, which get the share that n rows cannot rule out,
    1 / (n + 1), so that no estimate can veto a class by itself. Weights are at least 0 and, with the bias, minimize the
    log-loss of held-out rows plus `SHRINKAGE` rows' worth of squared distance from equal weights and `BIAS_SHRINKAGE`
    rows' worth of squared bias. Weights need not sum to one: a larger sum makes timid estimates bolder.
    """

    weights: Floats  # (estimates,)
    bias: Floats  # (classes,)
    prior: Floats  # (classes,)
    rows: int

    @classmethod
    def fit(cls, held_out: Estimates, y: Codes, weight: Floats, prior: Floats, rows: int) -> LogPool:
        count, classes = len(held_out), len(prior)
        start = np.concatenate([np.full(count, 1 / count), np.zeros(classes)])
        strength = np.repeat([SHRINKAGE * count, BIAS_SHRINKAGE], [count, classes])
        logs = _logs(held_out, prior, rows).reshape(count, -1)
        truth = np.eye(classes)[y]

        def loss(found: Floats) -> tuple[float, Floats]:
            said = softmax((found[:count] @ logs).reshape(truth.shape) + found[count:])
            off = (said - truth) * weight[:, None]
            given = -np.log(np.maximum(said[np.arange(len(y)), y], 1e-12)) @ weight
            away = strength * (found - start)
            slope = np.concatenate([logs @ off.ravel(), off.sum(axis=0)])
            return float(given + away @ (found - start) / 2), slope + away

        bounds = [(0, None)] * count + [(None, None)] * classes
        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(best[:count], best[count:], prior, rows)

    def __call__(self, estimates: Estimates) -> Floats:
        stacked = np.asarray(estimates)
        parts = [
            softmax(np.tensordot(self.weights, _logs(stacked[:, block], self.prior, self.rows), 1) + self.bias)
            for block in blocks(stacked.shape[1])
        ]
        return np.concatenate([np.empty((0, len(self.prior))), *parts])

    def to_tree(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> LogPool:
        found = cls(**tree)
        good = found.weights.ndim == found.prior.ndim == 1 and found.bias.shape == found.prior.shape
        if not good or found.rows < 1 or not (found.prior > 0).all() or not (found.weights >= 0).all():
            raise ParcelError("the saved pooling weights do not fit together: they were changed or cut short.")
        return found


def _logs(estimates: Estimates, prior: Floats, rows: int) -> Floats:
    rest = 1 / (rows + 1)
    return np.asarray(np.log((1 - rest) * np.asarray(estimates, dtype=np.float64) + rest * prior))


def class_frequencies(y: Codes, classes: int, weight: Floats) -> Floats:
    """Shares of the classes among the rows; half a row is spread over all of them, so that none is zero."""
    count = np.bincount(y, weights=weight, minlength=classes) + 0.5 / classes
    return np.asarray(count / count.sum())


def balanced_thresholds(held_out: Floats, y: Codes, weight: Floats) -> Floats:
    """(classes,): dividing a posterior by these before the largest is taken answers for balanced accuracy.

    A calibrated posterior has to be divided by the class frequencies. How far that is to be trusted, with few rows of a
    class, is read from held-out rows: thresholds are frequency ** power, with the mean of the powers whose balanced
    accuracy is within 1 / (2 sqrt(n)) of the best. A class without rows counts as a frequent one.
    """
    count = np.bincount(y, weights=weight, minlength=held_out.shape[1])
    frequency = np.where(count > 0, count / count.max(), 1.0)
    present = np.flatnonzero(count)
    found = np.empty(len(RULES))
    for place, power in enumerate(RULES):
        right = (held_out / frequency**power).argmax(axis=1) == y
        found[place] = np.mean([np.average(right[y == label], weights=weight[y == label]) for label in present])
    power = RULES[found >= found.max() - 0.5 / np.sqrt(len(y))].mean()
    return np.asarray(frequency**power)


def drawn(rows: int, most: int, seed: int) -> Codes:
    """At most so many row numbers, in order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).permutation(rows)[:most])
