"""Open voting: those models answer that know a row best, by what they leave for "unknown" (FedOV, FedSOV)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import BadOutputs, ConfigError

Floats = NDArray[np.float64]
ROUNDING = 1e-3  # by which the probabilities of a model may miss a sum of one


@dataclass(frozen=True)
class OpenVote:
    """What a vote gives for n rows and C known classes.

    ``probabilities`` (n, C) and ``trust`` (n, models), whose rows sum to one: probabilities = sum over models of trust
    times the model's known probabilities, these normalised. ``unknown`` (n, models): what each model leaves for
    unknown; ``says`` (n, models): its best known class; ``nobody`` (n,): unknown is the likeliest to every model.
    """

    probabilities: Floats
    trust: Floats
    unknown: Floats
    says: NDArray[np.int64]
    nobody: NDArray[np.bool_]


def open_vote(probabilities: ArrayLike, k: int = 3) -> OpenVote:
    """The ``k`` models with the least unknown (of equals, the first) add up what they say of the known classes.

    score(c) = sum over the k models of p_m(c), not normalised model by model, so that a model that is unsure whether
    it knows the row counts less; where all of them leave nothing to known classes, these are all alike.
    ``probabilities`` (n, models, C + 1): the last column is unknown. More than all models means all.

    >>> sure, lost = [0.8, 0.1, 0.1], [0.0, 0.3, 0.7]
    >>> open_vote([[lost, sure]], k=1).probabilities.round(3).tolist()
    [[0.889, 0.111]]
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"k={k!r}: expected a whole number of models, at least 1.")
    outputs = _checked(probabilities)
    known, unknown = outputs[:, :, :-1], outputs[:, :, -1]
    chosen = _order(unknown)[:, :k]
    score = _summed(known, chosen)[:, -1]
    weight = np.zeros_like(unknown)
    np.put_along_axis(weight, chosen, np.take_along_axis(known.sum(axis=2), chosen, axis=1), axis=1)
    alike = np.zeros_like(unknown)
    np.put_along_axis(alike, chosen, 1.0, axis=1)
    return OpenVote(
        probabilities=_normalised(score, np.ones_like(score)),
        trust=_normalised(weight, alike),
        unknown=unknown.copy(),
        says=np.asarray(known.argmax(axis=2)),
        nobody=np.asarray((unknown > known.max(axis=2)).all(axis=1)),
    )


def vote_curve(probabilities: ArrayLike) -> NDArray[np.int64]:
    """(n, models): the class code that the first 1, 2, ... models answer with, as `open_vote` does for each ``k``."""
    outputs = _checked(probabilities)
    order = _order(outputs[:, :, -1])
    return np.asarray(_summed(outputs[:, :, :-1], order).argmax(axis=2))


def _order(unknown: Floats) -> NDArray[np.int64]:
    return np.argsort(unknown, axis=1, kind="stable")


def _summed(known: Floats, chosen: NDArray[np.int64]) -> Floats:
    """(n, k, C): what the first 1, 2, ... of the chosen models say together; added in their order, so that the sum of
    the first ones is the same however many follow."""
    return np.cumsum(np.take_along_axis(known, chosen[:, :, None], axis=1), axis=1)


def _normalised(values: Floats, otherwise: Floats) -> Floats:
    """Rows that sum to one; where there is nothing to divide, those of ``otherwise``."""
    values = np.where(values.sum(axis=1, keepdims=True) > 0, values, otherwise)
    # Tiny sums would be divided into numbers that no longer sum to one.
    values = values / values.max(axis=1, keepdims=True)
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def _checked(probabilities: ArrayLike) -> Floats:
    outputs = np.asarray(probabilities, dtype=np.float64)
    if outputs.ndim != 3 or outputs.shape[1] < 1 or outputs.shape[2] < 2:
        raise BadOutputs(
            f"open-set outputs have shape {outputs.shape}: expected (rows, models, classes + 1), the last one unknown."
        )
    bad = ~(np.isfinite(outputs).all(axis=2) & (outputs >= 0).all(axis=2))
    bad |= ~(np.abs(outputs.sum(axis=2) - 1) <= ROUNDING)
    if bad.any():
        row, model = np.argwhere(bad)[0]
        raise BadOutputs(
            f"model {model} says {np.round(outputs[row, model], 4).tolist()[:12]} of row {row} ({int(bad.sum())} such "
            f"answers): expected probabilities that sum to one. A model without an answer has 1 for unknown."
        )
    return outputs
