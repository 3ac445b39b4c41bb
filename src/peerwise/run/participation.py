"""Which sites are present in a round, and which of them share in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from peerwise.data import derived_seed
from peerwise.errors import ConfigError


@dataclass(frozen=True)
class Participation:
    """``absent``: the rounds (from 0) in which a site is away and neither shares nor absorbs. Once it is back, it
    absorbs the last broadcast, then shares. ``join``: the part of the sites present that shares in a round, drawn anew
    each time, at least one; the others only absorb. Methods with one round have all sites in it.
    """

    join: float = 1.0
    absent: Mapping[str, Sequence[int]] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.join <= 1:
            raise ConfigError(f"join is {self.join}: expected a part of the sites, above 0 and at most 1.")

    def present(self, sites: Iterable[str], round: int) -> list[str]:
        return [site for site in sites if round not in self.absent.get(site, ())]

    def sharing(self, present: Sequence[str], round: int) -> list[str]:
        """Those of the sites present that share in this round, in the same order."""
        if self.join == 1 or not present:
            return list(present)
        number = max(1, int(self.join * len(present) + 0.5))
        rng = np.random.default_rng(derived_seed(self.seed, "join", round))
        # By name, so that the draw does not depend on the order in which the sites come.
        drawn = set(rng.choice(sorted(present), number, replace=False).tolist())
        return [site for site in present if site in drawn]
