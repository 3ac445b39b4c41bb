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
from peerwise.models.training import seed_torch
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
        seed_torch(derived_seed(seed, "head"))
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
        seed_torch(seed)
        return Net(find_build(recipe)(X, features, classes), embedding, seed)


def first_weights(
    recipe: str, X: Inputs, features: tuple[Feature, ...], classes: int, *, embedding: int | None = None, seed: int
) -> Weights:
    """The weights of `new_net`. Sites that start from the same seed share the arrays of their parameters."""
    common, measuring = _first(recipe, _shape(X), _dtype(X), known_features(features), classes, embedding, seed)
    measured = {
        f"{path}.{name}": fixed(array) for path, layer in measuring for name, array in layer.measured(X).items()
    }
    return {**common, **measured}


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
    blank = blank_net(recipe, X, features, classes, embedding=embedding)
    if not _can_twin(blank) or _shapes(blank) != {name: np.shape(value) for name, value in weights.items()}:
        net = copy.deepcopy(blank)
        net.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
        return net.to(device)
    with torch.no_grad():
        twin = _twin(blank, weights, "", {})
    assert isinstance(twin, Net)
    return twin if device == "cpu" else twin.to(device)


def blank_net(
    recipe: str, X: Inputs, features: tuple[Feature, ...], classes: int, *, embedding: int | None = None
) -> Net:
    """The recipe's net for rows like these, its weights without meaning: the same object for all, not to be changed."""
    return _blank(recipe, _shape(X), _dtype(X), known_features(features), classes, embedding)


def net_weights(net: nn.Module) -> Weights:
    """All parameters and buffers, as arrays of their own that cannot be changed: so sites and rounds can share them."""
    return {name: _array(value) for name, value in net.state_dict().items()}


def net_parameters(net: nn.Module) -> Weights:
    """What is learned by gradient; the running statistics of BatchNorm and the scaling of inputs are not among it."""
    return {name: _array(value) for name, value in net.named_parameters()}


@lru_cache(maxsize=16)
def parameter_names(blank: Net) -> tuple[str, ...]:
    """The names of the parameters, of a net that nobody changes."""
    return tuple(name for name, _ in blank.named_parameters())


@lru_cache(maxsize=16)
def batch_norm_names(net: nn.Module) -> frozenset[str]:
    """The parameters that belong to normalisation over a batch, found by the type of the layer."""
    layers = {name: layer for name, layer in net.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)}
    return frozenset(f"{name}.{each}" for name, layer in layers.items() for each, _ in layer.named_parameters())


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


class KnownFeatures:
    """Features as part of a key: the same object for equal features, as hashing or comparing hundreds of columns at
    every look-up takes longer than a training step."""

    def __init__(self, features: tuple[Feature, ...]) -> None:
        self.features = features


_BY_VALUE: dict[tuple[Feature, ...], KnownFeatures] = {}
_BY_ID: dict[int, tuple[tuple[Feature, ...], KnownFeatures]] = {}
MOST_KNOWN = 4096


def known_features(features: tuple[Feature, ...]) -> KnownFeatures:
    found = _BY_ID.get(id(features))
    if found is None:
        if len(_BY_ID) >= MOST_KNOWN:
            _BY_ID.clear()
            _BY_VALUE.clear()
        known = _BY_VALUE.setdefault(features, KnownFeatures(features))
        found = _BY_ID[id(features)] = features, known  # held here, so that nothing else gets its id
    return found[1]


@lru_cache(maxsize=16)
def _blank(
    recipe: str,
    shape: tuple[tuple[int, ...], ...],
    dtype: np.dtype[Any],
    known: KnownFeatures,
    classes: int,
    embedding: int | None,
) -> Net:
    """Built once for all sites and rounds, because drawing weights that are then replaced takes longer than a step."""
    return new_net(recipe, _example(shape, dtype), known.features, classes, embedding=embedding, seed=0)


@lru_cache(maxsize=16)
def _first(
    recipe: str,
    shape: tuple[tuple[int, ...], ...],
    dtype: np.dtype[Any],
    known: KnownFeatures,
    classes: int,
    embedding: int | None,
    seed: int,
) -> tuple[Weights, list[tuple[str, Any]]]:
    """The weights for rows of zeros, and the layers with buffers that depend on the rows."""
    net = new_net(recipe, _example(shape, dtype), known.features, classes, embedding=embedding, seed=seed)
    return net_weights(net), [(path, layer) for path, layer in net.named_modules() if hasattr(layer, "measured")]


def _example(shape: tuple[tuple[int, ...], ...], dtype: np.dtype[Any]) -> Inputs:
    parts = [np.zeros((1, *rest), dtype=dtype) for rest in shape]
    return Sequences(*parts) if len(parts) > 1 else parts[0]


@lru_cache(maxsize=16)
def _shapes(net: Net) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in net.state_dict().items()}


@lru_cache(maxsize=16)
def _can_twin(net: Net) -> bool:
    """Whether parameters, buffers and settings that nobody changes are all that its layers hold. An LSTM's layer also
    keeps its weights in a list."""
    plain = (bool, int, float, str, type(None), tuple, torch.dtype, type)
    return not any(
        not isinstance(value, plain)
        for layer in net.modules()
        for name, value in vars(layer).items()
        if name not in _PARTS and not (isinstance(value, dict | set | list) and not value)
    )


_PARTS = ("_parameters", "_buffers", "_modules")


def _twin(
    module: nn.Module, weights: Mapping[str, NDArray[Any]], prefix: str, known: dict[int, nn.Parameter]
) -> nn.Module:
    """A copy with these weights: a tenth of the time of a deep copy that is then loaded."""
    twin: nn.Module = object.__new__(type(module))
    vars(twin).update(vars(module))
    for name, value in vars(module).items():
        if isinstance(value, (dict, set, list)):
            vars(twin)[name] = value.copy()
    for name, parameter in module._parameters.items():
        if parameter is not None:
            loaded = known.get(id(parameter))
            if loaded is None:
                value = _loaded(parameter, weights[prefix + name])
                loaded = known[id(parameter)] = nn.Parameter(value, requires_grad=parameter.requires_grad)
            twin._parameters[name] = loaded
    for name, buffer in module._buffers.items():
        if buffer is not None:
            kept = prefix + name in weights
            twin._buffers[name] = _loaded(buffer, weights[prefix + name]) if kept else buffer.clone()
    for name, child in module._modules.items():
        if child is not None:
            twin._modules[name] = _twin(child, weights, f"{prefix}{name}.", known)
    return twin


def _loaded(like: Tensor, array: NDArray[Any]) -> Tensor:
    """In the memory order of ``like``. By NumPy, as torch does not take arrays that cannot be changed."""
    loaded = torch.empty_like(like)
    loaded.numpy()[...] = array
    return loaded


def _shape(X: Inputs) -> tuple[tuple[int, ...], ...]:
    return (X.static.shape[1:], X.series.shape[1:]) if isinstance(X, Sequences) else (X.shape[1:],)


def _dtype(X: Inputs) -> np.dtype[Any]:
    return X.series.dtype if isinstance(X, Sequences) else X.dtype


def _array(value: Tensor) -> NDArray[Any]:
    return fixed(np.array(value.detach().cpu().numpy(), order="C"))


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, which cannot be changed from now on."""
    array.flags.writeable = False
    return array
