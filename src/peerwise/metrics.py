"""Metrics over class codes and probabilities. Early stopping, the choice of rounds and the tables all use these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Probabilities = NDArray[np.floating]

FLOOR = 1e-8  # of a probability within a logarithm
BINS = 15  # of the calibration error
THRESHOLD = 0.5
LOWER_IS_BETTER = ("ece", "log_loss", "brier")  # of the names that `scores` gives


def scores(
    y: Labels,
    probabilities: Probabilities,
    answers: Labels | None = None,
    *,
    positive: int | None = None,
    threshold: float = THRESHOLD,
) -> dict[str, float]:
    """Everything that probabilities (n, classes) say about themselves on labelled rows; NaN where it is not defined.

    ``answers``: class codes, where the answer is not the likeliest class. ``positive``: the class to be found, for
    sensitivity, specificity and the AUPRC of two classes; by default the last one of two, and none of more.
    """
    answers = probabilities.argmax(axis=1) if answers is None else answers
    found, spared = sensitivity_specificity(y, probabilities, positive=positive, threshold=threshold)
    return {
        "accuracy": accuracy(y, answers),
        "balanced_accuracy": balanced_accuracy(y, answers),
        "auroc": auroc(y, probabilities),
        "auprc": auprc(y, probabilities, positive=positive),
        "sensitivity": found,
        "specificity": spared,
        "ece": calibration_error(y, probabilities),
        "log_loss": log_loss(y, probabilities),
        "brier": brier(y, probabilities),
    }


def accuracy(y: Labels, predicted: Labels) -> float:
    """Share of rows answered rightly; NaN without rows."""
    return float(np.mean(y == predicted)) if len(y) else float("nan")


def balanced_accuracy(y: Labels, predicted: Labels) -> float:
    """Mean recall over the classes present in ``y``; NaN without rows.

    >>> balanced_accuracy(np.array([0, 0, 0, 2]), np.array([0, 0, 1, 2]))
    0.8333333333333333
    """
    present = np.unique(y)
    if len(present) == 0:
        return float("nan")
    return float(np.mean([np.mean(predicted[y == label] == label) for label in present]))


def auroc(y: Labels, probabilities: Probabilities) -> float:
    """Area under the ROC curve: of two classes; of more the mean of each class present in ``y`` against the rest.
    NaN unless ``y`` holds two classes or more."""
    present = np.unique(y)
    if len(present) < 2:
        return float("nan")
    judged = present if probabilities.shape[1] > 2 else present[1:]
    return float(np.mean([_area(y == label, probabilities[:, label]) for label in judged]))


def auprc(y: Labels, probabilities: Probabilities, *, positive: int | None = None) -> float:
    """Average precision: of the positive class where there are two; of more the mean of each class present in ``y``
    against the rest. NaN unless ``y`` holds two classes or more."""
    present = np.unique(y)
    if len(present) < 2:
        return float("nan")
    judged = present if probabilities.shape[1] > 2 else [positive_class(probabilities, positive)]
    return float(np.mean([_average_precision(y == label, probabilities[:, label]) for label in judged]))


# scikit-learn has both, and takes milliseconds to check what it is given: minutes over all answers of a long run.
def _area(found: NDArray[np.bool_], score: NDArray[np.floating]) -> float:
    """The share of pairs, of a row to be found and another, in which the first has the higher score; ties are half."""
    others, ours = np.sort(score[~found]), score[found]
    below = np.searchsorted(others, ours, "left") + np.searchsorted(others, ours, "right")
    return float(below.mean() / (2 * len(others)))


def _average_precision(found: NDArray[np.bool_], score: NDArray[np.floating]) -> float:
    """The mean, over rows to be found, of the share of these among all rows that score as high as it or higher."""
    ours, all_rows = np.sort(score[found]), np.sort(score)
    hits = len(ours) - np.searchsorted(ours, ours, "left")
    return float(np.mean(hits / (len(all_rows) - np.searchsorted(all_rows, ours, "left"))))


def sensitivity_specificity(
    y: Labels, probabilities: Probabilities, *, positive: int | None = None, threshold: float = THRESHOLD
) -> tuple[float, float]:
    """Shares of the positive rows at or above the threshold, and of the others below it; NaN where there are none.

    >>> sensitivity_specificity(np.array([0, 0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.8, 0.2]]))
    (0.5, 0.5)
    """
    label = positive_class(probabilities, positive)
    if label is None:
        return float("nan"), float("nan")
    called, sick = (probabilities[:, label] >= threshold).astype(np.int64), y == label
    return accuracy(y[sick] * 0 + 1, called[sick]), accuracy(y[~sick] * 0, called[~sick])


def positive_class(probabilities: Probabilities, positive: int | None = None) -> int | None:
    """The class to be found: the named one, the last of two, or none."""
    if positive is None and probabilities.shape[1] == 2:
        return 1
    return positive


def log_loss(y: Labels, probabilities: Probabilities, floor: float = FLOOR) -> float:
    """Mean negative log-probability of the true class (NLL), floored so that a certain mistake stays finite."""
    if len(y) == 0:
        return float("nan")
    return float(np.mean(log_losses(y, probabilities, floor)))


def log_losses(y: Labels, probabilities: Probabilities, floor: float = FLOOR) -> NDArray[np.float64]:
    """The loss of each row."""
    return np.asarray(-np.log(np.maximum(probabilities[np.arange(len(y)), y], floor)), dtype=np.float64)


def brier(y: Labels, probabilities: Probabilities) -> float:
    """Mean squared distance to the truth, summed over classes; halved for two classes, as is usual: 0 to 1 there, 0 to
    2 for more."""
    if len(y) == 0:
        return float("nan")
    distance = np.square(probabilities - np.eye(probabilities.shape[1])[y]).sum(axis=1)
    return float(distance.mean() / (2 if probabilities.shape[1] == 2 else 1))


def calibration_error(y: Labels, probabilities: Probabilities, bins: int = BINS) -> float:
    """Expected calibration error (ECE) of the answer given: over bins of equal width, closed above, the mean distance
    of confidence and accuracy, weighted by rows. Few rows make it larger than it is.

    >>> calibration_error(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]]))
    0.4
    """
    if len(y) == 0:
        return float("nan")
    confidence, right, place = binned(y, probabilities, bins)
    return float(np.abs(np.bincount(place, confidence - right, minlength=bins)).sum() / len(y))


def binned(y: Labels, probabilities: Probabilities, bins: int) -> tuple[Probabilities, NDArray[np.float64], Labels]:
    """Of each row the confidence of its answer, whether that is right (1 or 0), and its bin."""
    confidence = probabilities.max(axis=1)
    right = (probabilities.argmax(axis=1) == y).astype(np.float64)
    return confidence, right, np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def effective_size(trust: NDArray[np.floating]) -> NDArray[np.float64]:
    """ESS = 1 / sum of squared weights, a row: how many models really have a say.

    >>> effective_size(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    array([2., 1.])
    """
    return np.asarray(1.0 / np.sum(np.square(trust, dtype=np.float64), axis=1))
