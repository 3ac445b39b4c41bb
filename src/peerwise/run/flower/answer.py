"""What a site answers to the hub: its parcel, and what the hub may know of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from peerwise.errors import ParcelError, reason
from peerwise.methods.pool_models import PEERS_LEFT_OUT
from peerwise.run.flower.wire import Packed, packed_in, record_of, tree_in, tree_record
from peerwise.run.one_turn import Turn
from peerwise.run.rounds import RUN, VALIDATION

NAME = 200  # letters; a site's name ends up in files and lines


@dataclass(frozen=True)
class Answer:
    """``scores``: accuracy on validation rows by round. ``best``: the round that answers, where one was better than the
    others. ``left_out``: peers' models that the site does without. ``tested``: in research, answers on test rows."""

    name: str
    sent: int
    received: int
    scores: list[tuple[int, float]]
    best: int | None
    left_out: list[str]
    said: Packed | None
    tested: dict[str, Any] | None = None

    @classmethod
    def of(cls, name: str, turn: Turn, tested: dict[str, Any] | None) -> Answer:
        record = turn.state[RUN]
        curve = record["curves"].get(VALIDATION)
        return cls(
            name=name,
            sent=record["sent"],
            received=record["received"],
            scores=[] if curve is None else [(int(round), float(score)) for round, score in curve],
            best=record.get("best_round"),
            left_out=sorted(turn.state.get(PEERS_LEFT_OUT, {})),
            said=turn.parcel.encode() if turn.parcel else None,
            tested=tested,
        )

    def content(self) -> RecordDict:
        about: dict[str, Any] = {"name": self.name, "sent": self.sent, "received": self.received}
        about |= {"rounds": [round for round, _ in self.scores], "scores": [score for _, score in self.scores]}
        about |= {"best": -1 if self.best is None else self.best, "left_out": self.left_out}
        content = RecordDict({"site": ConfigRecord(about)})
        if self.said is not None:
            content["said"] = record_of(self.said)
        if self.tested is not None:
            content["tested"] = tree_record(self.tested)
        return content

    @classmethod
    def read(cls, content: RecordDict) -> Answer:
        """What is not as `content` makes it is refused, whatever it may be."""
        try:
            about = content["site"]
            scores = [(int(round), float(score)) for round, score in zip(about["rounds"], about["scores"], strict=True)]
            found = cls(
                name=str(about["name"]),
                sent=int(about["sent"]),
                received=int(about["received"]),
                scores=scores,
                best=None if about["best"] < 0 else int(about["best"]),
                left_out=[str(model)[:NAME] for model in about["left_out"]],
                said=packed_in(content["said"]) if "said" in content else None,
                tested=tree_in(content["tested"]) if "tested" in content else None,
            )
        except Exception as error:
            raise ParcelError(f"its answer cannot be read ({reason(error)}): expected one of Peerwise's.") from error
        if not found.name or len(found.name) > NAME or not found.name.isprintable() or found.name.startswith("$"):
            raise ParcelError(f"it calls itself {found.name[:50]!r}: expected a name of at most {NAME} letters.")
        if not all(math.isfinite(score) for _, score in found.scores):
            raise ParcelError("its scores are not finite: expected accuracies.")
        return found
