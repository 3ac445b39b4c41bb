"""What the one who starts the service decides."""

from __future__ import annotations

from dataclasses import dataclass

from peerwise.errors import ConfigError
from peerwise.serve.desk import LEVEL

LEVELS = (0.5, 0.999)
MEGABYTE = 1_000_000
MOST_VALUES = 1_000_000  # cells, pixels or numbers of one request: parsing takes many times their size in memory


@dataclass(frozen=True)
class Settings:
    """``token`` is None where anyone on this machine may ask. ``desks`` are asked at the same time, each with a guarded
    process of its own; ``waiting`` requests stand in line; ``rate`` requests a second are taken from one address.
    ``hosts``: the names by which the service may be addressed, None for any."""

    token: str | None
    level: float = LEVEL
    desks: int = 1
    waiting: int = 64
    rate: float = 100.0
    body_bytes: int = 8 * MEGABYTE
    rows: int = 10_000
    hosts: frozenset[str] | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        low, high = LEVELS
        for name, value, least, most in (
            ("level", self.level, low, high),
            ("workers", self.desks, 1, 64),
            ("queue", self.waiting, 0, 10_000),
            ("rate", self.rate, 0.1, 1_000_000),
            ("body-mb", self.body_bytes / MEGABYTE, 0.001, 1000),
        ):
            if not least <= value <= most:
                raise ConfigError(f"--{name} is {value:g}: expected {least:g} to {most:g}.")
