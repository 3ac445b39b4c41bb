"""FedCT: a majority's labels on public rows for everybody."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import numpy as np

from peerwise.data import Site
from peerwise.errors import ConfigError, choices
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.co_training import CoTraining, check_topic, public, topic
from peerwise.methods.public import majority, pack_labels, qualified_majority, unpack_labels
from peerwise.methods.public.consensus import UNDECIDED
from peerwise.parcels import Parcel


class FedCT(CoTraining):
    """Federated co-training (Abourayya et al., AAAI 2025).

    L[j] = the label that most sites say; with ``vote="qualified"`` only if at least ``quorum`` of them do
    loss = mean cross entropy over a batch of own rows and as many public rows with their labels L

    Before the first consensus a site trains on its own rows alone. Sent: |U| ceil(log2 C) bits; received: the same, or
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
        if not self.shares_in(round):
            return Parcel()
        labels = self.predict_proba(site, public(site)).argmax(axis=1)
        return Parcel(votes=pack_labels(labels, len(site.classes)), **self.about(site))

    def read_opinion(self, parcel: Parcel, rows: int, classes: int) -> dict[str, Any]:
        return {"labels": unpack_labels(parcel["votes"], rows, classes)}

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        votes = (inbox[name]["labels"] for name in sorted(inbox))
        about = topic(inbox[min(inbox)])
        classes = about["classes"]
        if self.vote == "majority":
            data = pack_labels(majority(votes, classes), classes)
        else:
            agreed = qualified_majority(votes, classes, self.quorum)
            data = pack_labels(np.where(agreed < 0, classes, agreed), classes + 1)
        return Parcel(consensus=data, **about), memory

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        if "consensus" not in inbox:
            return
        check_topic(site, inbox)
        classes = len(site.classes)
        labels = unpack_labels(inbox["consensus"], len(public(site)), classes + (self.vote == "qualified"))
        self.adopt(site, np.where(labels == classes, UNDECIDED, labels))
