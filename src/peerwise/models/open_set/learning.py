"""Open-set training of one net: what outliers it meets when, and which of its weights are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class OpenPlan:
    """How one open-set net learns: ``epochs`` with ``terms``, all from the start, or ``phased``: destroyed outliers
    from the start, attacked ones after a third, smooth ones after two thirds.

    ``compress``: "tickets" finds a lottery ticket first, in ``prune_stages`` of ``prune_epochs`` with all terms;
    "magnitude" leaves out the smallest weights at the end and trains ``prune_epochs`` more. ``sparsity``: the share of
    weights that is left out.
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
        second, third = round(self.epochs / 3), round(2 * self.epochs / 3)
        first = replace(self.terms, attack=None, smooth=False)
        parts = [
            (second, first),
            (third - second, replace(self.terms, smooth=False)),
            (self.epochs - third, self.terms),
        ]
        return [(epochs, terms) for epochs, terms in parts if epochs]


def learn_open(net: Net, tensors: tuple[Tensor, ...], plan: OpenPlan, outliers: Outliers, seed: int) -> None:
    """Train ``net``, whose last output is "unknown", on these rows (labels last) and outliers made of them."""

    def run(masks: Masks | None, purpose: str, phases: list[tuple[int, Terms]]) -> None:
        optimizer = Adam(net.parameters(), plan.lr)
        for place, (epochs, terms) in enumerate(phases):
            train(
                net,
                tensors,
                update=_step(net, optimizer, terms, outliers, plan.weight_decay, masks),
                optimizer=optimizer,
                epochs=epochs,
                batch_size=plan.batch_size,
                patience=None,
                seed=derived_seed(seed, purpose, place),
            )

    every = [(plan.prune_epochs, plan.terms)] if plan.prune_epochs else []
    masks: Masks | None = None
    if plan.compress == "tickets":
        masks = find_ticket(net, plan.sparsity, plan.prune_stages, lambda m, stage: run(m, f"prune {stage}", every))
    run(masks, "main", plan.phases())
    if plan.compress == "magnitude":
        total = sum(weight.numel() for weight in prunable(net).values())
        masks = largest(net, kept_count(total, plan.sparsity, 1, 1))
        apply_masks(net, masks)
        run(masks, "finish", every)


def _step(
    net: Net, optimizer: Adam, terms: Terms, outliers: Outliers, decay: float, masks: Masks | None
) -> Callable[[Batch], float]:
    weights = prunable(net)
    parameters = list(net.parameters())

    def step(batch: Batch) -> float:
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
