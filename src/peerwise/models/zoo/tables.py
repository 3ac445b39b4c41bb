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
        self.width, self._scale, self._numbers = len(numbers) + len(hot), scale, tuple(numbers)
        measured = self.measured(X)
        self.register_buffer("fill", torch.from_numpy(measured["fill"]))
        self._keep("numbers", numbers, torch.int64)
        self._keep("hot_columns", [column for column, _ in hot], torch.int64)
        self._keep("hot_codes", [code for _, code in hot], torch.float32)
        self.register_buffer("mean", torch.from_numpy(measured["mean"]))
        self.register_buffer("spread", torch.from_numpy(measured["spread"]))

    def _keep(self, name: str, values: Any, dtype: torch.dtype) -> None:
        self.register_buffer(name, torch.as_tensor(np.asarray(values), dtype=dtype))

    def measured(self, X: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """The buffers that depend on the rows."""
        X, numbers = np.asarray(X, dtype=np.float32), list(self._numbers)
        fill = _fill(X, numbers)
        filled = np.where(np.isnan(X), fill, X)[:, numbers].astype(np.float64)
        spread = filled.std(axis=0) if self._scale else np.ones(len(numbers))
        return {
            "fill": fill,
            "mean": np.asarray(filled.mean(axis=0) if self._scale else np.zeros(len(numbers)), dtype=np.float32),
            "spread": np.where(spread > 0, spread, NEVER_VARIED).astype(np.float32),
        }

    def forward(self, x: Tensor) -> Tensor:
        filled = torch.where(torch.isnan(x), self.fill, x)
        numbers = (filled.index_select(1, self.numbers) - self.mean) / self.spread
        return numbers if not len(self.hot_codes) else _with_hot(numbers, filled, self.hot_columns, self.hot_codes)


def scaled_rows(
    x: Tensor, by_row: Callable[[str], Tensor], numbers: Tensor, hot_columns: Tensor, hot_codes: Tensor
) -> Tensor:
    """What `Prepare` makes of rows ``x`` where each row has its own "fill", "mean" and "spread"."""
    missing = torch.isnan(x)
    filled = torch.where(missing, by_row("fill"), x) if missing.any() else x
    columns = numbers.shape[0]
    scaled = filled if columns == x.shape[1] else filled.index_select(1, numbers)
    scaled = (scaled - by_row("mean")).div_(by_row("spread"))
    return scaled if not len(hot_codes) else _with_hot(scaled, filled, hot_columns, hot_codes)


def _with_hot(numbers: Tensor, filled: Tensor, hot_columns: Tensor, hot_codes: Tensor) -> Tensor:
    hot = torch.eq(filled.index_select(1, hot_columns), hot_codes).to(torch.float32)
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


def _fill(X: NDArray[np.float32], numbers: list[int]) -> NDArray[np.float32]:
    """What stands for a missing value in each column: the median of a number, the most frequent category."""
    fill = np.zeros(X.shape[1], dtype=np.float32)
    whole = np.zeros(X.shape[1], dtype=bool)
    whole[numbers] = ~np.isnan(X[:, numbers]).any(axis=0)
    fill[whole] = np.median(X[:, whole], axis=0)  # of all columns at once: one by one takes a hundred times as long
    for column in np.setdiff1d(numbers, np.flatnonzero(whole)):
        fill[column] = _median(X[:, column])
    for column in np.setdiff1d(np.arange(X.shape[1]), numbers):
        fill[column] = _most_frequent(X[:, column])
    return fill


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
