"""A shelf: where a site lays what it says for others to take. It carries bytes and vouches for none of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from peerwise.errors import ConfigError, ExchangeError, reason
from peerwise.parcels.signed import peer_name
from peerwise.parcels.signed.fields import NAME, SHA256, TOPIC

MOST_MANIFEST = 1_000_000  # bytes
Entries = dict[str, dict[str, tuple[bytes, dict[str, bytes]]]]  # manifest and blobs by site and topic
Result = TypeVar("Result")


class Shelf(Protocol):
    """Manifests by site and topic, and the blobs that they name. What is read may be anything: whoever reads verifies.
    ExchangeError: it cannot be read now, or is not of the size that was told."""

    def put(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        """Say this as the site that the shelf was opened for, instead of what it said on the topic before. On return it
        is there to stay, and blobs that no topic names any more are gone."""

    def sites(self, topic: str) -> list[str]:
        """Who may have something to say on a topic, sorted; the manifest tells."""

    def manifest(self, site: str, topic: str) -> bytes | None:
        """At most MOST_MANIFEST bytes; None if the site says nothing on this topic."""

    def blob(self, site: str, sha256: str, size: int) -> bytes:
        """Exactly ``size`` bytes."""

    def close(self) -> None:
        """Nothing is asked of it after this."""


class MemoryShelf:
    """The twin of the other shelves within one process: all that share ``place`` see each other."""

    def __init__(self, name: str, place: Entries) -> None:
        self.name = peer_name(name)
        self._place = place

    def put(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        known_topic(topic)
        small_enough(manifest, self.name, topic)
        self._place.setdefault(self.name, {})[topic] = (bytes(manifest), {key: bytes(blobs[key]) for key in blobs})

    def sites(self, topic: str) -> list[str]:
        return sorted(site for site, topics in list(self._place.items()) if topic in topics)

    def manifest(self, site: str, topic: str) -> bytes | None:
        entry = self._place.get(site, {}).get(known_topic(topic))
        return small_enough(entry[0], site, topic) if entry else None

    def blob(self, site: str, sha256: str, size: int) -> bytes:
        for _, blobs in list(self._place.get(site, {}).values()):
            if sha256 in blobs:
                return of_size(blobs[sha256], size, site, sha256)
        raise missing(site, sha256)

    def close(self) -> None:
        """There is nothing to close."""


def is_site(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def known_topic(topic: str) -> str:
    if not TOPIC.fullmatch(topic):
        raise ConfigError(
            f"topic {topic[:80]!r}: expected small letters, digits and '-', such as 'models' or 'round-3'."
        )
    return topic


def known_blob(sha256: str) -> str:
    if not SHA256.fullmatch(sha256):
        raise ConfigError(f"blob {sha256[:80]!r}: expected the 64 hexadecimal digits of its sha256.")
    return sha256


def small_enough(manifest: bytes, site: str, topic: str) -> bytes:
    if len(manifest) > MOST_MANIFEST:
        raise ExchangeError(f"what {site} says on {topic!r} is too long: expected at most {MOST_MANIFEST} bytes.")
    return manifest


def of_size(data: bytes, size: int, site: str, sha256: str) -> bytes:
    if len(data) != size:
        found = f"{len(data)} bytes" if len(data) < size else "more bytes"
        raise ExchangeError(
            f"blob {sha256[:12]} of {site} has {found}: expected {size}. It was cut short or is still on its way; "
            f"fetch it again, or ask {site} to publish again."
        )
    return data


def missing(site: str, sha256: str) -> ExchangeError:
    return ExchangeError(
        f"blob {sha256[:12]} of {site} is not there: expected what its manifest names. It may have been replaced or "
        f"withdrawn just now; fetch the manifest again."
    )


def within(seconds: float, what: str, call: Callable[[], Result]) -> Result:
    """What ``call`` returns, or ExchangeError when it takes longer: a share that hangs must not hang its readers. A
    thread that hangs is left behind, and does not keep the process from ending."""
    results: list[Result] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:  # given to the caller below
            errors.append(error)

    thread = threading.Thread(target=run, name="peerwise reading", daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    if not errors:
        raise ExchangeError(f"{what} took longer than {seconds:g} seconds: is the place reachable? Try again later.")
    if isinstance(errors[0], ExchangeError):
        raise errors[0]
    raise ExchangeError(f"{what} failed ({reason(errors[0])}): is the place reachable? Try again later.") from errors[0]
