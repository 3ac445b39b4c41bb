"""The one torch training loop of the project, with one replaceable step.

Batching, early stopping, restoring, seeding and timing live here and nowhere else. A method that needs an extra
loss term passes ``extra_loss``; one that needs several nets, optimisers or gradient evaluations passes ``update``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.errors import ModelError
from peerwise.models.adam import Adam

Batch = tuple[Tensor, ...]
Loss = Callable[[nn.Module, Batch], Tensor]


class Optimizer(Protocol):
    """What the loop needs of an optimiser, torch's or ours."""

    param_groups: list[dict[str, Any]]

    def zero_grad(self) -> None: ...

    def step(self) -> Any: ...


@dataclass
class Training:
    """What a training did: losses and scores by epoch, the epoch whose weights were kept, seconds."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        return len(self.losses)


def cross_entropy(weights: Tensor | None = None) -> Loss:
    """Cross entropy of ``net(*inputs)`` against the last tensor of the batch."""

    def loss(net: nn.Module, batch: Batch) -> Tensor:
        logits: Tensor = net(*batch[:-1])
        return nn.functional.cross_entropy(logits, batch[-1], weight=weights)

    return loss


def class_weights(y: NDArray[np.int64], classes: int) -> Tensor:
    """Weight of class c = (N / C) / max(n_c, 1), over the training labels."""
    counts = np.bincount(y, minlength=classes)
    return torch.as_tensor((len(y) / classes) / np.maximum(counts, 1), dtype=torch.float32)


@dataclass
class _Best:
    """The best weights so far, and how long ago that was."""

    score: float = float("inf")
    weights: dict[str, Any] | None = None
    stale: int = 0
    halvings: int = 0

    def improved(self, score: float, net: nn.Module, min_delta: float, halve_after: int | None) -> bool:
        if score < self.score - min_delta:
            self.score, self.stale = score, 0
            self.weights = {name: value.clone() for name, value in net.state_dict().items()}
            return True
        self.stale += 1
        self.halvings += bool(halve_after and self.stale % halve_after == 0)
        return False


def train(
    net: nn.Module,
    tensors: Sequence[Tensor],
    *,
    loss: Loss | None = None,
    extra_loss: Loss | None = None,
    update: Callable[[Batch], float] | None = None,
    validate: Callable[[], float] | None = None,
    optimizer: Optimizer | None = None,
    lr: float = 5e-4,
    epochs: int = 300,
    batch_size: int = 32,
    patience: int | None = 20,
    min_delta: float = 1e-4,
    warmup: int = 0,
    halve_after: int | None = None,
    seed: int = 0,
    poisson: bool | np.random.Generator = False,
    chances: Tensor | None = None,
) -> Training:
    """Train ``net`` on ``tensors`` (inputs first, labels last) and restore its best weights.

    ``validate()`` returns a score where lower is better; without it every epoch is run and the last weights stay.
    ``warmup`` epochs raise the learning rate linearly; ``halve_after`` epochs without improvement halve it.
    The order of rows and dropout follow ``seed`` alone; the caller's random state is left as it was.
    ``poisson`` draws each batch as `poisson_plan` says, by the generator given, else by ``seed``: some are empty,
    which ``update`` must allow. ``chances`` draws as many rows an epoch as there are, each by its chance, with return.
    """
    if not len(tensors[0]):
        raise ModelError("no rows to train on: expected at least one. Give the site rows or leave it out.")
    chosen: Optimizer = optimizer or Adam(net.parameters(), lr=lr)
    base_rates = [group["lr"] for group in chosen.param_groups]
    step = update or _plain_step(net, chosen, loss or cross_entropy(), extra_loss)
    record, best = Training(), _Best()
    started = time.perf_counter()
    devices = [tensors[0].device] if tensors[0].is_cuda else []
    with torch.random.fork_rng(devices=devices):
        seed_torch(seed, devices)
        for epoch in range(epochs):
            ramp = min(1.0, (epoch + 1) / warmup) if warmup else 1.0
            _set_rates(chosen, base_rates, ramp * 0.5**best.halvings)
            record.losses.append(_epoch(net, tensors, step, _draw(len(tensors[0]), batch_size, poisson, chances)))
            if validate is None:
                record.best_epoch = epoch + 1
            else:
                score = _score(net, validate, epoch)
                record.scores.append(score)
                if best.improved(score, net, min_delta, halve_after):
                    record.best_epoch = epoch + 1
            if patience is not None and best.stale >= patience:
                break
    if best.weights is not None:
        net.load_state_dict(best.weights)
    net.eval()
    record.seconds = time.perf_counter() - started
    return record


def seed_torch(seed: int, devices: Sequence[torch.device] = ()) -> None:
    """`torch.manual_seed` for the CPU and for these devices alone: it would format a stack trace for every kind of
    device, which takes longer than a round of a small net."""
    torch.default_generator.manual_seed(seed)
    for device in devices:
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _set_rates(optimizer: Optimizer, base_rates: list[float], factor: float) -> None:
    for group, rate in zip(optimizer.param_groups, base_rates, strict=True):
        group["lr"] = rate * factor


def _plain_step(net: nn.Module, optimizer: Optimizer, loss: Loss, extra_loss: Loss | None) -> Callable[[Batch], float]:
    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        value = loss(net, batch)
        if extra_loss is not None:
            value = value + extra_loss(net, batch)
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return value.item()

    return step


def poisson_plan(rows: int, batch_size: int) -> tuple[float, int]:
    """Chance of each row to be in a step, min(1, batch_size / rows), and steps an epoch, ceil(rows / batch_size).

    >>> poisson_plan(100, 32)
    (0.32, 4)
    """
    return min(1.0, batch_size / rows), math.ceil(rows / batch_size)


def row_chances(y: NDArray[np.int64]) -> Tensor:
    """Chances by which rows of every class are drawn equally often, as if the loss were weighted by class.

    >>> row_chances(np.array([0, 0, 0, 1])).tolist()
    [1.0, 1.0, 1.0, 3.0]
    """
    counts = np.bincount(y)
    return torch.as_tensor(counts.max() / counts[y], dtype=torch.float32)


def _draw(
    rows: int, batch_size: int, poisson: bool | np.random.Generator, chances: Tensor | None = None
) -> list[Tensor]:
    """The rows of each step of one epoch."""
    if isinstance(poisson, np.random.Generator):
        rate, steps = poisson_plan(rows, batch_size)
        return [torch.from_numpy(np.flatnonzero(poisson.random(rows) < rate)) for _ in range(steps)]
    if poisson:
        rate, steps = poisson_plan(rows, batch_size)
        return [torch.nonzero(torch.rand(rows, dtype=torch.float64) < rate).flatten() for _ in range(steps)]
    return _shuffled(rows, batch_size, chances)


def batches(
    rows: int, batch_size: int, epochs: int, chances: Tensor | None, random: torch.Generator
) -> Iterator[Tensor]:
    """The rows of each step of all epochs, as `train` draws them where ``random`` has its seed."""
    for _ in range(epochs):
        yield from _shuffled(rows, batch_size, chances, random)


def steps_an_epoch(rows: int, batch_size: int) -> int:
    """How often `train` steps in one pass over so many rows."""
    return len(_starts(rows, batch_size))


def _starts(rows: int, batch_size: int) -> list[int]:
    """The first row of each batch. A last batch of one row joins the one before it: BatchNorm cannot use it alone."""
    starts = list(range(0, rows, batch_size))
    if len(starts) > 1 and rows - starts[-1] == 1:
        starts.pop()
    return starts


def _shuffled(
    rows: int, batch_size: int, chances: Tensor | None, random: torch.Generator | None = None
) -> list[Tensor]:
    order = (
        torch.randperm(rows, generator=random)
        if chances is None
        else torch.multinomial(chances, rows, replacement=True, generator=random)
    )
    return list(order.tensor_split(_starts(rows, batch_size)[1:]))


def _epoch(net: nn.Module, tensors: Sequence[Tensor], step: Callable[[Batch], float], picks: list[Tensor]) -> float:
    """One step for each of ``picks``; the mean loss of a row."""
    net.train()
    total, seen = 0.0, 0
    for pick in picks:
        rows = pick.to(tensors[0].device)
        total += step(tuple(tensor.index_select(0, rows) for tensor in tensors)) * len(rows)
        seen += len(rows)
    mean = total / max(seen, 1)
    if not np.isfinite(mean):
        raise ModelError(
            f"training loss became {mean}: expected a finite number. Lower the learning rate or check the inputs."
        )
    return mean


def _score(net: nn.Module, validate: Callable[[], float], epoch: int) -> float:
    net.eval()
    with torch.no_grad():
        score = validate()
    if not np.isfinite(score):
        raise ModelError(f"validation score became {score} in epoch {epoch + 1}: expected a finite number.")
    return score
