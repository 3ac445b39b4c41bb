"""The loss of a net with an extra output for "unknown", which is its last."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from peerwise.models.nets import Net
from peerwise.models.open_set.outliers import Outliers

LOWERED = 1e4  # how far a true class is lowered, for the second best to be asked after
MIXED_WEIGHT = 0.01


@dataclass(frozen=True)
class Attack:
    """Outliers are made to look known by ``steps`` of ``size``, never further than ``radius`` (shares of the range of a
    pixel, or of a column's spread)."""

    steps: int
    size: float
    radius: float


@dataclass(frozen=True)
class Terms:
    """Which outliers a step shows the net: destroyed, attacked (from the destroyed ones), smooth; and which of PROSER's
    two placeholder terms are there: unknown is the ``second_best`` answer, and lies ``between`` two classes."""

    destroyed: bool = True
    attack: Attack | None = None
    smooth: bool = False
    second_best: bool = False
    between: bool = False


def open_loss(net: Net, batch: tuple[Tensor, ...], terms: Terms, outliers: Outliers) -> Tensor:
    """CE(known rows) + the sum over kinds of outliers of CE(unknown), each a mean over its rows, + the placeholders.

    All go through the net in one batch: apart, BatchNorm would tell known from unknown by the batch.
    """
    x, y = batch[0].to(torch.float32), batch[-1]
    made = made_up(net, x, terms, outliers)
    features = net.embed(torch.cat([x, *made]))
    logits = net.head(features)
    known, *rest = logits.split(len(x))
    loss = nn.functional.cross_entropy(known, y)
    for part in rest:
        loss = loss + to_unknown(part)
    if terms.second_best:
        loss = loss + to_unknown(known.scatter_add(1, y[:, None], known.new_full((len(y), 1), -LOWERED)))
    if terms.between:
        loss = loss + MIXED_WEIGHT * _mixed(net, features[: len(x)], y)
    return loss


def made_up(net: Net, x: Tensor, terms: Terms, outliers: Outliers) -> list[Tensor]:
    """A batch of each kind of outliers that the terms name."""
    made = [outliers.destroyed(x)] if terms.destroyed or terms.attack else []
    if terms.attack:
        made.append(attacked(net, made[0], terms.attack, outliers.unit))
    if not terms.destroyed:
        del made[:1]
    return [*made, outliers.smooth(x)] if terms.smooth else made


def attacked(net: Net, rows: Tensor, attack: Attack, unit: Tensor) -> Tensor:
    """x <- x + size sign(gradient of CE(net(x), unknown)), kept within ``radius`` of where it began.

    The net answers as it will be used, without dropout and by its running statistics, which do not change.
    """
    training, unit = net.training, unit.to(rows.device)
    net.eval()
    moved = rows.clone()
    for _ in range(attack.steps):
        moved.requires_grad_(True)
        (slope,) = torch.autograd.grad(to_unknown(net(moved)), moved)
        moved = moved.detach() + attack.size * unit * slope.sign()
        moved = torch.clamp(moved, rows - attack.radius * unit, rows + attack.radius * unit)
    net.train(training)
    return moved


def to_unknown(logits: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, logits.new_full((len(logits),), logits.shape[1] - 1, dtype=torch.int64))


def _mixed(net: Net, features: Tensor, y: Tensor) -> Tensor:
    """Between two embeddings of different classes lies the unknown; nothing where the batch has one class."""
    order = torch.randperm(len(y), device=y.device)
    pairs = y != y[order]
    if not pairs.any():
        return features.new_zeros(())
    part = torch.rand((), device=y.device)
    return to_unknown(net.head(part * features[pairs] + (1 - part) * features[order][pairs]))
