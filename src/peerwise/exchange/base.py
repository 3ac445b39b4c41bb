"""What every exchange does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from peerwise.parcels import Parcel


class Exchange(Protocol):
    """Carries parcels between sites. Posting twice replaces; parcels come back sorted by site."""

    def post(self, round: int, site: str, parcel: Parcel) -> None:
        """Make a site's parcel of a round available to all."""

    def collect(self, round: int, quorum: int = 0, deadline: float = 0.0) -> Mapping[str, Parcel]:
        """The parcels of a round, once ``quorum`` of them are there or ``deadline`` seconds have passed."""
