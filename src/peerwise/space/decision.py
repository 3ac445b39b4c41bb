"""The decision space of one site: its train rows as the pool sees them, and what lies around a new row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError
from peerwise.space.calibration import calibrate, fit_temperatures
from peerwise.space.competence import Competence, local_competence, meta_labels, true_class_probability
from peerwise.space.neighbours import Membership, Neighbourhood, neighbourhood, soft_membership
from peerwise.space.outputs import Array, flat, softmax


@dataclass(frozen=True)
class DecisionSpace:
    """phi(x) = the M calibrated probability vectors of x, one after the other (model-major), length M * C."""

    probabilities: Array  # (n, models, classes), calibrated; own columns out of fold
    y: NDArray[np.int64]
    correct: NDArray[np.bool_]  # Z
    k: int
    beta: NDArray[np.float64] | None
    membership: NDArray[np.float64] | None

    @classmethod
    def fit(
        cls,
        logits: Array,
        y: NDArray[np.int64],
        *,
        k: int = 5,
        calibrated: bool = True,
        membership: Membership = "none",
        min_positives: int = 0,
    ) -> DecisionSpace:
        beta = fit_temperatures(logits, y) if calibrated else None
        probabilities = softmax(logits) if beta is None else calibrate(logits, beta, len(y))
        # In the order in which it is kept and read back: last digits of products depend on it.
        probabilities = np.ascontiguousarray(probabilities)
        share = soft_membership(flat(probabilities), y) if membership == "soft" else None
        return cls(probabilities, y, meta_labels(logits, y, min_positives), k, beta, share)

    @property
    def models(self) -> int:
        return int(self.probabilities.shape[1])

    @cached_property
    def present(self) -> NDArray[np.int64]:
        """The classes this site has train rows of."""
        return np.unique(self.y)

    @cached_property
    def true(self) -> Array:
        """``(n, models)``: the calibrated probability each model gives to each train row's true class."""
        return true_class_probability(self.probabilities, self.y)

    def project(self, logits: Array) -> Array:
        """Calibrated probabilities of new rows, with the temperatures of the train rows."""
        return softmax(logits) if self.beta is None else calibrate(logits, self.beta, len(self.y))

    def around(self, probabilities: Array | None = None) -> Neighbourhood:
        """Class-aware neighbours among the train rows; without an argument, of the train rows themselves."""
        train = flat(self.probabilities)
        queries = train if probabilities is None else flat(probabilities)
        codes = np.searchsorted(self.present, self.y)
        return neighbourhood(
            queries, train, codes, self.k, leave_out_self=probabilities is None, membership=self.membership
        )

    def competence(self, near: Neighbourhood) -> Competence:
        return local_competence(near, self.correct, self.true)

    def to_tree(self) -> dict[str, Any]:
        return {
            "probabilities": self.probabilities,
            "y": self.y,
            "correct": self.correct,
            "k": self.k,
            "beta": self.beta,
            "membership": self.membership,
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> DecisionSpace:
        """Shapes are checked because the compiled kernels that read these arrays do not."""
        found = cls(**tree)
        rows, models, classes = found.probabilities.shape
        good = found.y.shape == (rows,) and found.correct.shape == (rows, models) and found.k >= 1
        good = good and rows > 0 and found.y.min() >= 0 and found.y.max() < classes
        good = good and (found.beta is None or found.beta.shape == (models,))
        if not good or (found.membership is not None and found.membership.shape != (rows,)):
            raise ParcelError("the saved decision space does not fit together: it was changed or cut short.")
        return found
