"""A new key in the place of an old one: one statement, signed by both."""

from __future__ import annotations

from dataclasses import dataclass

from peerwise.errors import NotTrusted, ParcelError
from peerwise.parcels.signed.envelope import opened, verify
from peerwise.parcels.signed.fields import (
    FORMAT,
    LATEST,
    NAME,
    SIGNATURE,
    exact_fields,
    known_format,
    public_key,
    text_like,
    whole,
)
from peerwise.parcels.signed.identity import Identity
from peerwise.parcels.strict import canonical

_FIELDS = {"format", "name", "old", "new", "at"}


@dataclass(frozen=True)
class Rotation:
    """From ``at`` on, ``name`` signs with the key ``new``."""

    name: str
    old: str
    new: str
    at: int

    @classmethod
    def read(cls, data: bytes, old: str) -> Rotation:
        """The statement, if the holder of the key ``old`` and that of the new one both signed it."""
        payload = opened(data, "rotation", [old])
        known_format(payload, "the rotation")
        exact_fields(payload, _FIELDS | {"accepted"}, "the rotation")
        text_like(payload["name"], NAME, "the rotation's name")
        public_key(payload["new"], "the rotation's new key")
        text_like(payload["accepted"], SIGNATURE, "the rotation's second signature")
        whole(payload["at"], 1, LATEST, "the rotation's time")
        if payload["old"] != old or payload["new"] == old:
            raise ParcelError("the rotation names other keys than those that signed it. Ask its sender for a new one.")
        said = canonical({field: payload[field] for field in _FIELDS})
        if not verify(payload["new"], "rotation-accepted", said, bytes.fromhex(payload["accepted"])):
            raise NotTrusted("the rotation is not signed by the new key: expected both signatures. Make it again.")
        return cls(payload["name"], old, payload["new"], payload["at"])


def rotation(old: Identity, new: Identity, name: str, at: int) -> bytes:
    said = {"format": FORMAT, "name": name, "old": old.public, "new": new.public, "at": at}
    accepted = new.signature("rotation-accepted", canonical(said)).hex()
    data = old.sign("rotation", {**said, "accepted": accepted})
    Rotation.read(data, old.public)
    return data
