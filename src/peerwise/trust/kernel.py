"""Kernel ridge regression over landmarks, with its width and strength chosen by leave-one-out error in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve, solve_triangular

from peerwise.errors import ParcelError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
WIDTHS = (1.0, 4.0)  # inverse widths, in units of 1 / (features x their variance)
STRENGTHS = (0.1, 0.3, 1.0)  # of the ridge
LANDMARKS = 1000
BLOCK = 4096  # rows at a time, to bound memory
JITTER = 1e-6


class Centers(NamedTuple):
    """Rows to measure distances to, in double precision, and their squared lengths: made once, asked often."""

    rows: Floats
    squared: Floats

    @classmethod
    def of(cls, features: NDArray[np.floating[Any]]) -> Centers:
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
        cls,
        features: NDArray[np.float32],
        targets: NDArray[np.float32],
        y: NDArray[np.int64],
        judged: int,
        seed: int,
        weight: Floats | None = None,
        group: Codes | None = None,
    ) -> tuple[Smooth, Floats]:
        """Weighted least squares over all rows with a ridge, and these rows' leave-one-out estimates (n, targets).

        Of the grid, the setting with the smallest leave-one-out squared error of the first ``judged`` targets (less
        their mean, which is taken as known). With ``group``, all rows of a row's group are left out with it. With at
        most `LANDMARKS` rows this is exact kernel ridge regression. With more, `LANDMARKS` rows are drawn as landmarks,
        class by class in turn, so that no class is left without.
        """
        weight = np.ones(len(y)) if weight is None else weight
        mean = np.average(targets.astype(np.float64), axis=0, weights=weight)
        chosen = features[spread_rows(y, LANDMARKS, seed)]
        scale = 1.0 / max(features.shape[1] * float(features.var(dtype=np.float64)), 1e-3)
        rows = _Rows(features, targets - mean, weight, Centers.of(chosen), group)
        tried = [rows.eigenbasis(width * scale) for width in WIDTHS]
        errors = {
            (place, s): e for place, eigenbasis in enumerate(tried) for s, e in rows.errors(eigenbasis, judged).items()
        }
        place, strength = min(errors, key=lambda key: errors[key])
        best = tried[place]
        held_out = rows.held_out(best, strength) + mean
        return cls(chosen, best.gamma, best.coefficients(strength), mean), held_out

    def __call__(self, features: NDArray[np.float32]) -> Floats:
        parts = [
            similarity(features[block], self._centers, self.gamma) @ self.coefficients
            for block in blocks(len(features))
        ]
        return np.concatenate([np.empty((0, len(self.mean))), *parts]) + self.mean

    @cached_property
    def _centers(self) -> Centers:
        return Centers.of(self.landmarks)

    def to_tree(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Smooth:
        found = cls(**tree)
        if found.coefficients.shape != (len(found.landmarks), len(found.mean)):
            raise ParcelError("the saved kernel does not fit together: it was changed or cut short.")
        return found


def similarity(features: NDArray[np.floating[Any]], centers: Centers, gamma: float) -> Floats:
    here = Centers.of(features)
    squared = here.squared[:, None] + centers.squared - 2 * here.rows @ centers.rows.T
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


@dataclass(frozen=True)
class _Eigenbasis:
    """The rows' features in the basis in which every ridge is a division: see `_Rows.eigenbasis`."""

    gamma: float
    values: Floats
    basis: Floats  # (landmarks, landmarks)
    projected_targets: Floats  # (landmarks, targets)

    def coefficients(self, strength: float) -> Floats:
        return np.asarray(self.basis @ (self.projected_targets / (self.values + strength)[:, None]))


@dataclass(frozen=True)
class _Rows:
    """The rows to learn from: features, centered targets, weights, the landmarks they are compared with, and group
    codes where rows are left out by groups."""

    features: NDArray[np.float32]
    targets: Floats
    weight: Floats
    landmarks: Centers
    group: Codes | None

    def eigenbasis(self, gamma: float) -> _Eigenbasis:
        """With K the similarities of rows and landmarks, S = R'R those among landmarks and D the row weights, rows have
        the features K inv(R). V diag(w) V' = inv(R)' K'DK inv(R) turns these into P = K inv(R) V with P'DP = diag(w),
        so that a ridge regression is fit = P (P'DT / (w + strength))."""
        among = similarity(self.landmarks.rows, self.landmarks, gamma)
        root = cholesky(among + JITTER * np.eye(len(among)))
        gram, projected_targets = np.zeros_like(root), np.zeros((len(among), self.targets.shape[1]))
        for block in blocks(len(self.features)):
            near = similarity(self.features[block], self.landmarks, gamma)
            weighted = near * self.weight[block, None]
            gram += weighted.T @ near
            projected_targets += weighted.T @ self.targets[block]
        half = solve_triangular(root, gram, trans="T")
        values, vectors = eigh(solve_triangular(root, half.T, trans="T"))
        basis = solve_triangular(root, vectors)
        return _Eigenbasis(gamma, np.maximum(values, 0), basis, basis.T @ projected_targets)

    def errors(self, eigenbasis: _Eigenbasis, judged: int) -> dict[float, float]:
        """The leave-one-out squared error of the first targets, for every strength."""
        found = dict.fromkeys(STRENGTHS, 0.0)
        for rows, projected in self._projected(eigenbasis):
            for strength in STRENGTHS:
                left = self._left_out(eigenbasis, strength, rows, projected, judged)
                found[strength] += float((self.weight[rows, None] * left**2).sum())
        return found

    def held_out(self, eigenbasis: _Eigenbasis, strength: float) -> Floats:
        """Each row's targets as estimated without that row, or without its group."""
        found = np.empty(self.targets.shape)
        for rows, projected in self._projected(eigenbasis):
            left = self._left_out(eigenbasis, strength, rows, projected, self.targets.shape[1])
            found[rows] = self.targets[rows] - left
        return found

    def _projected(self, eigenbasis: _Eigenbasis) -> Iterator[tuple[Codes, Floats]]:
        """Row numbers, no group in two parts, and these rows in the basis."""
        for rows in self._parts():
            yield rows, similarity(self.features[rows], self.landmarks, eigenbasis.gamma) @ eigenbasis.basis

    def _parts(self) -> Iterator[Codes]:
        if self.group is None:
            every = np.arange(len(self.features))
            yield from (every[block] for block in blocks(len(every)))
            return
        order = np.argsort(self.group, kind="stable")
        ends = np.flatnonzero(np.diff(self.group[order], append=-1)) + 1
        start = 0
        for end in ends:
            if end - start >= BLOCK or end == len(order):
                yield order[start:end]
                start = int(end)

    def _left_out(
        self, eigenbasis: _Eigenbasis, strength: float, rows: Codes, projected: Floats, judged: int
    ) -> Floats:
        """The error of each row when it is left out: (T_i - fit_i) / (1 - h_i) with the leverage
        h_i = D_i sum_j P_ij^2 / (w_j + strength). Of a group g: inv(I - H) (T_g - fit_g), H_ij = D_j sum_k P_ik P_jk /
        (w_k + strength)."""
        shrunk = 1 / (eigenbasis.values + strength)
        error = self.targets[rows, :judged] - projected @ (eigenbasis.projected_targets[:, :judged] * shrunk[:, None])
        leverage = self.weight[rows] * ((projected**2) @ shrunk)
        found = error / (1 - leverage)[:, None]
        if self.group is not None:
            ends = np.flatnonzero(np.diff(self.group[rows], append=-1)) + 1
            for start, end in pairwise([0, *ends.tolist()]):
                if end - start > 1:
                    part = slice(start, end)
                    within = (projected[part] * shrunk) @ projected[part].T * self.weight[rows[part]]
                    found[part] = solve(np.eye(end - start) - within, error[part])
        return np.asarray(found)


def blocks(rows: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, rows, BLOCK))
