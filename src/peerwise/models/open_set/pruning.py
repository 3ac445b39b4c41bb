"""Leaving out weights: which are kept, and lottery tickets, whose weights go back to where they began."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from peerwise.models.nets import Net

Masks = dict[str, Tensor]


def prunable(net: Net) -> dict[str, nn.Parameter]:
    """The weights of all layers but the last; biases and normalisation stay whole."""
    return {
        name: parameter
        for name, parameter in net.named_parameters()
        if parameter.dim() >= 2 and not name.startswith("head.")
    }


def kept_count(total: int, sparsity: float, stage: int, stages: int) -> int:
    """How many of ``total`` weights are left after this of so many stages: (1 - sparsity)^(stage / stages), rounded.

    >>> [kept_count(1000, 0.9, stage, 2) for stage in (0, 1, 2)]
    [1000, 316, 100]
    """
    share: float = (1 - sparsity) ** (stage / stages)
    return round(total * share)


def largest(net: Net, keep: int, masks: Masks | None = None) -> Masks:
    """The ``keep`` largest weights over all layers together, as masks by name; none that ``masks`` left out before."""
    weights = prunable(net)
    sizes = [weight.detach().abs() for weight in weights.values()]
    if masks:
        sizes = [size.masked_fill(~masks[name], -1.0) for name, size in zip(weights, sizes, strict=True)]
    flat = torch.cat([size.flatten() for size in sizes])
    chosen = torch.zeros(len(flat), dtype=torch.bool, device=flat.device)
    chosen[flat.topk(keep).indices] = True
    parts = torch.split(chosen, [size.numel() for size in sizes])
    return {name: part.view_as(weight) for (name, weight), part in zip(weights.items(), parts, strict=True)}


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
