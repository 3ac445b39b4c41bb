"""Requests, replies and states as Flower's records carry them: each one packed tree, never pickled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flwr.app import Array, ArrayRecord, RecordDict

from peerwise.errors import ParcelError, reason
from peerwise.federation import Broadcast
from peerwise.parcels import LazyParcels, Parcel, pack, unpack
from peerwise.parcels.parcel import size
from peerwise.parcels.tree import MOST_SENT, MOST_VALUES, blob_names

MANIFEST = "manifest"
LONGEST_NAME = 200  # a site's name ends up in files and lines
Packed = tuple[bytes, dict[str, bytes]]  # as an item of another tree it is carried unread


def tree_record(tree: Mapping[str, Any]) -> ArrayRecord:
    manifest, blobs = pack(tree)
    named = {MANIFEST: manifest, **blobs}
    return ArrayRecord({name: Array("uint8", (len(data),), "bytes", data) for name, data in named.items()})


def tree_in(record: Mapping[str, Any], most_values: int = MOST_VALUES) -> dict[str, Any]:
    blobs = {name: bytes(array.data) for name, array in record.items()}
    if MANIFEST not in blobs:
        raise ParcelError(f"a record holds {sorted(blobs)[:5]}: expected a manifest and its blobs. Send it again.")
    return unpack(blobs.pop(MANIFEST), blobs, most_values)


def request(round: int | None, broadcast: Broadcast | None) -> RecordDict:
    """To share in a round, None after the last, after absorbing a broadcast whose content is packed."""
    return RecordDict({"request": tree_record({"round": round, "broadcast": broadcast and vars(broadcast)})})


def read_request(content: RecordDict) -> tuple[int | None, Broadcast | None]:
    """Where the broadcast holds parcels by site, one is read when it is asked for: one that cannot be read excludes its
    sender alone."""
    tree = tree_in(content["request"])
    if tree["broadcast"] is None:
        return tree["round"], None
    broadcast = Broadcast(**tree["broadcast"])
    packed = broadcast.content
    if isinstance(packed, list):
        return tree["round"], replace(broadcast, content=Parcel.decode(*packed))
    sizes = {name: size(*packed[name]) for name in packed}
    return tree["round"], replace(broadcast, content=LazyParcels(sizes, lambda name: Parcel.decode(*packed[name])))


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
        tested = None if self.tested is None else pack(self.tested)
        return RecordDict({"reply": tree_record({**vars(self), "tested": tested})})

    @classmethod
    def read(cls, content: RecordDict, *, tested: bool) -> Reply:
        """Refused unless it is as `content` makes it; answers on test rows are read where they are expected."""
        try:
            tree = tree_in(content["reply"], MOST_SENT)
            answers = _packed(tree["tested"]) if tested else None
            found = cls(
                name=str(tree["name"]),
                sent=int(tree["sent"]),
                received=int(tree["received"]),
                scores=[(int(round), float(score)) for round, score in tree["scores"]],
                best=None if tree["best"] is None else int(tree["best"]),
                left_out=[str(model)[:LONGEST_NAME] for model in tree["left_out"]],
                parcel=_packed(tree["parcel"]),
                tested=None if answers is None else unpack(*answers, MOST_SENT),
            )
        except Exception as error:
            raise ParcelError(f"its reply cannot be read ({reason(error)}): expected one of Peerwise's.") from error
        name = found.name
        if not name or len(name) > LONGEST_NAME or not name.isprintable() or name.startswith("$"):
            raise ParcelError(f"it calls itself {name[:50]!r}: expected a name of at most {LONGEST_NAME} characters.")
        if not all(math.isfinite(score) for _, score in found.scores):
            raise ParcelError("its scores are not finite: expected accuracies.")
        return found


def _packed(node: Any) -> Packed | None:
    if node is None:
        return None
    manifest, blobs = node
    if not all(isinstance(data, bytes) for data in (manifest, *blobs.values())):
        raise ParcelError("a parcel that is not packed: expected a manifest and its blobs.")
    if sorted(blobs) != blob_names(manifest, MOST_SENT):
        raise ParcelError("a parcel with other blobs than its manifest names: expected these.")
    return manifest, blobs
