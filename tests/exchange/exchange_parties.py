"""A small federation for the tests of the exchange: keys, a roster, and each site's view of a shelf."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peerwise.exchange import Shelf, SignedExchange
from peerwise.parcels.signed import Identity, Member, Roster, Seen

FEDERATION = "ab" * 32


class Party:
    """Sites with their keys; ``refused`` is what all of them were told, in order."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.identities = {name: Identity.new() for name in names}
        self.now = int(time.time())
        members = [Member(name, identity.public) for name, identity in self.identities.items()]
        founder = self.identities[names[0]].public
        self.roster = Roster(FEDERATION, 1, founder, self.now - 10, self.now + 10**6, tuple(members))
        self.refused: list[tuple[str, str, str]] = []

    def at(self, site: str, shelf: Shelf, **options: Any) -> SignedExchange:
        """The exchange as a site sees it; a second one for the same site is that site restarted."""
        clock: Callable[[], float] = options.pop("clock", lambda: self.now)
        return SignedExchange(
            shelf,
            name=site,
            identity=options.pop("identity", self.identities[site]),
            roster=options.pop("roster", self.roster),
            federation=FEDERATION,
            seen=Seen(self.folder / "seen" / site),
            clock=clock,
            lifetime=3600,
            on_refused=lambda *told: self.refused.append(told),
            **options,
        )
