"""Perceptrons of many sites trained and asked together: one operation for all their rows, and for each site only the
products with its own matrices.

Nothing is padded: the rows of all sites' batches lie one below the other, so batches may differ in size and number.
Each site's rows and dropout are drawn as `training.train` draws them alone, hence the same weights but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.errors import ModelError
from peerwise.models.nets import Net, Weights, fixed
from peerwise.models.training import batches

VALUES_AT_ONCE = 2**22  # inputs of the sites that are trained together: 16 MB
SITES_AT_ONCE = 16  # more sites' weights do not fit into a core's cache

RowLoss = Callable[..., Tensor]


@dataclass(frozen=True)
class Pull:
    """What a step adds to the gradient at w: strength (w - towards) + push, each by the names of parameters."""

    towards: Mapping[str, NDArray[Any]] | None = None
    strength: float = 0.0
    push: Mapping[str, NDArray[Any]] | None = None


@dataclass(frozen=True)
class Job:
    """One site's training: from these weights (and buffers), on these rows, with this seed. ``rows`` are further
    tensors, a row for each row, for the loss on the embedding."""

    weights: Weights
    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    seed: int
    chances: Tensor | None = None
    pull: Pull | None = None
    rows: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.inputs):
            raise ModelError("no rows to train on: expected at least one. Give the site rows or leave it out.")


@dataclass(frozen=True)
class _Layer:
    """Of one kind: "linear", its parameters' path; "relu"; "dropout", its rate; "pool", what it multiplies by."""

    kind: str
    path: str = ""
    rate: float = 0.0
    matrix: Tensor | None = None


@dataclass(frozen=True)
class Perceptron:
    """A net that is a chain of linear layers, ReLU and dropout, behind the scaling of a table or of pixels if it has
    any."""

    scaling: str | None  # the path of its `Prepare` layer
    pixels: bool
    layers: tuple[_Layer, ...]
    head: _Layer

    @property
    def linear(self) -> list[str]:
        return [layer.path for layer in (*self.layers, self.head) if layer.kind == "linear"]


@lru_cache(maxsize=16)
def perceptron(net: Net) -> Perceptron | None:
    """The net as a chain of layers; None where it is of another kind, whose sites are trained one by one."""
    from peerwise.models.zoo.images import Pixels
    from peerwise.models.zoo.tables import Prepare

    body, above = net.backbone, "backbone"
    pixels = type(body) is Pixels
    if isinstance(body, Pixels):
        body, above = body.body, "backbone.body"
    if not isinstance(body, nn.Sequential) or (pixels and type(body[0]) is not nn.Flatten):
        return None
    scaling, width = None, 0
    layers: list[_Layer] = []
    for name, module in body.named_children():
        path = f"{above}.{name}"
        if type(module) is Prepare and not layers:
            scaling, width = path, module.width
        elif type(module) is nn.Linear and module.bias is not None:
            layers.append(_Layer("linear", path))
            width = module.out_features
        elif type(module) is nn.ReLU:
            layers.append(_Layer("relu"))
        elif type(module) is nn.Dropout and 0 < module.p < 1:
            layers.append(_Layer("dropout", rate=module.p))
        elif type(module) is not nn.Identity and not (type(module) is nn.Flatten and not layers):
            return None
    if isinstance(net.pool, nn.AdaptiveAvgPool1d):
        layers.append(_Layer("pool", matrix=net.pool(torch.eye(width).unsqueeze(1)).squeeze(1)))
    return Perceptron(scaling, pixels, tuple(layers), _Layer("linear", "head"))


def train_stacked(
    net: Perceptron,
    jobs: Sequence[Job],
    *,
    lr: float,
    epochs: int,
    batch_size: int,
    row_loss: RowLoss | None = None,
) -> list[Weights]:
    """The weights of each job after ``epochs`` of SGD on cross entropy + mean ``row_loss(embedded, *rows)``.

    ``row_loss`` takes embeddings (n, width) and the jobs' ``rows``, and returns a number for each row.
    """
    found: list[Weights] = []
    for part in _parts([job.inputs.size for job in jobs]):
        found += _Stack(net, jobs[part], lr, epochs, batch_size, row_loss).trained()
    return found


@torch.no_grad()
def embedded_stacked(
    net: Perceptron, weights: Sequence[Weights], inputs: Sequence[NDArray[np.float32]]
) -> list[Tensor]:
    """The embeddings of each site's rows by its weights, in evaluation mode."""
    found: list[Tensor] = []
    for part in _parts([rows.size for rows in inputs], sites=len(inputs)):
        embedded = _forward(net, net.layers, weights[part], inputs[part])
        found += torch.split(embedded, [rows.shape[0] for rows in inputs[part]])
    return found


@torch.no_grad()
def logits_stacked(
    net: Perceptron, weights: Sequence[Weights], inputs: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The logits of each site's rows by its weights, in evaluation mode; all sites' rows one below the other."""
    parts = _parts([rows.size for rows in inputs], sites=len(inputs))
    found = [_forward(net, (*net.layers, net.head), weights[part], inputs[part]).numpy() for part in parts]
    return np.concatenate(found)


def _parts(sizes: Sequence[int], sites: int = SITES_AT_ONCE) -> Iterator[slice]:
    """Neighbors of at most so many values and sites together, at least one."""
    start, values = 0, 0
    for place, size in enumerate(sizes):
        if place > start and (values + size > VALUES_AT_ONCE or place - start >= sites):
            yield slice(start, place)
            start, values = place, 0
        values += size
    if len(sizes):
        yield slice(start, len(sizes))


def _forward(
    net: Perceptron, layers: Sequence[_Layer], weights: Sequence[Weights], inputs: Sequence[NDArray[np.float32]]
) -> Tensor:
    counts = [rows.shape[0] for rows in inputs]
    h, known = _scaled(net, weights, inputs), _Known()
    for layer in layers:
        if layer.kind == "relu":
            h = h.relu_()
        elif layer.matrix is not None:
            h = h @ layer.matrix
        elif layer.kind == "linear":
            matrices, biases = (
                known.all([site[f"{layer.path}.{name}"] for site in weights]) for name in ("weight", "bias")
            )
            if _same(matrices) and _same(biases):
                h = torch.addmm(biases[0], h, matrices[0].t())
            else:
                out = h.new_empty(h.shape[0], matrices[0].shape[0])
                for own, x, matrix, bias in zip(
                    out.split_with_sizes(counts), h.split_with_sizes(counts), matrices, biases, strict=True
                ):
                    torch.addmm(bias, x, matrix.t(), out=own)
                h = out
    return h


def _scaled(net: Perceptron, weights: Sequence[Weights], inputs: Sequence[NDArray[np.float32]]) -> Tensor:
    """All sites' rows, one below the other, each scaled as at its site."""
    X = torch.from_numpy(np.concatenate(inputs).astype(np.float32, copy=False))
    if net.pixels:
        return X.flatten(1).div_(127.5).sub_(1.0)
    if net.scaling is None:
        return X
    from peerwise.models.zoo.tables import scaled_rows

    places = {
        name: torch.tensor(weights[0][f"{net.scaling}.{name}"]) for name in ("numbers", "hot_columns", "hot_codes")
    }
    counts = [rows.shape[0] for rows in inputs]

    def by_row(name: str) -> Tensor:
        """The site's array for each row; one row where all sites have the same."""
        arrays = [site[f"{net.scaling}.{name}"] for site in weights]
        if _same(arrays):
            return torch.tensor(arrays[0]).unsqueeze(0)
        return torch.from_numpy(np.repeat(np.concatenate(arrays).reshape(len(arrays), -1), counts, axis=0))

    return scaled_rows(X, by_row, **places)


class _Known:
    """Arrays as tensors that share their memory; the same array is the same tensor."""

    def __init__(self) -> None:
        self._tensors: dict[int, Tensor] = {}

    def __call__(self, array: NDArray[Any]) -> Tensor:
        found = self._tensors.get(id(array))
        if found is None:
            found = torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
            self._tensors[id(array)] = found
        return found

    def all(self, arrays: Sequence[NDArray[Any]]) -> list[Tensor]:
        return [self(arrays[0])] * len(arrays) if _same(arrays) else [self(array) for array in arrays]


def _same(values: Sequence[Any]) -> bool:
    return len(set(map(id, values))) == 1


class _Stack:
    """The training of some jobs. ``matrices`` and ``biases``: by layer and job, as they are now."""

    def __init__(
        self,
        net: Perceptron,
        jobs: Sequence[Job],
        lr: float,
        epochs: int,
        batch_size: int,
        row_loss: RowLoss | None,
    ) -> None:
        self.net, self.jobs, self.lr, self.row_loss = net, jobs, lr, row_loss
        known = _Known()
        self.start = {path: known.all([job.weights[f"{path}.weight"] for job in jobs]) for path in net.linear}
        self.matrices = {path: list(found) for path, found in self.start.items()}
        self.biases = {
            path: torch.stack(known.all([job.weights[f"{path}.bias"] for job in jobs])) for path in net.linear
        }
        self.towards, self.push = (self._by_layer(known, name) for name in ("towards", "push"))
        self.strengths = torch.tensor([job.pull.strength if job.pull else 0.0 for job in jobs])
        self.inputs = _scaled(net, [job.weights for job in jobs], [job.inputs for job in jobs])
        self.labels = torch.from_numpy(np.concatenate([job.labels for job in jobs]).astype(np.int64, copy=False))
        self.rows = [torch.cat(parts) for parts in zip(*(job.rows for job in jobs), strict=True)]
        counts = [job.labels.shape[0] for job in jobs]
        self.first_rows = [0, *np.cumsum(counts)[:-1].tolist()]
        self.randoms = [torch.Generator().manual_seed(job.seed) for job in jobs]
        self.batches = [
            batches(len(job.labels), batch_size, epochs, job.chances, random)
            for job, random in zip(jobs, self.randoms, strict=True)
        ]
        self.losses = torch.zeros(len(jobs))

    def _by_layer(self, known: _Known, name: str) -> dict[str, list[Tensor | None]]:
        """The arrays of this name of all pulls, by parameter; empty where no job has any."""
        arrays = [None if job.pull is None else getattr(job.pull, name) for job in self.jobs]
        if all(each is None for each in arrays):
            return {}
        names = [f"{path}.{part}" for path in self.net.linear for part in ("weight", "bias")]
        return {key: [None if each is None else known(each[key]) for each in arrays] for key in names}

    @torch.no_grad()
    def trained(self) -> list[Weights]:
        active = list(range(len(self.jobs)))
        while active:
            drawn = [(site, pick) for site in active if (pick := next(self.batches[site], None)) is not None]
            active = [site for site, _ in drawn]
            if active:
                self._step(active, [pick for _, pick in drawn])
        if not bool(torch.isfinite(self.losses).all()):
            raise ModelError(
                f"training loss became {float(self.losses[~torch.isfinite(self.losses)][0])}: expected a finite "
                f"number. Lower the learning rate or check the inputs."
            )
        found: list[Weights] = []
        for place, job in enumerate(self.jobs):
            news = {f"{path}.weight": fixed(self.matrices[path][place].numpy()) for path in self.net.linear}
            news |= {f"{path}.bias": fixed(self.biases[path][place].numpy().copy()) for path in self.net.linear}
            found.append({**job.weights, **news})
        return found

    def _step(self, active: list[int], picks: list[Tensor]) -> None:
        """One step of each active site on its next batch."""
        counts = [pick.shape[0] for pick in picks]
        picked = torch.cat([pick + self.first_rows[site] for site, pick in zip(active, picks, strict=True)])
        sizes, places = torch.tensor(counts), torch.tensor(active)
        owner = torch.repeat_interleave(places, sizes)
        share = torch.repeat_interleave(1.0 / sizes, sizes)  # what a row counts in the mean of its batch
        h = self.inputs.index_select(0, picked)
        noises = self._noises(active, counts)
        before: list[Tensor] = []  # of each layer: the input of a linear one, what else its gradient is multiplied by
        for layer in self.net.layers:
            if layer.kind == "linear":
                before.append(h)
                h = self._linear(layer.path, h, active, counts, owner)
            elif layer.kind == "relu":
                h = h.relu_()
                before.append(h)
            elif layer.kind == "dropout":
                before.append(next(noises))
                h = h * before[-1]
            elif layer.matrix is not None:
                before.append(layer.matrix)
                h = h @ layer.matrix
        along, losses = self._loss(h, picked, share, active, counts, owner)
        self.losses.index_add_(0, owner, losses * share)
        for number in reversed(range(len(self.net.layers))):
            layer, seen = self.net.layers[number], before[number]
            if layer.kind == "linear":
                along = self._down(layer.path, along, seen, active, counts, owner, inputs_too=number > 0)
            elif layer.kind == "relu":
                along = along * (seen > 0)
            elif layer.kind == "dropout":
                along = along * seen
            else:
                along = along @ seen.t()

    def _noises(self, active: list[int], counts: list[int]) -> Iterator[Tensor]:
        """What each dropout layer multiplies by. A site's layers draw one after the other, so all are drawn here."""
        widths, width = [], self.inputs.shape[1]
        for layer in self.net.layers:
            if layer.kind == "linear":
                width = self.matrices[layer.path][0].shape[0]
            elif layer.kind == "dropout":
                widths.append((layer.rate, width))
        found = [torch.empty(sum(counts), width) for _, width in widths]
        parts = [noise.split_with_sizes(counts) for noise in found]
        for place, site in enumerate(active):
            for (rate, _), part in zip(widths, parts, strict=True):
                part[place].bernoulli_(1 - rate, generator=self.randoms[site])
        return (noise.div_(1 - rate) for (rate, _), noise in zip(widths, found, strict=True))

    def _linear(self, path: str, x: Tensor, active: list[int], counts: list[int], owner: Tensor) -> Tensor:
        matrices = [self.matrices[path][site] for site in active]
        if _same(matrices):
            out = x @ matrices[0].t()
        else:
            out = x.new_empty(x.shape[0], matrices[0].shape[0])
            for own, rows, matrix in zip(
                out.split_with_sizes(counts), x.split_with_sizes(counts), matrices, strict=True
            ):
                torch.mm(rows, matrix.t(), out=own)
        return out.add_(self.biases[path].index_select(0, owner))

    def _loss(
        self, embedded: Tensor, picked: Tensor, share: Tensor, active: list[int], counts: list[int], owner: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Each row's loss, and the gradient at the embeddings; the head takes its step."""
        y = self.labels.index_select(0, picked)
        logits = self._linear(self.net.head.path, embedded, active, counts, owner)
        logs = logits.log_softmax(dim=1)
        losses = nn.functional.nll_loss(logs, y, reduction="none")
        slope = logs.exp_()
        slope.scatter_add_(1, y.unsqueeze(1), slope.new_full((y.shape[0], 1), -1.0))
        along = self._down(self.net.head.path, slope * share.unsqueeze(1), embedded, active, counts, owner)
        if self.row_loss is not None:
            with torch.enable_grad():
                seen = embedded.detach().requires_grad_()
                more = self.row_loss(seen, *(values.index_select(0, picked) for values in self.rows))
                (slope,) = torch.autograd.grad((more * share).sum(), seen)
            along, losses = along + slope, losses + more.detach()
        return along, losses

    def _down(
        self,
        path: str,
        along: Tensor,
        x: Tensor,
        active: list[int],
        counts: list[int],
        owner: Tensor,
        inputs_too: bool = True,
    ) -> Tensor:
        """The gradient at the inputs x of a linear layer, given that at its outputs; the layer takes its step."""
        matrices = [self.matrices[path][site] for site in active]
        slopes = along.split_with_sizes(counts)
        lower = along
        if inputs_too and _same(matrices):
            lower = along @ matrices[0]
        elif inputs_too:
            lower = torch.empty_like(x)
            for own, slope, matrix in zip(lower.split_with_sizes(counts), slopes, matrices, strict=True):
                torch.mm(slope, matrix, out=own)
        for site, slope, rows in zip(active, slopes, x.split_with_sizes(counts), strict=True):
            self.matrices[path][site] = self._moved(path, site, slope.t(), rows)
        self._move_biases(path, along, active, owner)
        return lower

    def _moved(self, path: str, site: int, slope: Tensor, rows: Tensor) -> Tensor:
        """w - lr (slope rows + strength (w - towards) + push): in place once w is this stack's own."""
        matrix, key = self.matrices[path][site], f"{path}.weight"
        own = matrix is not self.start[path][site]
        towards = self.towards[key][site] if self.towards else None
        push = self.push[key][site] if self.push else None
        if towards is not None and towards is not matrix:
            closer = self.lr * float(self.strengths[site])
            matrix = matrix.lerp_(towards, closer) if own else matrix.lerp(towards, closer)
            own = True
        matrix = matrix.addmm_(slope, rows, alpha=-self.lr) if own else torch.addmm(matrix, slope, rows, alpha=-self.lr)
        return matrix if push is None else matrix.add_(push, alpha=-self.lr)

    def _move_biases(self, path: str, along: Tensor, active: list[int], owner: Tensor) -> None:
        biases, key = self.biases[path], f"{path}.bias"
        for site in active if self.towards or self.push else ():
            towards, push = (values[key][site] if values else None for values in (self.towards, self.push))
            if towards is not None:
                biases[site].lerp_(towards, self.lr * float(self.strengths[site]))
            if push is not None:
                biases[site].add_(push, alpha=-self.lr)
        biases.index_add_(0, owner, along, alpha=-self.lr)
