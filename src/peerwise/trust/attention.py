"""GATv2 attention over ragged incoming edges, forward and backward in one pass each over memory (CPU).

Plain torch writes several (edges, heads * width) tensors for each layer; these kernels keep one destination and head at
a time in registers and store the attention alone. A head's width must be a multiple of `LANES`.
`benchmarks/attention.py` measures both; PyTorch Geometric is the test oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd import Function

from peerwise.trust.lanes import LANES, add, load, multiply, multiply_add, spread, store, total, where_positive

SLOPE = np.float32(0.2)
ZERO = np.float32(0)


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
        heads, width = attention.shape
        wide, kinds = {sent.shape[1], target.shape[1]}, {t.dtype for t in (sent, target, attention, edge)}
        if wide != {heads * width} or width % LANES or kinds != {torch.float32}:  # compiled loops would not notice
            raise ValueError(f"{heads} heads of {width}: {tuple(sent.shape)} and {tuple(target.shape)} do not fit.")
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


@njit(cache=True, error_model="numpy")
def _forward(sent, target, attention, edge, start, count, source, weight, drop):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    heads, width = attention.shape
    n, row = target.shape[0], heads * width
    out, alpha = np.zeros((n, width), np.float32), np.empty((source.shape[0], heads), np.float32)
    share = np.empty(source.shape[0], np.float32)
    sent, target, attention, flat_out = sent.reshape(-1), target.reshape(-1), attention.reshape(-1), out.reshape(-1)
    for i in range(n):
        first, last = start[i], start[i] + count[i]
        for h in range(heads):
            lo = h * width
            here, highest = i * row + lo, np.float32(-np.inf)
            for e in range(first, last):
                there, w, score = source[e] * row + lo, spread(weight[e]), spread(ZERO)
                for d in range(0, width, LANES):
                    v = multiply_add(w, load(edge, lo + d), add(load(sent, there + d), load(target, here + d)))
                    leaky = where_positive(v, v, multiply(v, spread(SLOPE)))
                    score = multiply_add(load(attention, lo + d), leaky, score)
                share[e] = total(score)
                highest = max(highest, share[e])
            whole = ZERO
            for e in range(first, last):
                share[e] = np.exp(share[e] - highest)
                whole += share[e]
            for e in range(first, last):
                alpha[e, h] = share[e] / whole
                share[e] = alpha[e, h] * drop[e, h] / np.float32(heads)
            for d in range(0, width, LANES):
                message = load(flat_out, i * width + d)
                for e in range(first, last):
                    message = multiply_add(spread(share[e]), load(sent, source[e] * row + lo + d), message)
                store(flat_out, i * width + d, message)
    return out, alpha


@njit(cache=True, error_model="numpy")
def _backward(grad, alpha, sent, target, attention, edge, start, count, source, weight, drop):  # type: ignore[no-untyped-def]  # pragma: no cover
    heads, width = attention.shape
    n, row = target.shape[0], heads * width
    d_sent, d_target = np.zeros_like(sent), np.empty_like(target)
    d_attention, d_edge = np.zeros_like(attention), np.zeros_like(edge)
    d_score, share = np.empty(source.shape[0], np.float32), np.empty(source.shape[0], np.float32)
    grad, sent, target, attention = grad.reshape(-1), sent.reshape(-1), target.reshape(-1), attention.reshape(-1)
    to_sent, to_target, to_attention = d_sent.reshape(-1), d_target.reshape(-1), d_attention.reshape(-1)
    for i in range(n):
        first, last = start[i], start[i] + count[i]
        for h in range(heads):
            lo = h * width
            here, mean = i * row + lo, ZERO
            for e in range(first, last):
                there, product = source[e] * row + lo, spread(ZERO)
                for d in range(0, width, LANES):
                    product = multiply_add(load(grad, i * width + d), load(sent, there + d), product)
                kept = drop[e, h] / np.float32(heads)
                share[e], d_score[e] = alpha[e, h] * kept, kept * total(product)
                mean += alpha[e, h] * d_score[e]
            for e in range(first, last):
                d_score[e] = alpha[e, h] * (d_score[e] - mean)
            for d in range(0, width, LANES):
                aim, tilt, a = load(target, here + d), load(edge, lo + d), load(attention, lo + d)
                g = load(grad, i * width + d)
                in_target, in_edge, in_attention = spread(ZERO), load(d_edge, lo + d), load(to_attention, lo + d)
                for e in range(first, last):
                    there, w = source[e] * row + lo + d, spread(weight[e])
                    v = multiply_add(w, tilt, add(load(sent, there), aim))
                    slope = where_positive(v, spread(d_score[e]), spread(SLOPE * d_score[e]))
                    in_attention = multiply_add(slope, v, in_attention)
                    in_target = add(in_target, slope)
                    in_edge = multiply_add(w, slope, in_edge)
                    message = multiply_add(spread(share[e]), g, load(to_sent, there))
                    store(to_sent, there, multiply_add(slope, a, message))
                store(to_target, here + d, multiply(in_target, a))
                store(d_edge, lo + d, in_edge)
                store(to_attention, lo + d, in_attention)
    for d in range(row):  # every score's gradient passes the attention on its way to the edge weight
        d_edge[d] *= attention[d]
    return d_sent, d_target, d_attention, d_edge
