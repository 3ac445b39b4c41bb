"""Recipes for time series with static inputs: TCN, 1-D CNN, LSTM.

The static inputs are repeated at every step beside the series. Both are standardised inside with means and spreads of
the training rows; a missing value becomes the mean, and so does every value of an input that never varied there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.data.rows import Feature, Inputs, Sequences
from peerwise.errors import ModelError
from peerwise.models.fitted import fit_built
from peerwise.models.recipe import Build, Fit
from peerwise.models.zoo.tables import NEVER_VARIED


class Steps(nn.Module):
    """static (n, s) and series (n, time, f) -> body((n, time, f + s)), standardised and without NaN."""

    static_mean: Tensor
    static_spread: Tensor
    series_mean: Tensor
    series_spread: Tensor

    def __init__(self, X: Sequences, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        for name, values in self.measured(X).items():
            self.register_buffer(name, torch.from_numpy(values))

    def measured(self, X: Sequences) -> dict[str, NDArray[np.float32]]:
        """The buffers that depend on the rows."""
        static, series = _moments(X.static), _moments(X.series.reshape(-1, X.series.shape[-1]))
        names = ("static_mean", "static_spread", "series_mean", "series_spread")
        return dict(zip(names, (*static, *series), strict=True))

    def forward(self, static: Tensor, series: Tensor) -> Tensor:
        series = _standardise(series, self.series_mean, self.series_spread)
        static = _standardise(static, self.static_mean, self.static_spread)
        repeated = static.unsqueeze(1).expand(-1, series.shape[1], -1)
        logits: Tensor = self.body(torch.cat([series, repeated], dim=2))
        return logits


class Causal(nn.Module):
    """Two causal dilated convolutions with a residual: no step sees a later one."""

    def __init__(self, inputs: int, filters: int, kernel: int, dilation: int, dropout: float) -> None:
        super().__init__()
        past = nn.ConstantPad1d(((kernel - 1) * dilation, 0), 0.0)
        self.body = nn.Sequential(
            *(past, nn.Conv1d(inputs, filters, kernel, dilation=dilation), nn.ReLU(), nn.Dropout(dropout)),
            *(past, nn.Conv1d(filters, filters, kernel, dilation=dilation), nn.ReLU(), nn.Dropout(dropout)),
        )
        self.shortcut = nn.Conv1d(inputs, filters, 1) if inputs != filters else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class TCN(nn.Module):
    """Temporal convolutional network (Bai et al., 2018), 2 levels of 32 filters; without weight normalisation."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.levels = nn.Sequential(Causal(inputs, 32, 3, 1, 0.3), Causal(32, 32, 3, 2, 0.3))
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.levels(x.transpose(1, 2))[:, :, -1])
        return logits


class CNN1d(nn.Module):
    """One convolution of 32 filters, its mean over time, 32 units."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(inputs, 32, 3, padding=1), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.conv(x.transpose(1, 2)).mean(dim=2))
        return logits


class LSTM(nn.Module):
    """One LSTM layer of 64 units; its last step decides."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, 64, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.lstm(x)[0][:, -1])
        return logits


def build_sequence(
    body: Callable[[int, int], nn.Module], X: Inputs, features: tuple[Feature, ...], classes: int
) -> nn.Module:
    if not isinstance(X, Sequences):
        raise ModelError(f"rows of type {type(X).__name__}: expected Sequences with static and series inputs.")
    return Steps(X, body(X.series.shape[2] + X.static.shape[1], classes))


def _moments(values: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    known = ~np.isnan(values)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0, dtype=np.float64) / counts
    variance = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0, dtype=np.float64) / counts
    spread = np.where(variance > 0, np.sqrt(variance), NEVER_VARIED)
    return mean.astype(np.float32), spread.astype(np.float32)


def _standardise(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    return (torch.where(torch.isnan(x), mean, x) - mean) / spread


BUILDS: dict[str, Build] = {
    name: partial(build_sequence, body) for name, body in (("tcn", TCN), ("cnn1d", CNN1d), ("lstm", LSTM))
}
# Balanced, as published for clinical sequences, where the outcome is rare.
FITS: dict[str, Fit] = {name: partial(fit_built, build, balanced=True) for name, build in BUILDS.items()}
