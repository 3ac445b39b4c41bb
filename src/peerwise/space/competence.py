"""How competent each model is around a sample (gain edges), and over the whole site (classifier features)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerwise.space.neighbours import Neighbourhood
from peerwise.space.outputs import Array, softmax

EPS = 1e-8


def meta_labels(logits: Array, y: NDArray[np.int64], min_positives: int = 0) -> NDArray[np.bool_]:
    """``Z[i, m]``: model m answers row i rightly.

    A row that no model answers rightly stays all zero (paper). ``min_positives`` > 0 is the variant that declares at
    least so many models right, those that give the true class most.
    """
    correct = np.asarray(logits.argmax(axis=2) == y[:, None])
    if min_positives:
        lacking = np.flatnonzero(correct.sum(axis=1) < min_positives)
        true = true_class_probability(softmax(logits[lacking]), y[lacking])
        # Models that are right come first whatever they say, so forcing never takes a correct one away.
        order = np.argsort(-(true + correct[lacking]), axis=1, kind="stable")[:, :min_positives]
        correct[lacking[:, None], order] = True
    return correct


def true_class_probability(probabilities: Array, y: NDArray[np.int64]) -> Array:
    """``(n, models)``: the probability each model gives to the true class."""
    return np.take_along_axis(probabilities, y[:, None, None], axis=2)[..., 0]


@dataclass(frozen=True)
class Competence:
    """Weighted local accuracy, gain over the pool's mean and weighted log-loss, each (destinations, models)."""

    accuracy: NDArray[np.float64]
    gain: NDArray[np.float64]
    log_loss: NDArray[np.float64]


def local_competence(near: Neighbourhood, correct: NDArray[np.bool_], true: Array) -> Competence:
    """G(m, j) = sum_i w_ij (Z_im - mean_m Z_im), and LL(m, j) = -sum_i w_ij ln max(p_m(y_i | x_i), 1e-8)."""
    from peerwise.space.loops import weighted_sums

    surprise = -np.log(np.maximum(true, EPS))
    accuracy, log_loss = weighted_sums(near.index, near.weight, correct.astype(np.float32), surprise)
    pool = correct.mean(axis=1)
    mean = np.where(near.index >= 0, near.weight * pool[near.index], 0).sum(axis=1, dtype=np.float64)
    return Competence(accuracy, accuracy - mean[:, None], log_loss)


def top_models(local: Competence, count: int) -> tuple[NDArray[np.int64], Array]:
    """The ``count`` best models of each destination and their edge weights, both (destinations, count).

    Order: gain, then lower log-loss, then lower index. Weight: min-max of the gain over all models, one where all
    gains are equal.
    """
    # The gain is rounded for the order only, so that sums which differ in the last bits still count as a tie.
    order = np.lexsort((local.log_loss, -np.round(local.gain, 9)), axis=1)[:, : min(count, local.gain.shape[1])]
    low, high = local.gain.min(axis=1, keepdims=True), local.gain.max(axis=1, keepdims=True)
    scaled = np.where(high - low > EPS, (local.gain - low) / (high - low + EPS), 1.0)
    return order, np.take_along_axis(scaled, order, axis=1).astype(np.float32)


def classifier_features(probabilities: Array, correct: NDArray[np.bool_], y: NDArray[np.int64]) -> Array:
    """Node features ``(models, 3 P + 2)`` over the P classes present: recall, its standard error, confidence of the
    true class, then accuracy and balanced accuracy."""
    true = true_class_probability(probabilities, y)
    recalls, errors, confidences = [], [], []
    for label in np.unique(y):
        rows = y == label
        recall = correct[rows].mean(axis=0)
        recalls.append(recall)
        errors.append(np.sqrt(recall * (1 - recall) / rows.sum()))
        confidences.append(true[rows].mean(axis=0))
    columns = [*recalls, *errors, *confidences, correct.mean(axis=0), np.mean(recalls, axis=0)]
    return np.stack(columns, axis=1).astype(np.float32)
