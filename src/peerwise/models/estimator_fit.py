"""Any scikit-learn compatible classifier fitted to one site's table, over all classes that the sites have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from peerwise.data.rows import Feature, Rows
from peerwise.errors import ModelError, PeerwiseError
from peerwise.models.onnx_graph import finished, first_line, probabilities_to_logits
from peerwise.models.outputs import FLOOR, checked_probabilities
from peerwise.models.recipe import Fitted
from peerwise.models.sklearn_onnx import sklearn_graph
from peerwise.models.zoo.tables import always

Codes = NDArray[np.int64]


class EstimatorFitted(Fitted):
    """``present``: the class code of each column of the estimator's answers."""

    def __init__(self, model: Any, name: str, width: int, present: Codes, classes: int) -> None:
        self._model, self._name, self._width, self._present, self._classes = model, name, width, present, classes

    def predict_logits(self, X: Any) -> NDArray[np.float32]:
        everywhere = np.zeros((len(X), self._classes), dtype=np.float32)
        if len(X):
            said = self._model.predict_proba(_table(X))
            everywhere[:, self._present] = checked_probabilities(said, len(X), len(self._present), self._name)
        return np.log(np.maximum(everywhere, np.float32(FLOOR)))

    def to_onnx(self) -> bytes:
        from skl2onnx.common.data_types import FloatTensorType

        try:
            graph = sklearn_graph(self._model, [("x", FloatTensorType([None, self._width]))])
        except ModelError as error:
            raise ModelError(f"model {self._name!r}: {error}") from error
        return finished(probabilities_to_logits(graph, [int(code) for code in self._present], self._classes))


def fit_estimator(
    make: Callable[[int], Any],
    name: str,
    train: Rows,
    val: Rows | None,
    *,
    classes: int,
    features: tuple[Feature, ...],
    seed: int,
    device: str = "cpu",
    max_epochs: int | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Fitted:
    """``make(seed)`` gives the classifier. It is fitted to float32 numbers with NaN for missing values and codes for
    categories, and to class codes from 0 on without gaps, as some libraries want them."""
    X = _table(train.X)
    present, y = np.unique(train.y, return_inverse=True)
    if len(present) == 1:
        return always(int(present[0]), classes, X)
    try:
        model = _seeded(clone(make(seed % 2**31)), seed % 2**31)  # some libraries want 31 bits
        model.fit(X, y, **_weighted(model, name, weights))
    except (OSError, MemoryError, PeerwiseError):
        raise
    except Exception as error:
        raise ModelError(
            f"model {name!r} could not be fitted ({first_line(error)}): it is given {len(X)} rows of float32 numbers "
            f"with NaN for missing values. Impute them in a pipeline step, or take another model."
        ) from error
    return EstimatorFitted(model, name, X.shape[1], present, classes)


def _seeded(model: Any, seed: int) -> Any:
    """Also the steps within; a number that was given already stays."""
    parameters = model.get_params(deep=True)
    free = [key for key, value in parameters.items() if key.split("__")[-1] == "random_state" and value is None]
    return model.set_params(**dict.fromkeys(free, seed)) if free else model


def _weighted(model: Any, name: str, weights: NDArray[np.float64] | None) -> dict[str, Any]:
    if weights is None or (weights == 1).all():
        return {}
    step, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if not has_fit_parameter(last, "sample_weight"):
        raise ModelError(
            f"model {name!r} takes no sample_weight, and here rows count differently: expected one that does. Name "
            f"another model first, or another method."
        )
    return {f"{step}__sample_weight" if step else "sample_weight": weights}


def _table(X: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(X, dtype=np.float32)
