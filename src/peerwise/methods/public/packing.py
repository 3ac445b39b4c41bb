"""Labels and expertise on public rows as bits: what is counted is what is sent.

A label of C classes takes ceil(log2 C) bits (one class: none, since there is nothing to say), a score b_E bits, and the
row's bits lie side by side, most significant first:

    |labels| = ceil(|U| ceil(log2 C) / 8) bytes        |votes| = ceil(|U| (ceil(log2 C) + b_E) / 8) bytes

Bytes come from peers, so whatever could not have been packed here is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import ModelError, ParcelError

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]
MOST_BITS = 16


def label_bits(classes: int) -> int:
    """ceil(log2 C).

    >>> [label_bits(classes) for classes in (1, 2, 3, 4, 10)]
    [0, 1, 2, 2, 4]
    """
    if classes < 1:
        raise ModelError(f"{classes} classes: expected at least one.")
    return (classes - 1).bit_length()


def pack_labels(labels: ArrayLike, classes: int) -> bytes:
    """Labels 0..C-1, shape (|U|,), in ceil(|U| ceil(log2 C) / 8) bytes."""
    return _pack(_within(labels, classes, "label"), label_bits(classes))


def unpack_labels(data: bytes, count: int, classes: int) -> Labels:
    """What `pack_labels` packed, for ``count`` public rows."""
    return _known(_unpack(data, count, label_bits(classes)), classes)


def pack_votes(labels: ArrayLike, expertise_codes: ArrayLike, classes: int, bits: int) -> bytes:
    """Labels 0..C-1 and codes 0..2^bits - 1, both (|U|,), in ceil(|U| (ceil(log2 C) + bits) / 8) bytes."""
    said = _within(labels, classes, "label")
    codes = _within(expertise_codes, _levels(bits), "expertise code")
    if said.shape != codes.shape:
        raise ModelError(f"{len(said)} labels and {len(codes)} expertise codes: expected one of each a public row.")
    return _pack(said << bits | codes, label_bits(classes) + bits)


def unpack_votes(data: bytes, count: int, classes: int, bits: int) -> tuple[Labels, Labels]:
    """The labels and the codes that `pack_votes` packed, for ``count`` public rows."""
    levels = _levels(bits)
    votes = _unpack(data, count, label_bits(classes) + bits)
    return _known(votes >> bits, classes), votes & (levels - 1)


def quantise(values: ArrayLike, low: float, high: float, bits: int) -> Labels:
    """code = round((v - low) / (high - low) (2^bits - 1)): 2^bits even levels, both ends among them."""
    scores = np.asarray(values, dtype=np.float64)
    if not np.all((scores >= low) & (scores <= high)):
        raise ModelError(
            f"scores from {scores.min()} to {scores.max()}: expected finite values from {low} to {high}. Clip them, or "
            "give the range of this score."
        )
    if high == low:
        return np.zeros(scores.shape, dtype=np.int64)
    return np.rint((scores - low) / (high - low) * (_levels(bits) - 1)).astype(np.int64)


def dequantise(codes: ArrayLike, low: float, high: float, bits: int) -> Scores:
    """v = low + (high - low) code / (2^bits - 1), off by half a level at most."""
    shares = np.asarray(codes, dtype=np.float64) / (_levels(bits) - 1)
    return np.minimum(low + (high - low) * shares, high)


def _levels(bits: int) -> int:
    if not 1 <= bits <= MOST_BITS:
        raise ModelError(f"{bits} bits for a score: expected 1 to {MOST_BITS}.")
    return 1 << bits


def _within(values: ArrayLike, limit: int, what: str) -> Labels:
    given: NDArray[Any] = np.asarray(values)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ModelError(f"{what}s of shape {given.shape}, {given.dtype}: expected whole numbers, one a public row.")
    if given.size and (given.min() < 0 or given.max() >= limit):
        raise ModelError(f"{what}s from {given.min()} to {given.max()}: expected 0 to {limit - 1}.")
    return given.astype(np.int64)


def _known(labels: Labels, classes: int) -> Labels:
    if labels.size and labels.max() >= classes:
        raise ParcelError(
            f"label {labels.max()} in what a peer said: expected 0 to {classes - 1}. The peer has other classes or "
            "sent damaged bytes; leave it out."
        )
    return labels


def _pack(values: Labels, width: int) -> bytes:
    places = np.arange(width - 1, -1, -1)
    return np.packbits((values[:, None] >> places & 1).astype(np.uint8)).tobytes()


def _unpack(data: bytes, count: int, width: int) -> Labels:
    expected = -(-count * width // 8)
    if len(data) != expected:
        raise ParcelError(
            f"{len(data)} bytes about {count} public rows: expected {expected} ({width} bits a row). All sites need "
            "the same public rows, classes and bits."
        )
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    if bits[count * width :].any():
        raise ParcelError(f"the last byte {data[-1]:#04x} has bits after the last public row: expected zeros there.")
    weights = 1 << np.arange(width - 1, -1, -1, dtype=np.int64)
    return bits[: count * width].reshape(count, width).astype(np.int64) @ weights
