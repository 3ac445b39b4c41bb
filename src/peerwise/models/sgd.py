"""Stochastic gradient descent without torch's class, for the reason that `Adam` gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


class SGD:
    """w <- w - lr g, as ``torch.optim.SGD(parameters, lr)`` does it."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self._parameters = list(parameters)
        self.param_groups: list[dict[str, Any]] = [{"params": self._parameters, "lr": lr}]

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        learning = [parameter for parameter in self._parameters if parameter.grad is not None]
        gradients = [parameter.grad for parameter in learning]
        torch._foreach_add_(learning, gradients, alpha=-self.param_groups[0]["lr"])  # type: ignore[arg-type]
