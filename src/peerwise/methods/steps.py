"""Gradients at a net's weights and elsewhere: what the steps of methods are made of, where a plain step will not do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.errors import ConfigError
from peerwise.models.training import Batch, Optimizer, cross_entropy

Tensors = list[Tensor]
Update = Callable[[Batch], float]

_CROSS_ENTROPY = cross_entropy()


def within(name: str, value: float, low: float, high: float = math.inf) -> float:
    """The value of a hyper-parameter, refused where it is not a finite number from ``low`` to ``high``."""
    if not (math.isfinite(value) and low <= value <= high):
        top = f" to {high:g}" if math.isfinite(high) else " up"
        raise ConfigError(f"{name} is {value}: expected a finite number from {low:g}{top}.")
    return value


def copies(net: nn.Module) -> Tensors:
    """The parameters as they are now."""
    return [parameter.detach().clone() for parameter in net.parameters()]


def in_order(net: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> Tensors:
    """Arrays by the names of parameters, as tensors in the order of the net's."""
    return [torch.tensor(arrays[name], device=value.device) for name, value in net.named_parameters()]


def norm(values: Sequence[Tensor]) -> float:
    """Euclidean length of all numbers together."""
    return float(torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(list(values))))))


def same_chance(batch: Batch) -> AbstractContextManager[None]:
    """What is drawn within is drawn again afterwards: two looks at a batch have the same dropout."""
    return torch.random.fork_rng(devices=[batch[0].device] if batch[0].is_cuda else [])


def gradient(net: nn.Module, batch: Batch) -> tuple[float, Tensors]:
    """Cross entropy and its gradient at the net's weights, by parameter."""
    loss = _CROSS_ENTROPY(net, batch)
    return loss.item(), list(torch.autograd.grad(loss, list(net.parameters()), materialize_grads=True))


def gradient_at(net: nn.Module, batch: Batch, weights: Tensors) -> tuple[float, Tensors]:
    """The same at other weights; the net's own stay, and so does what its BatchNorm layers remember of their inputs."""
    parameters = list(net.parameters())
    kept = [parameter.data for parameter in parameters]
    with _unrecorded(net):
        _place(parameters, weights)
        try:
            return gradient(net, batch)
        finally:
            _place(parameters, kept)


def step_along(net: nn.Module, optimizer: Optimizer, direction: Tensors) -> None:
    """One step of the optimiser with ``direction`` for the gradient."""
    for parameter, value in zip(net.parameters(), direction, strict=True):
        parameter.grad = value
    optimizer.step()


def pulled_step(
    net: nn.Module,
    optimizer: Optimizer,
    *,
    towards: Tensors | None = None,
    strength: float = 0.0,
    push: Tensors | None = None,
) -> Update:
    """A step along g(w) + strength (w - towards) + push."""

    def step(batch: Batch) -> float:
        loss, along = gradient(net, batch)
        with torch.no_grad():
            if towards is not None:
                torch._foreach_add_(along, torch._foreach_sub(list(net.parameters()), towards), alpha=strength)
            if push is not None:
                torch._foreach_add_(along, push)
        step_along(net, optimizer, along)
        return loss

    return step


@torch.no_grad()
def uphill(net: nn.Module, along: Tensors, radius: float) -> Tensors:
    """w + radius along / ||along||: where, so near, the loss is highest; w itself where there is no slope."""
    length = norm(along)
    scale = radius / length if length > 0 else 0.0
    return list(torch._foreach_add([parameter.data for parameter in net.parameters()], along, alpha=scale))


def sharp_gradient(net: nn.Module, batch: Batch, radius: float) -> tuple[float, Tensors]:
    """The loss at w, and the gradient g(w + radius g / ||g||), both with the same dropout."""
    with same_chance(batch):
        loss, flat = gradient(net, batch)
    return loss, gradient_at(net, batch, uphill(net, flat, radius))[1]


def _place(parameters: Sequence[nn.Parameter], values: Sequence[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.data = value


@contextmanager
def _unrecorded(net: nn.Module) -> Iterator[None]:
    layers = [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    recording = [layer.track_running_stats for layer in layers]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer, before in zip(layers, recording, strict=True):
            layer.track_running_stats = before
