"""A model of two parameters whose gradient is worked out by hand, and small federations for nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.checks.method import awkward_sites
from peerwise.data import Rows, Site
from peerwise.methods import Method
from peerwise.methods.averaging import Weights
from peerwise.parcels import Parcel

Numbers = NDArray[np.float64]


class TwoWeights(nn.Module):
    """logits = (w_1 x, w_2 x)."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([first, second], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, None] * self.weights

    @property
    def now(self) -> Numbers:
        return np.array(self.weights.detach().numpy())


X, Y = np.array([1.0, -0.5, 2.0, 0.25, -1.5]), np.array([0, 1, 1, 0, 1])


def rows(x: Numbers = X, y: NDArray[Any] = Y) -> tuple[Tensor, Tensor]:
    return torch.tensor(x, dtype=torch.float64), torch.tensor(y)


def slope(w: Numbers, x: Numbers = X, y: NDArray[Any] = Y) -> Numbers:
    """Of the mean cross entropy: mean over rows of (softmax(w x) - onehot(y)) x."""
    e = np.exp(np.outer(x, w))
    found: Numbers = ((e / e.sum(axis=1, keepdims=True) - np.eye(2)[y]) * x[:, None]).mean(axis=0)
    return found


def uphill(w: Numbers, radius: float) -> Numbers:
    g = slope(w)
    found: Numbers = w + radius * g / np.linalg.norm(g)
    return found


def tables(**changes: Any) -> list[Site]:
    """Sites with perceptrons (and their dropout): one lacks a class, one has a single class, one has two rows."""
    return [site.replace(recipes=("mlp",), **changes) for site in awkward_sites()]


def images(sizes: tuple[int, ...] = (12, 20, 8), recipe: str = "cnn8") -> list[Site]:
    """Sites with grey images of 28 pixels in three classes, each class with a brighter band."""
    return [_images(f"site {place}", size, recipe) for place, size in enumerate(sizes)]


def _images(name: str, size: int, recipe: str) -> Site:
    rng = np.random.default_rng([size, *name.encode()])
    y = np.arange(size + 6) % 3
    X = rng.integers(0, 120, size=(len(y), 1, 28, 28)).astype(np.uint8)
    for row, label in enumerate(y):
        X[row, :, 9 * label : 9 * label + 9] += 100
    train, val, test = Rows(X[:size], y[:size]), Rows(X[size : size + 3], y[size : size + 3]), Rows(X[-3:], y[-3:])
    return Site(name, "image", ("a", "b", "c"), train, val, test, recipes=(recipe,))


def begun(method: Method, sites: list[Site]) -> list[Site]:
    for site in sites:
        method.start(site, np.random.default_rng(7))
    return sites


def play(method: Method, sites: list[Site], rounds: int = 1) -> tuple[list[Site], dict[str, Any]]:
    """The sites after these rounds, without going back to the best; and the hub's memory."""
    memory: dict[str, Any] = {}
    begun(method, sites)
    for round in range(rounds):
        told, memory = method.combine(said(method, sites, round), memory, np.random.default_rng(round))
        for site in sites:
            method.absorb(site, round, told)
    return sites, memory


def said(method: Method, sites: list[Site], round: int = 0) -> dict[str, Parcel]:
    return {site.name: method.share(site, round) for site in sites}


def same(one: list[Site], two: list[Site], key: str = "net", other: str = "") -> bool:
    """Bit for bit, at every site."""
    pairs = zip(one, two, strict=True)
    return all(
        set(a.state[key]) == set(b.state[other or key])
        and all(np.array_equal(a.state[key][name], b.state[other or key][name]) for name in a.state[key])
        for a, b in pairs
    )


def furthest(one: Weights, two: Weights) -> float:
    """The largest difference of two numbers in the same place."""
    assert set(one) == set(two)
    return max(float(np.abs(one[name] - two[name]).max(initial=0)) for name in one)


def distance(one: Weights, two: Weights) -> float:
    return float(np.sqrt(sum(np.square(one[name] - two[name]).sum() for name in one)))
