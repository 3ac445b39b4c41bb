"""A site's known rows as selection rules see them: where they lie, and which models are right on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import DataError, ParcelError
from peerwise.space.competence import meta_labels
from peerwise.space.features import InputFeatures
from peerwise.space.outputs import Array, flat, softmax

Space = Literal["inputs", "decision"]


@dataclass(frozen=True)
class KnownRows:
    """Points ``(rows, width)`` of labelled rows, with what is near a new one.

    In the space of ``"inputs"`` distances are Euclidean over standardised inputs (`InputFeatures`); in the
    ``"decision"`` space, where ``features`` is None, they are L1 over all models' probabilities.
    """

    points: Array
    y: NDArray[np.int64]
    correct: NDArray[np.bool_]  # (rows, models)
    features: InputFeatures | None

    @classmethod
    def fit(cls, logits: Array, y: NDArray[np.int64], inputs: Sequence[Any] | None = None) -> KnownRows:
        """``inputs``: those of all rows in one or more parts, of which the first says how to standardise; None for the
        decision space."""
        correct = meta_labels(logits, y)
        if inputs is None:
            return cls(flat(softmax(logits)), y, correct, None)
        if any(X is None for X in inputs):
            raise DataError("X is missing: neighbours are looked for among the inputs. Pass X, or space='decision'.")
        features = _standardised(inputs[0])
        return cls(np.concatenate([features.transform(X) for X in inputs]), y, correct, features)

    @property
    def space(self) -> Space:
        return "decision" if self.features is None else "inputs"

    @cached_property
    def columns(self) -> Array:
        return np.ascontiguousarray(self.points.T)

    def project(self, logits: Array) -> Array:
        """What each model says, as probabilities."""
        return softmax(logits)

    def place(self, logits: Array, X: Any) -> Array:
        """The points of new rows, whose inputs the decision space does not need."""
        if self.features is None:
            return flat(softmax(logits))
        if X is None:
            raise DataError("X is missing: this learner was fitted with inputs and needs them, or space='decision'.")
        return self.features.transform(X)

    def nearest(self, points: Array, k: int) -> tuple[NDArray[np.int64], Array]:
        """Row numbers and distances ``(n, k)``, nearest first; ties fall to the lower row. All rows, if k is more."""
        return self._search(points, np.full(len(points), -1), min(k, len(self.y)))

    def nearest_others(self, k: int) -> NDArray[np.int64]:
        """The nearest of each known row among all others, ``(rows, k)``; all others, if k is more."""
        return self._search(self.points, np.arange(len(self.y)), min(k, len(self.y) - 1))[0]

    def _search(self, points: Array, leave_out: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], Array]:
        from peerwise.space.loops import nearest, nearest_euclidean

        if self.features is None:
            index, distance = nearest(points, self.points, np.zeros_like(self.y), leave_out, 1, k)
            return index, distance
        index, squared = nearest_euclidean(points, self.columns, leave_out, k)
        return index, np.sqrt(squared)

    def to_tree(self) -> dict[str, Any]:
        features = self.features.to_tree() if self.features is not None else None
        return {"points": self.points, "y": self.y, "correct": self.correct, "features": features}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any], models: int, classes: int) -> KnownRows:
        """Shapes are checked because the compiled kernels that read these arrays do not."""
        features = InputFeatures.from_tree(tree["features"]) if tree["features"] is not None else None
        found = cls(tree["points"], tree["y"], tree["correct"], features)
        rows, width = len(found.y), models * classes if features is None else len(features.mean)
        good = rows > 0 and found.y.shape == (rows,) and found.points.shape == (rows, width)
        good = good and found.correct.shape == (rows, models) and found.y.min() >= 0 and found.y.max() < classes
        if not good or (features is not None and features.mean.shape != features.scale.shape):
            raise ParcelError("the saved rows do not fit together: they were changed or cut short.")
        return found


def _standardised(X: Any) -> InputFeatures:
    try:
        return InputFeatures.fit(X)
    except DataError as error:
        raise DataError(str(error).replace("features='decision'", "space='decision'")) from error
