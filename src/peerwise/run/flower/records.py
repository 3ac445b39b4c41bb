"""Parcels, states, requests and replies as Flower's records carry them: packed, never pickled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from peerwise.errors import ParcelError, reason
from peerwise.federation import Broadcast
from peerwise.parcels import LazyParcels, Parcel, pack, unpack
from peerwise.parcels.parcel import size
from peerwise.parcels.tree import MOST_SENT

MANIFEST = "manifest"
LAST = -1  # stands for no round: all of them are over
LONGEST_NAME = 200  # a site's name ends up in files and lines
Packed = tuple[bytes, dict[str, bytes]]


def record_of(packed: Packed) -> ArrayRecord:
    blobs = {MANIFEST: packed[0], **packed[1]}
    arrays = {name: Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data) for name, data in blobs.items()}
    return ArrayRecord(arrays)


def packed_in(record: ArrayRecord) -> Packed:
    """Unread: it is verified where it is unpacked."""
    blobs = {name: bytes(array.data) for name, array in record.items()}
    if MANIFEST not in blobs:
        raise ParcelError(f"a record holds {sorted(blobs)[:5]}: expected a manifest and its blobs. Send it again.")
    return blobs.pop(MANIFEST), blobs


def tree_record(tree: Mapping[str, Any]) -> ArrayRecord:
    return record_of(pack(tree))


def tree_in(record: ArrayRecord) -> dict[str, Any]:
    return unpack(*packed_in(record))


def request(round: int, broadcast: Broadcast | None) -> RecordDict:
    """To share in a round, after absorbing a broadcast whose content is packed."""
    content, names, packed = RecordDict(), list[str](), None if broadcast is None else broadcast.content
    if isinstance(packed, tuple):
        content["broadcast"] = record_of(packed)
    else:
        names = list(packed or {})
        for number, name in enumerate(names):
            content[f"broadcast.{number}"] = record_of((packed or {})[name])
    combined, left_out = (-1, {}) if broadcast is None else (broadcast.round, broadcast.left_out)
    without: dict[str, list[str]] = {"left_out": list(left_out), "reasons": list(left_out.values())}
    content["request"] = ConfigRecord({"round": round, "combined": combined, "sites": names, **without})
    return content


def read_request(content: RecordDict) -> tuple[int | None, Broadcast | None]:
    """The round to share in, None after the last, and the broadcast. A parcel is read when it is asked for: one that
    cannot be read excludes its sender alone."""
    about = content["request"]
    round, combined = None if about["round"] == LAST else int(about["round"]), int(about["combined"])
    if combined < 0:
        return round, None
    left_out = dict(zip(about["left_out"], about["reasons"], strict=True))
    if "broadcast" in content:
        return round, Broadcast(combined, Parcel.decode(*packed_in(content["broadcast"])), left_out)
    packed = {str(name): packed_in(content[f"broadcast.{number}"]) for number, name in enumerate(about["sites"])}
    sizes = {name: size(*packed[name]) for name in sorted(packed)}
    return round, Broadcast(combined, LazyParcels(sizes, lambda name: Parcel.decode(*packed[name])), left_out)


@dataclass(frozen=True)
class Reply:
    """What a site replies: its parcel, and what the hub may know of it. ``scores``: accuracy on validation rows by
    round. ``best``: the round that answers, where one was better than the others. ``left_out``: peers' models that the
    site does without. ``tested``: in research, answers on test rows."""

    name: str
    sent: int
    received: int
    scores: list[tuple[int, float]]
    best: int | None
    left_out: list[str]
    parcel: Packed | None
    tested: dict[str, Any] | None = None

    def content(self) -> RecordDict:
        about: dict[str, Any] = {"name": self.name, "sent": self.sent, "received": self.received}
        about |= {"rounds": [round for round, _ in self.scores], "scores": [score for _, score in self.scores]}
        about |= {"best": -1 if self.best is None else self.best, "left_out": self.left_out}
        content = RecordDict({"site": ConfigRecord(about)})
        if self.parcel is not None:
            content["parcel"] = record_of(self.parcel)
        if self.tested is not None:
            content["tested"] = tree_record(self.tested)
        return content

    @classmethod
    def read(cls, content: RecordDict, *, tested: bool) -> Reply:
        """Refused unless it is as `content` makes it; answers on test rows are read where they are expected."""
        try:
            about = content["site"]
            found = cls(
                name=str(about["name"]),
                sent=int(about["sent"]),
                received=int(about["received"]),
                scores=[(int(at), float(score)) for at, score in zip(about["rounds"], about["scores"], strict=True)],
                best=None if about["best"] < 0 else int(about["best"]),
                left_out=[str(model)[:LONGEST_NAME] for model in about["left_out"]],
                parcel=packed_in(content["parcel"]) if "parcel" in content else None,
                tested=unpack(*packed_in(content["tested"]), MOST_SENT) if tested and "tested" in content else None,
            )
        except Exception as error:
            raise ParcelError(f"its reply cannot be read ({reason(error)}): expected one of Peerwise's.") from error
        name = found.name
        if not name or len(name) > LONGEST_NAME or not name.isprintable() or name.startswith("$"):
            raise ParcelError(f"it calls itself {name[:50]!r}: expected a name of at most {LONGEST_NAME} characters.")
        if not all(math.isfinite(score) for _, score in found.scores):
            raise ParcelError("its scores are not finite: expected accuracies.")
        return found
