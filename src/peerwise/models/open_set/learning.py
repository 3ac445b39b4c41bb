"""Open-set training of one net: what outliers it meets when, and which of its weights are left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

import torch
from torch import Tensor

from peerwise.data.site import derived_seed
from peerwise.models.adam import Adam
from peerwise.models.nets import Net
from peerwise.models.open_set.losses import Terms, open_loss
from peerwise.models.open_set.outliers import Outliers
from peerwise.models.open_set.pruning import Masks, apply_masks, find_ticket, kept_count, largest, prunable
from peerwise.models.training import Batch, train

Compress = Literal["none", "tickets", "magnitude"]
LAST = 0.02
FINISH = 0.1


@dataclass(frozen=True)
class OpenPlan:
    """How one open-set net learns: ``epochs`` with ``terms``, all from the start, or ``phased``: destroyed outliers
    from the start, attacked ones after a third, smooth ones after two thirds.

    ``compress``: "tickets" finds a lottery ticket first, in ``prune_stages`` of ``prune_epochs`` with all terms (none
    where nothing is to be left out); "magnitude" leaves out the smallest weights at the end and trains ``prune_epochs``
    more at a tenth of the rate: a new start at the full one undoes what was learned. ``sparsity``: the share of weights
    that is left out.
    """

    epochs: int
    terms: Terms
    phased: bool = False
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 1e-5
    compress: Compress = "none"
    sparsity: float = 0.0
    prune_stages: int = 5
    prune_epochs: int = 2

    def phases(self) -> list[tuple[int, Terms]]:
        """Epochs and terms, one after the other."""
        if not self.phased:
            return [(self.epochs, self.terms)]
        third = min(round(2 * self.epochs / 3), self.epochs - 1)  # however short, it ends with all kinds
        second = min(round(self.epochs / 3), third)
        first = replace(self.terms, attack=None, smooth=False)
        parts = [
            (second, first),
            (third - second, replace(self.terms, smooth=False)),
            (self.epochs - third, self.terms),
        ]
        return [(epochs, terms) for epochs, terms in parts if epochs]


def learn_open(net: Net, tensors: tuple[Tensor, ...], plan: OpenPlan, outliers: Outliers, seed: int) -> None:
    """Train ``net``, whose last output is "unknown", on these rows (labels last) and outliers made of them."""

    def run(masks: Masks | None, purpose: str, phases: list[tuple[int, Terms]], lr: float = plan.lr) -> None:
        optimizer = Adam(net.parameters(), lr)
        steps = sum(epochs for epochs, _ in phases) * math.ceil(len(tensors[0]) / plan.batch_size)
        slow_down = _falling(optimizer, lr, steps)
        for place, (epochs, terms) in enumerate(phases):
            train(
                net,
                tensors,
                update=_step(net, optimizer, slow_down, terms, outliers, plan.weight_decay, masks),
                optimizer=optimizer,
                epochs=epochs,
                batch_size=plan.batch_size,
                patience=None,
                seed=derived_seed(seed, purpose, place),
            )

    every = [(plan.prune_epochs, plan.terms)] if plan.prune_epochs else []
    masks: Masks | None = None
    if plan.compress == "tickets" and plan.sparsity > 0:
        masks = find_ticket(net, plan.sparsity, plan.prune_stages, lambda m, stage: run(m, f"prune {stage}", every))
    run(masks, "main", plan.phases())
    if plan.compress == "magnitude":
        total = sum(weight.numel() for weight in prunable(net).values())
        masks = largest(net, kept_count(total, plan.sparsity, 1, 1))
        apply_masks(net, masks)
        run(masks, "finish", every, FINISH * plan.lr)


def _falling(optimizer: Adam, lr: float, steps: int) -> Callable[[], None]:
    """Sets the learning rate of each of so many steps: it falls along a line to ``LAST`` of what it was. Nets that are
    compared by how sure they are must have come to rest; the last few steps of a constant rate move that by chance."""
    done = count()

    def set_rate() -> None:
        for group in optimizer.param_groups:
            group["lr"] = lr * max(LAST, 1 - next(done) / steps)

    return set_rate


def _step(
    net: Net,
    optimizer: Adam,
    slow_down: Callable[[], None],
    terms: Terms,
    outliers: Outliers,
    decay: float,
    masks: Masks | None,
) -> Callable[[Batch], float]:
    weights = prunable(net)
    parameters = list(net.parameters())

    def step(batch: Batch) -> float:
        slow_down()
        optimizer.zero_grad()
        loss = open_loss(net, batch, terms, outliers)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        learning = [parameter.detach() for parameter in parameters if parameter.grad is not None]
        torch._foreach_add_(gradients, learning, alpha=decay)
        if masks is not None:  # a weight at 0 without a gradient stays there
            for name, weight in weights.items():
                if weight.grad is not None:
                    weight.grad.mul_(masks[name])
        optimizer.step()
        return loss.item()

    return step
