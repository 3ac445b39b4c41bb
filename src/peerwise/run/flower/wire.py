"""Parcels and states as Flower's records carry them: packed, never pickled, cut into pieces by Flower where large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from peerwise.errors import ParcelError
from peerwise.exchange import LazyParcels
from peerwise.methods import Inbox
from peerwise.parcels import Parcel, pack, unpack
from peerwise.parcels.parcel import size
from peerwise.run.one_turn import Told

MANIFEST = "manifest"
LAST = -1  # stands for no round: all of them are over
Packed = tuple[bytes, dict[str, bytes]]


def record_of(packed: Packed) -> ArrayRecord:
    manifest, blobs = packed
    return ArrayRecord({name: _array(data) for name, data in {MANIFEST: manifest, **blobs}.items()})


def packed_in(record: ArrayRecord) -> Packed:
    """Unread; whoever unpacks it verifies it."""
    blobs = {name: bytes(array.data) for name, array in record.items()}
    if MANIFEST not in blobs:
        raise ParcelError(f"a record holds {sorted(blobs)[:5]}: expected a manifest and its blobs. Send it again.")
    return blobs.pop(MANIFEST), blobs


def tree_record(tree: Mapping[str, Any]) -> ArrayRecord:
    return record_of(pack(tree))


def tree_in(record: ArrayRecord) -> dict[str, Any]:
    return unpack(*packed_in(record))


def question(round: int, newest: int, told: Mapping[str, Packed] | Packed | None) -> RecordDict:
    """What the hub asks of a site in a round: share, having heard what was told last: by site, or one parcel."""
    content = RecordDict()
    if isinstance(told, tuple):
        content["told"] = record_of(told)
        names: list[str] = []
    else:
        names = list(told or {})
        for place, name in enumerate(names):
            content[f"told.{place}"] = record_of((told or {})[name])
    content["turn"] = ConfigRecord({"round": round, "newest": newest, "sites": names})
    return content


def asked(content: RecordDict) -> tuple[int | None, Told | None]:
    """The round to share in, None after the last; and what was told. A parcel is read when it is asked for, so that one
    which cannot be read is no loss but of its sender."""
    turn = content["turn"]
    round = None if turn["round"] == LAST else int(turn["round"])
    if turn["newest"] < 0:
        return round, None
    if "told" in content:
        return round, (int(turn["newest"]), Parcel.decode(*packed_in(content["told"])))
    packed = {str(name): packed_in(content[f"told.{place}"]) for place, name in enumerate(turn["sites"])}
    return round, (int(turn["newest"]), parcels_of(packed))


def parcels_of(packed: Mapping[str, Packed]) -> Inbox:
    return LazyParcels(
        {name: size(*packed[name]) for name in sorted(packed)}, lambda name: Parcel.decode(*packed[name])
    )


def _array(data: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data)
