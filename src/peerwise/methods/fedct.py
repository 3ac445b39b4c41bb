"""FedCT: a majority's labels on public rows for everybody."""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np

from peerwise.data import Site
from peerwise.errors import ConfigError, choices
from peerwise.methods.averaging import told
from peerwise.methods.base import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.co_training import CoTraining, Labels, check_topic, heard, public
from peerwise.methods.public import majority, pack_labels, qualified_majority, unpack_labels
from peerwise.methods.public.consensus import UNDECIDED
from peerwise.parcels import Parcel


class FedCT(CoTraining):
    """Federated co-training (Abourayya et al., AAAI 2025).

    L[j] = the label that most sites say; with ``vote="qualified"`` only if at least ``quorum`` of them do
    loss = mean cross entropy over a batch of own rows and as many public rows with their labels L

    Before the first consensus a site trains on its own rows alone. Sent: |U| ceil(log2 C) bits; heard: the same, or
    |U| ceil(log2(C + 1)) bits where rows can be undecided. Departs from the paper: ``period`` counts rounds, not steps.
    """

    def __init__(
        self,
        vote: Literal["majority", "qualified"] = "majority",
        quorum: float = 0.8,
        period: int | None = None,
        **budget: Unpack[Budget],
    ) -> None:
        super().__init__(period, **budget)
        if vote not in ("majority", "qualified"):
            raise ConfigError(f"vote: {choices(vote, ('majority', 'qualified'), 'vote')}")
        if not 0.5 < quorum <= 1:
            raise ConfigError(f"quorum is {quorum}: expected above 0.5 and at most 1, a share of the sites.")
        self.vote = vote
        self.quorum = quorum

    def share(self, site: Site, round: int) -> Parcel:
        self.learn(site, round, site.state.get("consensus"), 1.0, mixed=True)
        if not self.speaks_in(round):
            return Parcel()
        labels = self.predict_proba(site, public(site)).argmax(axis=1)
        return Parcel(votes=pack_labels(labels, len(site.classes)), **self.about(site))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        votes, topic, left_out = heard(inbox, _votes)
        classes = topic["classes"]
        if self.vote == "majority":
            data = pack_labels(majority(votes.values(), classes), classes)
        else:
            agreed = qualified_majority(votes.values(), classes, self.quorum)
            data = pack_labels(np.where(agreed < 0, classes, agreed), classes + 1)
        return told(left_out, consensus=data, **topic), memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        if "consensus" not in inbox:
            return
        check_topic(site, inbox)
        classes = len(site.classes)
        labels = unpack_labels(inbox["consensus"], len(public(site)), classes + (self.vote == "qualified"))
        self.adopt(site, np.where(labels == classes, UNDECIDED, labels))


def _votes(parcel: Parcel) -> Labels:
    return unpack_labels(parcel["votes"], int(parcel["rows"]), int(parcel["classes"]))
