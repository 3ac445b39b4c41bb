"""Parcels in a dictionary: the twin of every other exchange, for one process."""

from __future__ import annotations

from collections import defaultdict

from peerwise.parcels import Parcel


class MemoryExchange:
    """What is collected went through the same encoding as on a wire, so nothing else than bytes can pass."""

    def __init__(self) -> None:
        self._rounds: dict[int, dict[str, Parcel]] = defaultdict(dict)

    def post(self, round: int, site: str, parcel: Parcel) -> None:
        self._rounds[round][site] = Parcel.decode(*parcel.encode())

    def collect(self, round: int, quorum: int = 0, deadline: float = 0.0) -> dict[str, Parcel]:
        return dict(sorted(self._rounds[round].items()))
