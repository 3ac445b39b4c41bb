"""The signed manifest: who says what to whom, in which version, until when, in which blobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from peerwise.errors import NotTrusted, ParcelError
from peerwise.parcels.signed.envelope import opened
from peerwise.parcels.signed.fields import (
    FEDERATION,
    FORMAT,
    MOST_VERSION,
    NAME,
    SHA256,
    SKEW,
    TOPIC,
    exact_fields,
    known_format,
    lifetime,
    plain_text,
    text_like,
    whole,
)
from peerwise.parcels.signed.identity import Identity
from peerwise.parcels.signed.roster import Roster
from peerwise.parcels.strict import canonical
from peerwise.parcels.tree import sha256

MOST_CARD_BYTES = 64 << 10


@dataclass(frozen=True)
class ManifestLimits:
    """What one manifest may announce."""

    blobs: int = 1000
    blob_bytes: int = 512 << 20
    total_bytes: int = 2 << 30


LIMITS = ManifestLimits()


@dataclass(frozen=True)
class Manifest:
    """``parcel`` is the sha256 of the packed tree's own manifest, which is one of the ``blobs`` (sha256 to size).
    A withdrawal has a reason, an empty ``parcel`` and no blobs."""

    federation: str
    site: str
    topic: str
    version: int
    created: int
    expires: int
    parcel: str
    blobs: Mapping[str, int] = field(default_factory=dict)
    card: Mapping[str, Any] | None = None
    withdrawn: str | None = None

    def __post_init__(self) -> None:
        text_like(self.federation, FEDERATION, "the manifest's federation")
        text_like(self.site, NAME, "the manifest's site")
        text_like(self.topic, TOPIC, "the manifest's topic")
        whole(self.version, 1, MOST_VERSION, "the manifest's version")
        lifetime(self.created, self.expires, "the manifest")
        if not isinstance(self.blobs, Mapping):
            raise ParcelError(f"the manifest's blobs are a {type(self.blobs).__name__}: expected sizes by sha256.")
        for name in self.blobs:
            text_like(name, SHA256, "a blob of the manifest")
        if self.card is not None and (
            not isinstance(self.card, Mapping) or len(canonical(dict(self.card))) > MOST_CARD_BYTES
        ):
            raise ParcelError(f"the manifest's card is no object of at most {MOST_CARD_BYTES} bytes. Shorten it.")
        if self.withdrawn is not None:
            plain_text(self.withdrawn, 500, "the reason of the withdrawal", least=1)
            if self.parcel != "" or self.blobs or self.card is not None:
                raise ParcelError("a withdrawal carries a parcel, blobs or a card: expected the reason alone.")
        elif not isinstance(self.parcel, str) or self.parcel not in self.blobs:
            raise ParcelError(f"the manifest's parcel {repr(self.parcel)[:80]} is none of its blobs: expected one.")

    @cached_property
    def payload(self) -> dict[str, Any]:
        said = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {"format": FORMAT, **said, "blobs": dict(self.blobs), "card": self.card and dict(self.card)}

    @cached_property
    def digest(self) -> str:
        """What tells two manifests of one version apart."""
        return sha256(canonical(self.payload))

    @property
    def nbytes(self) -> int:
        """Bytes of all blobs together."""
        return sum(self.blobs.values())

    def signed(self, identity: Identity) -> bytes:
        self.check_sizes(LIMITS)
        return identity.sign("manifest", self.payload)

    @classmethod
    def read(
        cls, data: bytes, roster: Roster, *, site: str, topic: str, now: int, limits: ManifestLimits = LIMITS
    ) -> Manifest:
        """What this member said on this topic, or NotTrusted / ParcelError."""
        payload = opened(data, "manifest", [roster.key_of(site)])
        known_format(payload, f"the manifest of {site}")
        names = [one.name for one in dataclasses.fields(cls)]
        exact_fields(payload, ["format", *names], f"the manifest of {site}")
        manifest = cls(**{name: payload[name] for name in names})
        for what, found, expected in (
            ("federation", manifest.federation, roster.federation),
            ("site", manifest.site, site),
            ("topic", manifest.topic, topic),
        ):
            if found != expected:
                raise NotTrusted(
                    f"the manifest of {site} is of the {what} {found!r}: expected {expected!r}. "
                    f"Somebody put it where it does not belong; fetch it again."
                )
        manifest.check_times(now)
        manifest.check_sizes(limits)
        return manifest

    def check_times(self, now: int) -> None:
        if self.created > now + SKEW:
            raise NotTrusted(
                f"the manifest of {self.site} was made {self.created - now} seconds from now: expected at most {SKEW}. "
                f"Check the clocks of both sites."
            )
        if now >= self.expires:
            raise NotTrusted(
                f"the manifest of {self.site} expired {now - self.expires} seconds ago: ask it to publish again."
            )

    def check_sizes(self, limits: ManifestLimits) -> None:
        if len(self.blobs) > limits.blobs:
            raise ParcelError(f"the manifest of {self.site} has {len(self.blobs)} blobs: expected <= {limits.blobs}.")
        for name, size in self.blobs.items():
            whole(size, 0, limits.blob_bytes, f"the size of blob {name[:12]} of {self.site}")
        if self.nbytes > limits.total_bytes:
            raise ParcelError(
                f"the blobs of {self.site} have {self.nbytes} bytes: expected at most {limits.total_bytes} in total."
            )
