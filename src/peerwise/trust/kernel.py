"""Kernel ridge regression over landmarks, with its width and strength chosen by leave-one-out error in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from peerwise.errors import ParcelError

Floats = NDArray[np.float64]
WIDTHS = (1.0, 4.0)  # inverse widths, in units of 1 / (features x their variance)
STRENGTHS = (0.1, 0.3, 1.0)  # of the ridge
LANDMARKS = 1000
BLOCK = 4096  # rows at a time, to bound memory
JITTER = 1e-6


class Places(NamedTuple):
    """Rows to measure distances to, in double precision, and their squared lengths: made once, asked often."""

    rows: Floats
    squared: Floats

    @classmethod
    def of(cls, features: NDArray[np.floating[Any]]) -> Places:
        rows = features.astype(np.float64)
        return cls(rows, (rows * rows).sum(axis=1))


@dataclass(frozen=True)
class Smooth:
    """f(x) = mean + sum_l exp(-gamma |x - landmark_l|^2) coefficient_l, one value a target."""

    landmarks: NDArray[np.float32]  # (l, features)
    gamma: float
    coefficients: Floats  # (l, targets)
    mean: Floats  # (targets,)

    @classmethod
    def fit(
        cls, features: NDArray[np.float32], targets: NDArray[np.float32], y: NDArray[np.int64], judged: int, seed: int
    ) -> Smooth:
        """Least squares over all rows with a ridge; of the grid, the setting with the smallest leave-one-out squared
        error of the first ``judged`` targets (less their mean, which is taken as known).

        With at most `LANDMARKS` rows this is exact kernel ridge regression. With more, so many rows stand for all,
        drawn class by class in turn, so that no class is left without.
        """
        mean = targets.mean(axis=0, dtype=np.float64)
        chosen = features[spread_rows(y, LANDMARKS, seed)]
        scale = 1.0 / max(features.shape[1] * float(features.var(dtype=np.float64)), 1e-3)
        tried = [
            found
            for width in WIDTHS
            for found in _solutions(features, targets - mean, Places.of(chosen), width * scale, judged)
        ]
        _, gamma, coefficients = min(tried, key=lambda found: found[0])
        return cls(chosen, gamma, coefficients, mean)

    def __call__(self, features: NDArray[np.float32]) -> Floats:
        parts = [
            similarity(features[block], self._places, self.gamma) @ self.coefficients for block in blocks(len(features))
        ]
        return np.concatenate([np.empty((0, len(self.mean))), *parts]) + self.mean

    @cached_property
    def _places(self) -> Places:
        return Places.of(self.landmarks)

    def to_tree(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Smooth:
        found = cls(**tree)
        if found.coefficients.shape != (len(found.landmarks), len(found.mean)):
            raise ParcelError("the saved kernel does not fit together: it was changed or cut short.")
        return found


def similarity(features: NDArray[np.floating[Any]], places: Places, gamma: float) -> Floats:
    here = Places.of(features)
    squared = here.squared[:, None] + places.squared - 2 * here.rows @ places.rows.T
    return np.asarray(np.exp(-gamma * np.maximum(squared, 0)))


def spread_rows(y: NDArray[np.int64], most: int, seed: int) -> NDArray[np.int64]:
    """At most so many rows, drawn at random, from all classes in turn."""
    if len(y) <= most:
        return np.arange(len(y))
    shuffled = np.random.default_rng(seed).permutation(len(y))
    turn = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        mine = shuffled[y[shuffled] == label]
        turn[mine] = np.arange(len(mine))
    return np.sort(shuffled[np.argsort(turn[shuffled], kind="stable")][:most])


def _solutions(
    features: NDArray[np.float32], targets: Floats, landmarks: Places, gamma: float, judged: int
) -> Iterator[tuple[float, float, Floats]]:
    """(leave-one-out error, gamma, coefficients) for every strength.

    With K the similarities of rows and landmarks and S = R'R those among landmarks, rows have the features K inv(R).
    V diag(w) V' = inv(R)' K'K inv(R) turns these into P = K inv(R) V with P'P = diag(w), in which every ridge is a
    division: fit = P (P'T / (w + strength)) and leverage h_i = sum_j P_ij^2 / (w_j + strength). A row left out then
    errs by (T_i - fit_i) / (1 - h_i).
    """
    among = similarity(landmarks.rows, landmarks, gamma)
    root = cholesky(among + JITTER * np.eye(len(among)))
    gram, moved = np.zeros_like(root), np.zeros((len(among), targets.shape[1]))
    for block in blocks(len(features)):
        near = similarity(features[block], landmarks, gamma)
        gram += near.T @ near
        moved += near.T @ targets[block]
    half = solve_triangular(root, gram, trans="T")
    values, vectors = eigh(solve_triangular(root, half.T, trans="T"))
    basis = solve_triangular(root, vectors)
    values, moved = np.maximum(values, 0), basis.T @ moved
    errors = dict.fromkeys(STRENGTHS, 0.0)
    for block in blocks(len(features)):
        projected = similarity(features[block], landmarks, gamma) @ basis
        for strength in STRENGTHS:
            fit = projected @ (moved[:, :judged] / (values + strength)[:, None])
            leverage = (projected**2) @ (1 / (values + strength))
            errors[strength] += float((((targets[block, :judged] - fit) / (1 - leverage)[:, None]) ** 2).sum())
    for strength in STRENGTHS:
        yield errors[strength], gamma, basis @ (moved / (values + strength)[:, None])


def blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, rows, BLOCK))
