"""python benchmarks/stacked.py: CPU time of training and asking many small sites together, beside a lean torch loop.

The lean loop is what one would write by hand: one net for all sites, weights copied in place, torch.autograd.grad and
torch._foreach updates, no optimizer object and no copy of a state. Ratios are of figures taken in turns in one run."""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from measure import load_line, timed
from torch import nn

from peerwise.data import Dataset, Rows, Site, load
from peerwise.methods.ditto import Ditto
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.fedproto import FedProto
from peerwise.methods.fedprox import FedProx
from peerwise.methods.local_rounds import LocalRounds
from peerwise.methods.moon import Moon
from peerwise.methods.scaffold import Scaffold
from peerwise.models import one_thread

BUDGET: dict[str, Any] = {"rounds": 10, "local_epochs": 1, "batch_size": 16, "lr": 0.05}
METHODS = (FedAvg, FedProx, Scaffold, Ditto, Moon, FedProto, LocalRounds)
TURNS = 7


def sites_of(data: Dataset, number: int, rows: int, recipe: str) -> list[Site]:
    """Sites with so many train rows each, and two validation rows."""
    X = np.asarray(data.X)
    X = X.reshape(len(X), -1).astype(np.float32) / 255 if recipe == "mlp" else X
    drawn = np.random.default_rng(0).permutation(len(X))[: number * (rows + 2)].reshape(number, -1)
    kind = "table" if recipe == "mlp" else "image"
    return [
        Site(f"site-{place}", kind, data.classes, *_split(X, data.y, mine, rows), recipes=(recipe,))
        for place, mine in enumerate(drawn)
    ]


def _split(X: np.ndarray, y: np.ndarray, mine: np.ndarray, rows: int) -> tuple[Rows, Rows, Rows]:
    parts = mine[:rows], mine[rows:], mine[:0]
    return tuple(Rows(X[part], y[part].astype(np.int64)) for part in parts)  # type: ignore[return-value]


class Lean:
    """FedAvg's round over the sites, without dropout and scaling, ending with the mean of the weights."""

    def __init__(self, net: nn.Module, sites: list[Site], batch_size: int, lr: float) -> None:
        self.net, self.batch_size, self.lr = net.train(), batch_size, lr
        self.rows = [(torch.from_numpy(site.train.X), torch.from_numpy(site.train.y)) for site in sites]
        self.start = [parameter.detach().clone() for parameter in net.parameters()]

    def __call__(self) -> None:
        parameters = list(self.net.parameters())
        mean = [torch.zeros_like(parameter) for parameter in parameters]
        for X, y in self.rows:
            with torch.no_grad():
                torch._foreach_copy_(parameters, self.start)
            for pick in torch.randperm(len(X)).split(self.batch_size):
                loss = nn.functional.cross_entropy(self.net(X[pick]), y[pick])
                gradients = torch.autograd.grad(loss, parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, gradients, alpha=-self.lr)
            with torch.no_grad():
                torch._foreach_add_(mean, parameters, alpha=1 / len(self.rows))


def in_turns(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median CPU seconds of each, taken in turns so that what else the machine does meets them alike."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TURNS):
        for name, work in works.items():
            spent[name].append(timed(work)[0])
    return {name: float(np.median(seconds[1:])) for name, seconds in spent.items()}


def training(data: Dataset, number: int, rows: int, recipe: str = "mlp", methods: tuple[type, ...] = METHODS) -> None:
    sites = sites_of(data, number, rows, recipe)
    net: nn.Module
    if recipe == "mlp":
        net = nn.Sequential(
            *(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, len(data.classes)))
        )
    else:
        net = FedAvg(**BUDGET).new_net(sites[0], np.random.default_rng(0))
    works: dict[str, Callable[[], Any]] = {"lean loop": Lean(net, sites, BUDGET["batch_size"], BUDGET["lr"])}
    for kind in methods:
        method = kind(**BUDGET)
        own = [
            Site(site.name, site.kind, site.classes, site.train, site.val, site.test, recipes=site.recipes)
            for site in sites
        ]
        for site in own:
            method.start(site, np.random.default_rng(0))
        before = [dict(site.state) for site in own]
        works[f"{kind.__name__}, together"] = _shares(method.share_together, own, before)
        if kind is FedAvg:
            works[f"{kind.__name__}, one by one"] = _shares(
                lambda found, round, method=method: [method.share(site, round) for site in found], own, before
            )
            works["answers, together"] = _asks(method, own, before)
    found = in_turns(works)
    lean = found.pop("lean loop")
    print(f"{number} sites of {rows} rows, {recipe}: lean loop {1000 * lean:.1f} ms CPU")
    for name, seconds in found.items():
        print(f"  {name:26} {1000 * seconds:8.1f} ms  {seconds / lean:5.2f} of the lean loop")


def _shares(share: Callable[..., Any], sites: list[Site], before: list[dict[str, Any]]) -> Callable[[], Any]:
    def work() -> Any:
        for site, state in zip(sites, before, strict=True):
            site.state = dict(state)
        return share(sites, 0)

    return work


def _asks(method: FedAvg, sites: list[Site], before: list[dict[str, Any]]) -> Callable[[], Any]:
    def work() -> Any:
        for site, state in zip(sites, before, strict=True):
            site.state = dict(state)
        return method.predict_proba_together(sites, [site.val.X for site in sites])

    return work


def main() -> None:
    print(load_line())
    data = load("fashion_mnist")
    with one_thread():
        training(data, 100, 8)
        training(data, 200, 40)
        training(data, 20, 400, "cnn8", (FedAvg, FedProto))


if __name__ == "__main__":
    main()
