"""A site's known rows as selection rules see them: where they lie, and which models are right on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import DataError, ParcelError
from peerwise.space.features import InputFeatures
from peerwise.space.outputs import Array, flat, softmax

Space = Literal["inputs", "decision"]
CHANGED = "the saved rows do not fit together: they were changed or cut short. Fit the learner again."


@dataclass(frozen=True)
class KnownRows:
    """Points ``(rows, width)`` of labelled rows, with what is near a new one.

    In the space of ``"inputs"`` distances are Euclidean over standardised inputs (`InputFeatures`); in the
    ``"decision"`` space, where ``features`` is None, they are L1 over all models' probabilities.
    """

    points: Array
    y: NDArray[np.int64]
    says: NDArray[np.int32]  # (rows, models): the class that each model gives to each row
    features: InputFeatures | None

    @classmethod
    def fit(cls, logits: Array, y: NDArray[np.int64], inputs: Sequence[Any] | None = None) -> KnownRows:
        """``inputs``: those of all rows in one or more parts, of which the first says how to standardise; None for the
        decision space."""
        says = logits.argmax(axis=2).astype(np.int32)
        if inputs is None:
            return cls(flat(softmax(logits)), y, says, None)
        if any(X is None for X in inputs):
            raise DataError("X is missing: neighbours are looked for among the inputs. Pass X, or space='decision'.")
        features = _standardised(inputs[0])
        return cls(np.concatenate([features.transform(X) for X in inputs]), y, says, features)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """``(rows, models)``: which models answer which rows rightly."""
        return np.asarray(self.says == self.y[:, None])

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
        return {"points": self.points, "y": self.y, "says": self.says, "features": features}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any], models: int, classes: int) -> KnownRows:
        """All is checked here because the compiled kernels that read these arrays do not."""
        try:
            features = InputFeatures.from_tree(tree["features"]) if tree["features"] is not None else None
            found = cls(tree["points"], tree["y"], tree["says"], features)
            width = models * classes if features is None else len(features.mean)
            good = _good_features(features) and _good_rows(found, width, models, classes)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ParcelError(f"{CHANGED} ({type(error).__name__}: {error})") from error
        if not good:
            raise ParcelError(CHANGED)
        return found


def _good_rows(found: KnownRows, width: int, models: int, classes: int) -> bool:
    rows = len(found.y)
    shapes = (found.y.shape, found.points.shape, found.says.shape)
    kinds = [str(part.dtype) for part in (found.y, found.points, found.says)]
    if not rows or shapes != ((rows,), (rows, width), (rows, models)) or kinds != ["int64", "float32", "int32"]:
        return False
    codes = all(part.min() >= 0 and part.max() < classes for part in (found.y, found.says))
    return codes and bool(np.isfinite(found.points).all())


def _good_features(features: InputFeatures | None) -> bool:
    if features is None:
        return True
    pair = (features.mean, features.scale)
    good = all(part.ndim == 1 and part.dtype.kind == "f" and bool(np.isfinite(part).all()) for part in pair)
    named = [*features.columns, *(value for values in features.categories.values() for value in values)]
    return good and features.mean.shape == features.scale.shape and all(isinstance(name, str) for name in named)


def _standardised(X: Any) -> InputFeatures:
    try:
        return InputFeatures.fit(X)
    except DataError as error:
        raise DataError(str(error).replace("features='decision'", "space='decision'")) from error
