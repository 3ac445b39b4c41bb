"""Recipes for tables: logistic regression, forest, histogram boosting, MLP.

Each imputes inside (median, or most frequent category), one-hot encodes categories, and works in float32 from the
start, so that its ONNX file sees exactly the numbers it was fitted on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from peerwise.data.rows import Feature, Inputs, Rows
from peerwise.errors import ModelError
from peerwise.models.fitted import NetFitted, SklearnFitted, fit_built
from peerwise.models.outputs import FLOOR
from peerwise.models.recipe import Build, Fit, Fitted

# The spread of a number that never varied: what another site's rows have there is divided away, as otherwise it would
# meet weights that no row has ever moved. Finite, as all that a net holds must be.
NEVER_VARIED = 1e30


class Prepare(nn.Module):
    """(n, features) with NaN -> (n, numbers + categories): imputed, one-hot, and standardised if ``scale``; a number
    that is the same in all of ``X`` is then 0 in every row."""

    fill: Tensor
    numbers: Tensor
    hot_columns: Tensor
    hot_codes: Tensor
    mean: Tensor
    spread: Tensor

    def __init__(self, X: NDArray[np.float32], features: tuple[Feature, ...], *, scale: bool) -> None:
        super().__init__()
        width = X.shape[1]
        if features and len(features) != width:
            raise ModelError(f"{len(features)} features are named, the rows have {width} columns: name every column.")
        sizes = [len(feature.categories) for feature in features] or [0] * width
        numbers = [column for column in range(width) if not sizes[column]]
        hot = [(column, code) for column in range(width) for code in range(sizes[column])]
        fill = np.array([_most_frequent(c) if size else _median(c) for c, size in zip(X.T, sizes, strict=True)])
        filled = np.where(np.isnan(X), fill.astype(np.float32), X)[:, numbers].astype(np.float64)
        spread = filled.std(axis=0) if scale else np.ones(len(numbers))
        self.width = len(numbers) + len(hot)
        self._keep("fill", fill, torch.float32)
        self._keep("numbers", numbers, torch.int64)
        self._keep("hot_columns", [column for column, _ in hot], torch.int64)
        self._keep("hot_codes", [code for _, code in hot], torch.float32)
        self._keep("mean", filled.mean(axis=0) if scale else np.zeros(len(numbers)), torch.float32)
        self._keep("spread", np.where(spread > 0, spread, NEVER_VARIED), torch.float32)

    def _keep(self, name: str, values: Any, dtype: torch.dtype) -> None:
        self.register_buffer(name, torch.as_tensor(np.asarray(values), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        filled = torch.where(torch.isnan(x), self.fill, x)
        numbers = (filled.index_select(1, self.numbers) - self.mean) / self.spread
        if not len(self.hot_codes):
            return numbers
        hot = torch.eq(filled.index_select(1, self.hot_columns), self.hot_codes).to(torch.float32)
        return torch.cat([numbers, hot], dim=1)


class Constant(nn.Module):
    """The same logits for every row: all that one class can teach."""

    logits: Tensor

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.register_buffer("logits", logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits.expand(x.shape[0], -1)


def build_mlp(X: Inputs, features: tuple[Feature, ...], classes: int) -> nn.Module:
    prepare = Prepare(_table(X), features, scale=True)
    hidden = (nn.Linear(prepare.width, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.2))
    return nn.Sequential(prepare, *hidden, nn.Linear(64, classes))


def always(code: int, classes: int, X: NDArray[np.float32]) -> Fitted:
    """What can be learned from rows of one class: that class, whatever the row."""
    logits = torch.full((1, classes), float(np.log(FLOOR)))
    logits[0, code] = 0.0
    return NetFitted(Constant(logits), X[:1], None)


def fit_sklearn(
    make: Callable[[int], Any],
    scale: bool,
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
    """``weights``: what each row counts, beside the weight of its class; all alike by default."""
    X = _table(train.X)
    present = np.unique(train.y)
    if len(present) == 1:
        return always(int(present[0]), classes, X)
    prepare = Prepare(X, features, scale=scale)
    model = make(seed).fit(prepare(torch.from_numpy(X)).numpy(), train.y, sample_weight=weights)
    return SklearnFitted(prepare, model, X[:1], classes)


def _table(inputs: Inputs) -> NDArray[np.float32]:
    X = np.ascontiguousarray(inputs, dtype=np.float32)
    if X.ndim != 2 or not len(X):
        raise ModelError(f"rows of shape {X.shape}: expected at least one row of a table (n, features).")
    return X


def _median(column: NDArray[np.float32]) -> float:
    known = column[~np.isnan(column)]
    return float(np.median(known)) if len(known) else 0.0


def _most_frequent(column: NDArray[np.float32]) -> float:
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return float(values[counts.argmax()]) if len(values) else 0.0


def _logistic(seed: int) -> LogisticRegression:
    return LogisticRegression(max_iter=1000, class_weight="balanced", random_state=seed)


def _forest(seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(100, min_samples_leaf=10, class_weight="balanced", random_state=seed)


def _boosting(seed: int) -> HistGradientBoostingClassifier:
    # no class weights: with weights the binning alone takes ten times as long as the whole fit
    return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)


BUILDS: dict[str, Build] = {"mlp": build_mlp}
FITS: dict[str, Fit] = {
    "logistic": partial(fit_sklearn, _logistic, True),
    "forest": partial(fit_sklearn, _forest, False),
    "boosting": partial(fit_sklearn, _boosting, False),
    "mlp": partial(fit_built, build_mlp),
}
