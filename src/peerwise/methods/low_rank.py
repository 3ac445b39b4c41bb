"""Weights as products of thin matrices, which is how they travel where bytes are scarce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError
from peerwise.methods.averaging import Weights

Matrix = NDArray[np.floating[Any]]
MOST_NUMBERS = 2**26  # of all matrices of one net: two thin factors may stand for more than any memory holds


def kept_rank(singular: Matrix, energy: float) -> int:
    """The fewest leading singular values whose squares add up to ``energy`` of all squares; at least one.

    >>> kept_rank(np.array([3.0, 1.0]), 0.9), kept_rank(np.array([3.0, 1.0]), 0.91), kept_rank(np.zeros(2), 0.9)
    (1, 2, 1)
    """
    squares = np.asarray(singular, dtype=np.float64) ** 2
    reached = np.cumsum(squares)
    # The last sum may fall short of the total by rounding alone.
    return min(int(np.searchsorted(reached, energy * squares.sum())) + 1, len(squares))


def truncated(matrix: Matrix, energy: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """left (m, r) and right (r, n), left @ right the best approximation of rank r, see `kept_rank`."""
    left, singular, right = np.linalg.svd(np.asarray(matrix, dtype=np.float64), full_matrices=False)
    rank = kept_rank(singular, energy)
    return (left[:, :rank] * singular[:rank]).astype(np.float32), right[:rank].astype(np.float32)


def compressed(weights: Weights, energy: float) -> dict[str, Any]:
    """Every array of two dimensions or more as a matrix (first, all others) in two factors; whole where the factors
    would be no smaller, and vectors as they are."""
    packed: dict[str, Any] = {}
    for name, array in weights.items():
        if array.ndim < 2:
            packed[name] = array
            continue
        matrix = array.reshape(len(array), -1)
        left, right = truncated(matrix, energy)
        packed[name] = {"left": left, "right": right} if left.size + right.size < matrix.size else matrix
    return packed


def rebuilt(packed: Mapping[str, Any]) -> Weights:
    """The vectors and matrices that `compressed` made smaller; refused before there is memory for too many numbers."""
    products = {name: item for name, item in packed.items() if isinstance(item, dict)}
    numbers = sum(_size(name, factors) for name, factors in products.items())
    if numbers > MOST_NUMBERS:
        raise ParcelError(f"factors of matrices of {numbers:,} numbers: expected at most {MOST_NUMBERS:,}.")
    return {
        name: np.asarray(item["left"] @ item["right"], dtype=np.float32) if name in products else item
        for name, item in packed.items()
    }


def in_shape_of(weights: Weights, matrices: Weights) -> Weights:
    """Each matrix in the shape of the array of its name, where there is one of its size."""
    return {
        name: matrix.reshape(weights[name].shape) if name in weights and weights[name].size == matrix.size else matrix
        for name, matrix in matrices.items()
    }


def _size(name: str, factors: dict[str, Any]) -> int:
    left, right = factors["left"], factors["right"]
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ParcelError(f"{name[:80]!r} in factors {left.shape} and {right.shape}: expected (m, rank) and (rank, n).")
    return int(left.shape[0]) * int(right.shape[1])
