"""Parcels in a dictionary: the twin of every other exchange, for one process and its threads."""

from __future__ import annotations

import threading
from collections import defaultdict

from peerwise.exchange.names import file_name
from peerwise.parcels import Parcel


class MemoryExchange:
    """What is collected went through the same encoding as on a wire, so nothing else than bytes can pass."""

    def __init__(self) -> None:
        self._rounds: dict[int, dict[str, Parcel]] = defaultdict(dict)
        self._posted = threading.Condition()

    def post(self, round: int, site: str, parcel: Parcel) -> None:
        file_name(site)  # a name that a folder would refuse is refused here too
        arrived = Parcel.decode(*parcel.encode())
        with self._posted:
            self._rounds[round][site] = arrived
            self._posted.notify_all()

    def collect(self, round: int, quorum: int = 0, deadline: float = 0.0) -> dict[str, Parcel]:
        with self._posted:
            self._posted.wait_for(lambda: len(self._rounds[round]) >= quorum, timeout=deadline)
            return dict(sorted(self._rounds[round].items()))
