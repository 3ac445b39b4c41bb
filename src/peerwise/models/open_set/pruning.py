"""Leaving out weights: which are kept, and lottery tickets, whose weights go back to where they began."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from peerwise.models.nets import Net

Masks = dict[str, Tensor]
LEAST = 0.1  # of its even share every layer keeps: without any of its weights nothing would pass through it


def prunable(net: Net) -> dict[str, Tensor]:
    """The weights of all convolutions and linear layers but the last; all else stays whole."""
    return {
        f"{name}.weight": layer.weight
        for name, layer in net.named_modules()
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear) and name != "head"
    }


def kept_count(total: int, sparsity: float, stage: int, stages: int) -> int:
    """How many of ``total`` weights are left after this of so many stages: (1 - sparsity)^(stage / stages), rounded.

    >>> [kept_count(1000, 0.9, stage, 2) for stage in (0, 1, 2)]
    [1000, 316, 100]
    """
    share: float = (1 - sparsity) ** (stage / stages)
    return round(total * share)


def largest(net: Net, keep: int, masks: Masks | None = None) -> Masks:
    """The ``keep`` largest weights over all layers together, as masks by name; none that ``masks`` left out before.

    Each layer first gets its own largest: a tenth of what it would have if all kept the same share, at least one.
    """
    weights = prunable(net)
    sizes = [weight.detach().abs().flatten() for weight in weights.values()]
    if masks:
        sizes = [size.masked_fill(~masks[name].flatten(), -1.0) for name, size in zip(weights, sizes, strict=True)]
    flat = torch.cat(sizes)
    first = torch.cat([_own_largest(size, keep / len(flat)) for size in sizes])
    enough = int(first.sum()) < keep
    flat = flat.masked_fill(first, math.inf) if enough else flat.masked_fill(~first, -2.0)
    parts = torch.split(_top(flat, keep), [len(size) for size in sizes])
    return {name: part.view_as(weight) for (name, weight), part in zip(weights.items(), parts, strict=True)}


def _own_largest(size: Tensor, share: float) -> Tensor:
    """What a layer keeps in any case; nothing that was left out before, which is below 0."""
    return _top(size, min(len(size), max(1, math.ceil(LEAST * share * len(size))))) & (size >= 0)


def _top(values: Tensor, count: int) -> Tensor:
    chosen = torch.zeros(len(values), dtype=torch.bool, device=values.device)
    chosen[values.topk(count).indices] = True
    return chosen


@torch.no_grad()
def apply_masks(net: Net, masks: Masks) -> None:
    for name, weight in prunable(net).items():
        weight.masked_fill_(~masks[name], 0.0)  # a product would leave -0.0, which a parcel has to store


def find_ticket(net: Net, sparsity: float, stages: int, learn: Callable[[Masks | None, int], None]) -> Masks:
    """Frankle and Carbin's lottery ticket: train, keep the largest, go back to the first values, and again.

    ``learn(masks, stage)`` trains the net. Afterwards it holds its first values, but for the weights left out.
    """
    first = {name: value.clone() for name, value in net.state_dict().items()}
    total = sum(weight.numel() for weight in prunable(net).values())
    masks: Masks | None = None
    for stage in range(1, stages + 1):
        learn(masks, stage)
        masks = largest(net, kept_count(total, sparsity, stage, stages), masks)
        net.load_state_dict(first)
        apply_masks(net, masks)
    assert masks is not None
    return masks
