"""rigfl's three nets for tables (its family tabular_heterogeneous_3), as models of our own.

Rows are scaled by the mean and spread of the whole data set, as the peer's are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from peerwise.models import Recipe
from peerwise.models.fitted import fit_built
from race.splits import TABLE


class Scaled(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.body((x - TABLE["mean"]) / TABLE["std"])
        return logits


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


def linear() -> Recipe:
    return _recipe(lambda width: [nn.Linear(width, 64), nn.ReLU()])


def layers() -> Recipe:
    return _recipe(lambda width: [nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()])


def residual() -> Recipe:
    return _recipe(
        lambda width: [nn.Linear(width, 128), nn.ReLU(), Residual(), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()]
    )


def _recipe(parts: Callable[[int], list[nn.Module]]) -> Recipe:
    def build(X: Any, features: Any, classes: int) -> nn.Module:
        return Scaled(nn.Sequential(*parts(X.shape[1]), nn.Linear(64, classes)))

    return Recipe("", "table", "a net of rigfl", partial(fit_built, build), by_epochs=True)
