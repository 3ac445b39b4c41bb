"""A member of a pool: any classifier behind one face, with its name and its class labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ModelError
from peerwise.models.onnx_model import OnnxAnswers
from peerwise.models.outputs import checked, checked_probabilities, count_rows, log_probabilities, slices, softmax
from peerwise.models.recipe import Fitted

if TYPE_CHECKING:
    from torch import Tensor, nn

Transform = Callable[[Any], Any]
Probabilities = NDArray[np.float64]


class Member(ABC):
    """A model of a pool. ``classes`` are its own labels in the order of its columns; ``model`` is what was wrapped."""

    def __init__(self, model: Any, name: str, classes: tuple[Any, ...], transform: Transform | None = None) -> None:
        self.model, self.name, self.classes, self.transform = model, name, classes, transform

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, classes={list(self.classes)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Member:
        # A member never changes; sklearn's clone() copies parameters deeply, and would copy the whole pool each time.
        return self

    @abstractmethod
    def predict_proba(self, X: Any) -> Probabilities:
        """Probabilities ``(n, len(classes))``."""

    @abstractmethod
    def predict_logits(self, X: Any) -> Probabilities:
        """Logits ``(n, len(classes))``; log of clipped probabilities where the model has no logits."""

    def inputs(self, X: Any) -> Any:
        return X if self.transform is None else self.transform(X)


class _WithProbabilities(Member):
    def predict_proba(self, X: Any) -> Probabilities:
        return checked_probabilities(self._call(self.inputs(X)), count_rows(X), len(self.classes), self.name)

    def predict_logits(self, X: Any) -> Probabilities:
        return log_probabilities(self.predict_proba(X))

    @abstractmethod
    def _call(self, X: Any) -> Any: ...


class _WithLogits(Member):
    def predict_logits(self, X: Any) -> Probabilities:
        return checked(self._call(X), len(X), len(self.classes), self.name)

    def predict_proba(self, X: Any) -> Probabilities:
        return softmax(self.predict_logits(X))

    @abstractmethod
    def _call(self, X: Any) -> Any: ...


class EstimatorMember(_WithProbabilities):
    """Anything with ``predict_proba``: sklearn, xgboost, lightgbm."""

    def _call(self, X: Any) -> Any:
        return self.model.predict_proba(X)


class BoosterMember(_WithProbabilities):
    """A raw xgboost or lightgbm Booster; one column means the probability of the second class."""

    def _call(self, X: Any) -> Any:
        if type(self.model).__module__.startswith("xgboost"):
            import xgboost

            X = xgboost.DMatrix(X)
        outputs = np.asarray(self.model.predict(X))
        return np.stack([1.0 - outputs, outputs], axis=1) if outputs.ndim == 1 and len(self.classes) == 2 else outputs


class CallableMember(_WithProbabilities):
    """A function of X that returns probabilities."""

    def _call(self, X: Any) -> Any:
        return self.model(X)


class OnnxMember(Member):
    """An ONNX file."""

    model: OnnxAnswers

    def predict_proba(self, X: Any) -> Probabilities:
        return self.model.predict_proba(self.inputs(X))

    def predict_logits(self, X: Any) -> Probabilities:
        return self.model.predict_logits(self.inputs(X))


class FittedMember(_WithLogits):
    """A model of our own zoo."""

    model: Fitted

    def _call(self, X: Any) -> Any:
        return self.model.predict_logits(self.inputs(X))


class TorchMember(_WithLogits):
    """A torch module whose output is logits; ``transform`` makes its input tensor, or a tuple of them, from X."""

    model: nn.Module

    def __init__(
        self, model: nn.Module, name: str, classes: tuple[Any, ...], transform: Transform | None, device: str
    ) -> None:
        super().__init__(model.to(device).eval(), name, classes, transform)
        self.device = device

    def tensors(self, X: Any) -> tuple[Tensor, ...]:
        from torch import Tensor

        from peerwise.models.fitted import tensors

        if self.transform is None:
            return tensors(X, self.device)
        made = self.transform(X)
        made = made if isinstance(made, tuple) else (made,)
        if not all(isinstance(item, Tensor) for item in made):
            raise ModelError(
                f"the transform of {self.name!r} gave {type(made[0]).__name__}: expected a tensor or a tuple of them."
            )
        return tuple(item.to(self.device) for item in made)

    def _call(self, X: Any) -> Any:
        import torch

        self.model.eval()
        rows = X.iloc if hasattr(X, "iloc") else X
        with torch.inference_mode():
            parts = [self.model(*self.tensors(rows[part])) for part in slices(X)]
        if any(not isinstance(part, torch.Tensor) for part in parts):
            raise ModelError(f"{self.name!r} gave {type(parts[0]).__name__}: expected a tensor of logits (n, classes).")
        if not parts:
            return np.zeros((0, len(self.classes)))
        return torch.cat(parts).double().cpu().numpy()
