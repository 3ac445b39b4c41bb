"""Nets in two parts, backbone and head, as methods with rounds use them; their weights as plain arrays."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.data.rows import Feature, Inputs, Sequences
from peerwise.data.site import derived_seed
from peerwise.errors import ModelError
from peerwise.models.outputs import slices, softmax
from peerwise.models.zoo import find_build

Weights = dict[str, NDArray[Any]]


class Net(nn.Module):
    """logits = head(embed(x)), embed(x) = backbone(x), brought to ``embedding`` numbers by adaptive average pooling
    over the features where that is given: so backbones of any width meet, and heads and prototypes can be compared."""

    def __init__(self, body: nn.Module, embedding: int | None, seed: int) -> None:
        super().__init__()
        width, classes = _cut_head(body)
        self.backbone = body
        self.pool: nn.Module = nn.Identity()
        if embedding is not None and embedding != width:
            self.pool = nn.AdaptiveAvgPool1d(embedding)
        # A stream of its own: sites with different backbones start from the same head.
        torch.manual_seed(derived_seed(seed, "head"))
        self.head = nn.Linear(embedding or width, classes)

    @property
    def width(self) -> int:
        """Numbers in an embedding."""
        return self.head.in_features

    def embed(self, *inputs: Tensor) -> Tensor:
        features: Tensor = self.backbone(*inputs)
        if isinstance(self.pool, nn.Identity):
            return features
        pooled: Tensor = self.pool(features.unsqueeze(1))
        return pooled.squeeze(1)

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embed(*inputs))
        return logits


def new_net(
    recipe: str, X: Inputs, features: tuple[Feature, ...], classes: int, *, embedding: int | None = None, seed: int
) -> Net:
    """The recipe's net for rows like these, freshly initialised by ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Net(find_build(recipe)(X, features, classes), embedding, seed)


def loaded_net(
    recipe: str,
    X: Inputs,
    features: tuple[Feature, ...],
    classes: int,
    weights: Mapping[str, NDArray[Any]],
    *,
    embedding: int | None = None,
    device: str = "cpu",
) -> Net:
    """The recipe's net with these weights and buffers."""
    net = copy.deepcopy(_blank(recipe, _shape(X), str(_dtype(X)), features, classes, embedding))
    net.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    return net.to(device)


def net_weights(net: nn.Module) -> Weights:
    """All parameters and buffers, as arrays of their own."""
    return {name: _array(value) for name, value in net.state_dict().items()}


def net_parameters(net: nn.Module) -> Weights:
    """What is learned by gradient; the running statistics of BatchNorm and the scaling of inputs are not among it."""
    return {name: _array(value) for name, value in net.named_parameters()}


def batch_norm_names(net: nn.Module) -> set[str]:
    """The parameters that belong to normalisation over a batch, found by the type of the layer."""
    layers = {name: layer for name, layer in net.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)}
    return {f"{name}.{parameter}" for name, layer in layers.items() for parameter, _ in layer.named_parameters()}


def net_probabilities(net: nn.Module, inputs: tuple[Tensor, ...]) -> NDArray[np.float64]:
    """Class probabilities (n, classes)."""
    return softmax(in_parts(net, net, inputs).cpu().numpy())


@torch.no_grad()
def in_parts(net: nn.Module, function: Any, inputs: tuple[Tensor, ...]) -> Tensor:
    """``function`` (the net, or its ``embed``) over all rows in evaluation mode, some at a time."""
    net.eval()
    return torch.cat([function(*(tensor[part] for tensor in inputs)) for part in slices(inputs[0])])


def _cut_head(body: nn.Module) -> tuple[int, int]:
    """Take the last linear layer off; its width and the number of classes."""
    linear = [(name, layer) for name, layer in body.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise ModelError(f"{type(body).__name__} has no linear layer: expected one at its end, as the classifier.")
    path, last = linear[-1]
    place, _, name = path.rpartition(".")
    setattr(body.get_submodule(place), name, nn.Identity())
    return last.in_features, last.out_features


@lru_cache(maxsize=16)
def _blank(
    recipe: str,
    shape: tuple[tuple[int, ...], ...],
    dtype: str,
    features: tuple[Feature, ...],
    classes: int,
    embedding: int | None,
) -> Net:
    """Built once for all sites and rounds, because drawing weights that are then replaced takes longer than a step."""
    parts = [np.zeros((1, *rest), dtype=dtype) for rest in shape]
    example = Sequences(*parts) if len(parts) > 1 else parts[0]
    return new_net(recipe, example, features, classes, embedding=embedding, seed=0)


def _shape(X: Inputs) -> tuple[tuple[int, ...], ...]:
    parts = (X.static, X.series) if isinstance(X, Sequences) else (X,)
    return tuple(part.shape[1:] for part in parts)


def _dtype(X: Inputs) -> np.dtype[Any]:
    return X.series.dtype if isinstance(X, Sequences) else X.dtype


def _array(value: Tensor) -> NDArray[Any]:
    return np.array(value.detach().cpu().numpy(), order="C")
