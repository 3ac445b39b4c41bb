"""Rows of a table whose columns no longer belong together: what destroyed images are for images.

Missing values stay missing values, and categories stay categories. Chance is torch's own.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOSTLY = 0.7  # a blended row has at most this share of either of its rows


def permuted(rows: Tensor) -> Tensor:
    """Every column in an order of its own: each value is a true one, but no two belong together."""
    order = torch.rand(rows.shape, device=rows.device).argsort(dim=0)
    return rows.gather(0, order)


def blended(rows: Tensor, categorical: Tensor) -> Tensor:
    """Between each row and the next one of a random circle through all: numbers b x + (1 - b) x', b from 0.3 to 0.7;
    a category is that of either. A value is missing where it is in either."""
    order = torch.rand(len(rows), device=rows.device).argsort()
    other = torch.empty_like(rows)
    other[order] = rows[order.roll(1)]
    part = 1 - MOSTLY + torch.rand(len(rows), 1, device=rows.device) * (2 * MOSTLY - 1)
    chosen = torch.where(torch.rand(rows.shape, device=rows.device) < 0.5, rows, other)
    return torch.where(categorical.to(rows.device), chosen, part * rows + (1 - part) * other)
