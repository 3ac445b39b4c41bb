"""What a site may say about public rows when its own rows must stay private: labels, scores and counts with noise.

How private each is, over all rounds together, `peerwise.methods.public.accountant` says.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import ConfigError
from peerwise.methods.public.consensus import LEAST


def keep_probability(classes: int, epsilon: float) -> float:
    """e^eps / (e^eps + C - 1), without overflow.

    >>> round(keep_probability(10, math.log(9)), 12)
    0.5
    """
    return 1.0 / (1.0 + (classes - 1) * math.exp(-epsilon))


def randomised_response(labels: ArrayLike, classes: int, epsilon: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each label kept with probability e^eps / (e^eps + C - 1), otherwise any of the others, all equally likely.

    One label so released is eps-differentially private. ``labels`` (|U|,) -> (|U|,).
    """
    if not epsilon > 0:
        raise ConfigError(f"epsilon of a label is {epsilon}: expected above 0.")
    true = np.asarray(labels, dtype=np.int64)
    if classes < 2:
        return true.copy()
    keep = rng.random(true.shape) < keep_probability(classes, epsilon)
    other = (true + rng.integers(1, classes, true.shape)) % classes
    return np.where(keep, true, other)


def noisy_expertise(expertise: ArrayLike, sigma: float, high: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """E[j] + N(0, sigma^2), clipped to [1e-6, high]. All |U| scores may change: L2 sensitivity high sqrt(|U|)."""
    scores = np.asarray(expertise, dtype=np.float64)
    noisy = scores + sigma * rng.standard_normal(scores.shape)
    return np.clip(noisy, min(LEAST, high), high)


def noisy_counts(counts: ArrayLike, sigma: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """n_c + N(0, sigma^2), clipped at 0; if that leaves nothing, the largest noisy count becomes 1.

    To be drawn once and kept: one record more or less changes one count by 1, so the L2 sensitivity is 1.
    """
    sizes = np.asarray(counts, dtype=np.float64)
    noisy = sizes + sigma * rng.standard_normal(sizes.shape)
    clipped = np.maximum(noisy, 0.0)
    if not clipped.any():
        clipped[np.argmax(noisy)] = 1.0
    return clipped
