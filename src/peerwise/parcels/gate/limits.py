"""What the gate lets in at most, and what it tells of a file that it let in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peerwise.errors import GateRefused


@dataclass(frozen=True)
class GateLimits:
    """The defaults admit every network of the zoo: ResNet-34 has 21 M parameters in 85 MB, 2.3 G operations a row and
    0.07 M values in its largest activation."""

    bytes: int = 128 * 2**20
    nodes: int = 5_000
    parameters: int = 32_000_000  # weights, and the numbers of tree ensembles
    fields: int = 400_000  # parts of the file that are read one by one
    texts: int = 2**20  # bytes of all names and labels together
    tree_depth: int = 512  # the runtime walks into a tree by recursion
    activation: int = 2**20  # values a row, in one activation
    activations: int = 2**24  # values a row, in all together
    flops: float = 1e10  # operations a row
    rows: int = 64  # the batch at which shapes are told


@dataclass(frozen=True)
class ModelFacts:
    """What is in a file that the gate let in; the largest ``activation`` and the ``flops`` are those of a row.
    ``outputs`` is one more than the task's classes where the last of ``classes`` is the reserved "unknown"."""

    bytes: int
    nodes: int
    parameters: int
    operators: tuple[str, ...]
    activation: int
    flops: int
    outputs: int
    classes: tuple[Any, ...] | None
    features: tuple[str, ...] | None


def refused(found: str, expected: str, remedy: str = "Ask the peer to export the model again.") -> GateRefused:
    """The one form of every refusal; what the file itself says is cut short by those who quote it."""
    return GateRefused(f"{found}: expected {expected}. {remedy}")


def quoted(text: object) -> str:
    """What a file says of itself, short enough for a message, and on one line."""
    said = repr(text)
    return said if len(said) <= 80 else f"{said[:76]}...'"
