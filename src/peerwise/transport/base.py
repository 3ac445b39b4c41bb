"""Transport: how what one site publishes gets to the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from peerwise.errors import ConfigError, ExchangeError, PeerwiseError, reason
from peerwise.parcels.signed.fields import NAME, SHA256, TOPIC, peer_name

MOST_MANIFEST = 1_000_000  # bytes

Blob = Callable[[str, int], bytes | None]  # by sha256 and size


class Published(NamedTuple):
    """What one site published on one topic. ``blob(sha256, size)`` fetches one of its blobs, of exactly ``size`` bytes;
    nothing is fetched before it is called."""

    manifest: bytes
    blob: Callable[[str, int], bytes]


class Transport(ABC):
    """One site's connection to the others. It carries bytes and vouches for none of them: what is fetched may be
    anything. `SignedTransport` wraps any transport and verifies.

    A transport implements ``_publish``, ``_list`` and ``_fetch``. Here names, topics and sizes are checked before and
    after, and whatever else such a method raises becomes an ``ExchangeError``: what cannot be reached now, or has
    another size than expected. A name or a topic that no site can have is a ``ConfigError``.
    """

    def __init__(self, name: str) -> None:
        self.name = peer_name(name)

    def publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        """Replace what this site published on a topic; blobs go by their sha256. On return all of it is stored, and
        blobs that none of this site's topics needs any more are gone."""
        checked_manifest(manifest, self.name, checked_topic(topic))
        kept = {checked_sha256(key): bytes(data) for key, data in blobs.items()}
        with exchange_errors(f"publishing {topic!r}"):
            self._publish(topic, bytes(manifest), kept)

    def list(self, topic: str) -> Sequence[str]:
        """The sites that may have published on a topic, sorted; only `fetch` says whether they did."""
        checked_topic(topic)
        with exchange_errors(f"listing the sites of {topic!r}"):
            return sorted(site for site in set(self._list(topic)) if NAME.fullmatch(site))

    def fetch(self, site: str, topic: str) -> Published | None:
        """What a site published on a topic, with a manifest of at most ``MOST_MANIFEST`` bytes; None for nothing."""
        with exchange_errors(f"fetching {checked_topic(topic)!r} of {peer_name(site)}"):
            found = self._fetch(site, topic)
            if found is None:
                return None
            manifest, blob = found
            return Published(checked_manifest(bytes(manifest), site, topic), partial(self._read_blob, site, blob))

    def _read_blob(self, site: str, blob: Blob, sha256: str, size: int) -> bytes:
        with exchange_errors(f"fetching blob {checked_sha256(sha256)[:12]} of {site}"):
            return checked_blob(blob(sha256, size), size, site, sha256)

    @abstractmethod
    def _publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        """See `publish`."""

    @abstractmethod
    def _list(self, topic: str) -> Iterable[str]:
        """See `list`; in any order."""

    @abstractmethod
    def _fetch(self, site: str, topic: str) -> tuple[bytes, Blob] | None:
        """See `fetch`: the manifest, at least its first ``MOST_MANIFEST`` + 1 bytes, and what fetches a blob by its
        sha256 and size, None for one that is not there."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release connections; nothing is called after this."""


@contextmanager
def exchange_errors(what: str) -> Iterator[None]:
    """Whatever a transport raises that Peerwise does not know, as an ``ExchangeError``."""
    try:
        yield
    except (PeerwiseError, MemoryError):
        raise
    except Exception as error:
        raise ExchangeError(f"{what} failed ({reason(error)}): is it reachable? Try again later.") from error


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
