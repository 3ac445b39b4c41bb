"""Global ensemble: everybody's models, all alike."""

from __future__ import annotations

from peerwise.methods.one_shot import OneShot
from peerwise.trust import UniformAverage
from peerwise.trust.base import Vote


class GlobalEnsemble(OneShot):
    """Every model of the pool with equal weight; what sharing models brings before anybody chooses among them."""

    def __init__(self, vote: Vote = "soft", folds: int = 5, epochs: int | None = None) -> None:
        super().__init__(UniformAverage(vote=vote), folds, epochs)
        self.vote = vote
