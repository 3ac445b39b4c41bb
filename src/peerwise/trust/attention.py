"""GATv2 attention over ragged incoming edges, forward and backward in one pass each over memory (CPU).

Plain torch writes several (edges, heads * width) tensors for each layer; these kernels keep one edge at a time in
cache and store the attention alone. `benchmarks/attention.py` measures both; PyTorch Geometric is the test oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd import Function

SLOPE = 0.2
FAST = {"reassoc", "contract", "nsz", "arcp"}


class Attend(Function):
    """``out_i = mean_h sum_j drop_ij alpha_ij sent_j`` with alpha the softmax over i's edges of the GATv2 score."""

    @staticmethod
    def forward(
        ctx: Any,
        sent: Tensor,
        target: Tensor,
        attention: Tensor,
        edge: Tensor,
        start: Tensor,
        count: Tensor,
        source: Tensor,
        weight: Tensor,
        drop: Tensor,
    ) -> Tensor:
        arrays = [t.detach().contiguous().numpy() for t in (sent, target, attention, edge)]
        edges = [t.detach().contiguous().numpy() for t in (start, count, source, weight, drop)]
        out, alpha = _forward(*arrays, *edges)
        ctx.arrays, ctx.edges, ctx.alpha = arrays, edges, alpha
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous().numpy()
        found = _backward(grad, ctx.alpha, *ctx.arrays, *ctx.edges)
        return (*(torch.from_numpy(g) for g in found), None, None, None, None, None)


@njit(cache=True, fastmath=FAST)
def _score(sent, target, attention, edge, w):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    total = np.float32(0)
    for d in range(sent.shape[0]):
        v = sent[d] + target[d] + w * edge[d]
        total += attention[d] * max(v, np.float32(SLOPE) * v)
    return total


@njit(cache=True, fastmath=FAST)
def _dot(a, b):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    total = np.float32(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@njit(cache=True, fastmath=FAST)
def _add(into, scale, a):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    for d in range(a.shape[0]):
        into[d] += scale * a[d]


@njit(cache=True)
def _forward(sent, target, attention, edge, start, count, source, weight, drop):  # type: ignore[no-untyped-def]  # pragma: no cover
    heads, width = attention.shape
    n = target.shape[0]
    out = np.zeros((n, width), np.float32)
    alpha = np.empty((source.shape[0], heads), np.float32)
    for i in range(n):
        first, last = start[i], start[i] + count[i]
        for h in range(heads):
            lo, hi = h * width, (h + 1) * width
            highest = np.float32(-np.inf)
            for e in range(first, last):
                s = _score(sent[source[e], lo:hi], target[i, lo:hi], attention[h], edge[lo:hi], weight[e])
                alpha[e, h] = s
                highest = max(highest, s)
            total = np.float32(0)
            for e in range(first, last):
                alpha[e, h] = np.exp(alpha[e, h] - highest)
                total += alpha[e, h]
            for e in range(first, last):
                alpha[e, h] /= total
                _add(out[i], alpha[e, h] * drop[e, h] / np.float32(heads), sent[source[e], lo:hi])
    return out, alpha


@njit(cache=True, fastmath=FAST)
def _spread(g, sent, target, attention, edge, w, d_sent, d_target, d_attention, d_edge):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Push the gradient of one score back to everything it was made of."""
    for d in range(sent.shape[0]):
        v = sent[d] + target[d] + w * edge[d]
        slope = np.float32(1.0) if v > 0 else np.float32(SLOPE)
        d_attention[d] += g * slope * v
        inner = g * slope * attention[d]
        d_sent[d] += inner
        d_target[d] += inner
        d_edge[d] += w * inner


@njit(cache=True)
def _backward(grad, alpha, sent, target, attention, edge, start, count, source, weight, drop):  # type: ignore[no-untyped-def]  # pragma: no cover
    heads, width = attention.shape
    d_sent, d_target = np.zeros_like(sent), np.zeros_like(target)
    d_attention, d_edge = np.zeros_like(attention), np.zeros_like(edge)
    d_alpha = np.empty_like(alpha)
    share = np.float32(1.0 / heads)
    for i in range(target.shape[0]):
        first, last = start[i], start[i] + count[i]
        for h in range(heads):
            lo, hi = h * width, (h + 1) * width
            mean = np.float32(0)
            for e in range(first, last):
                j = source[e]
                kept = drop[e, h] * share
                d_alpha[e, h] = kept * _dot(grad[i], sent[j, lo:hi])
                mean += alpha[e, h] * d_alpha[e, h]
                _add(d_sent[j, lo:hi], alpha[e, h] * kept, grad[i])
            for e in range(first, last):
                j = source[e]
                g = alpha[e, h] * (d_alpha[e, h] - mean)
                _spread(g, sent[j, lo:hi], target[i, lo:hi], attention[h], edge[lo:hi], weight[e],
                        d_sent[j, lo:hi], d_target[i, lo:hi], d_attention[h], d_edge[lo:hi])  # fmt: skip
    return d_sent, d_target, d_attention, d_edge
