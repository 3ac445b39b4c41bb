"""Transport: how what one site publishes gets to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from peerwise.errors import ConfigError, ExchangeError
from peerwise.parcels.signed.fields import SHA256, TOPIC

MOST_MANIFEST = 1_000_000  # bytes


class Published(NamedTuple):
    """What one site published on one topic. ``blob(sha256, size)`` fetches one of its blobs, of exactly ``size`` bytes;
    nothing is fetched before it is called."""

    manifest: bytes
    blob: Callable[[str, int], bytes]


class Transport(Protocol):
    """One site's connection to the others. It carries bytes and vouches for none of them: what is fetched may be
    anything. `SignedTransport` wraps any transport and verifies.

    What cannot be reached now, or has another size than expected, is an ``ExchangeError``; a name or a topic that no
    site can have, a ``ConfigError``.
    """

    @property
    def name(self) -> str:
        """The site that publishes here."""

    def publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        """Replace what this site published on a topic; blobs go by their sha256. On return all of it is stored, and
        blobs that none of this site's topics needs any more are gone."""

    def list(self, topic: str) -> Sequence[str]:
        """The sites that may have published on a topic, sorted; only `fetch` says whether they did."""

    def fetch(self, site: str, topic: str) -> Published | None:
        """What a site published on a topic, with a manifest of at most ``MOST_MANIFEST`` bytes; None for nothing."""

    def close(self) -> None:
        """Release connections; nothing is called after this."""


def checked_topic(topic: str) -> str:
    if not TOPIC.fullmatch(topic):
        raise ConfigError(
            f"topic {topic[:80]!r}: expected small letters, digits and '-', such as 'models' or 'round-3'."
        )
    return topic


def checked_sha256(sha256: str) -> str:
    if not SHA256.fullmatch(sha256):
        raise ConfigError(f"blob {sha256[:80]!r}: expected the 64 hexadecimal digits of its sha256.")
    return sha256


def checked_manifest(manifest: bytes, site: str, topic: str) -> bytes:
    if len(manifest) > MOST_MANIFEST:
        raise ExchangeError(f"the manifest of {site} on {topic!r} is too long: expected at most {MOST_MANIFEST} bytes.")
    return manifest


def checked_blob(data: bytes | None, size: int, site: str, sha256: str) -> bytes:
    if data is None:
        raise ExchangeError(
            f"blob {sha256[:12]} of {site} is not there: expected what its manifest names. It may have been replaced "
            f"or withdrawn just now; fetch the manifest again."
        )
    if len(data) != size:
        found = f"{len(data)} bytes" if len(data) < size else "more bytes"
        raise ExchangeError(
            f"blob {sha256[:12]} of {site} has {found}: expected {size}. It was cut short or is still on its way; "
            f"fetch it again, or ask {site} to publish again."
        )
    return data
