"""A recipe is how a site trains one model; what comes out predicts and can be exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Feature, Inputs, Kind, Rows
from peerwise.models.outputs import softmax


class Fitted(ABC):
    """A trained model over all C common classes, whichever of them the site has."""

    best_epoch: int | None = None

    @abstractmethod
    def predict_logits(self, X: Any) -> NDArray[np.float32]:
        """Logits ``(n, C)``."""

    @abstractmethod
    def to_onnx(self) -> bytes:
        """The model as an ONNX file with one output "logits"; the same training gives the same bytes."""

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return softmax(self.predict_logits(X))


class Fit(Protocol):
    def __call__(
        self,
        train: Rows,
        val: Rows | None,
        *,
        classes: int,
        features: tuple[Feature, ...],
        seed: int,
        device: str = "cpu",
        max_epochs: int | None = None,
    ) -> Fitted: ...


class Build(Protocol):
    def __call__(self, X: Inputs, features: tuple[Feature, ...], classes: int) -> Any:
        """A net for rows like ``X`` (its statistics are taken from them), with torch's present random state."""


@dataclass(frozen=True)
class Recipe:
    """How a site trains one model.

    ``fit(train, val, classes=C, features=..., seed=...)``: ``val`` stops a training by epochs and is not used
    otherwise; without it ``max_epochs`` epochs are run. ``by_epochs`` says which of the two a recipe is.
    ``content`` changes with what is trained, where a name alone does not say it.
    """

    name: str
    kind: Kind
    description: str
    fit: Fit
    by_epochs: bool = False
    content: str = ""
