"""A small federation for the tests of the transports: keys, a roster, and each site's signed transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peerwise.parcels.signed import Identity, Member, Roster, Seen
from peerwise.transport import SignedTransport, Transport

FEDERATION = "ab" * 32


class Party:
    """Sites with their keys; ``refused`` is what any of them refused, in order."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.identities = {name: Identity.new() for name in names}
        self.now = int(time.time())
        members = [Member(name, identity.public) for name, identity in self.identities.items()]
        founder = self.identities[names[0]].public
        self.roster = Roster(FEDERATION, 1, founder, self.now - 10, self.now + 10**6, tuple(members))
        self.refused: list[tuple[str, str, str]] = []

    def at(self, site: str, transport: Transport, **options: Any) -> SignedTransport:
        """Signed by a site; a second one for the same site is that site restarted."""
        clock: Callable[[], float] = options.pop("clock", lambda: self.now)
        return SignedTransport(
            transport,
            identity=options.pop("identity", self.identities[site]),
            roster=options.pop("roster", self.roster),
            seen=Seen(self.folder / "seen" / site),
            clock=clock,
            lifetime=3600,
            on_refused=lambda *refused: self.refused.append(refused),
            **options,
        )
