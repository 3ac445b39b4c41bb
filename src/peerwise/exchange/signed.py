"""Post and collect over any shelf, signed on one side and verified on the other: nobody in between is trusted."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from peerwise.errors import ConfigError, ExchangeError, NotTrusted, ParcelError, StorageError, reason
from peerwise.exchange.blob_cache import BlobCache
from peerwise.exchange.lazy import LazyParcels
from peerwise.exchange.shelf import Shelf
from peerwise.parcels import Parcel, sha256
from peerwise.parcels.signed import (
    Identity,
    Manifest,
    ManifestLimits,
    Roster,
    Seen,
    peer_name,
    seal,
    unseal,
    withdrawal,
)

ASKED_AT_ONCE, FETCHED_AT_ONCE = 32, 4
PAUSES = 0.05, 1.0  # seconds between two looks at a round: the first, and the longest
ROUNDS_KEPT = 2

Refused = Callable[[str, str, str], None]


@dataclass(frozen=True)
class CollectLimits:
    """Bytes that one site may send on a topic, and that all may together."""

    site_bytes: int = 512 << 20
    total_bytes: int = 8 << 30


class SignedExchange:
    """What one site says and hears. Only members of ``roster`` are heard. Whatever is wrong with what one of them sent,
    or with how it sends it, costs that member its own part of a round and is told to ``on_refused(site, topic, why)``.

    ``have`` is a folder for blobs that were fetched, which the caller cleans; without it they lie in a temporary one
    until two further rounds were collected. ``roster`` may be replaced by a newer one at any time.
    """

    def __init__(
        self,
        shelf: Shelf,
        *,
        name: str,
        identity: Identity,
        roster: Roster,
        federation: str,
        seen: Seen,
        clock: Callable[[], float] = time.time,
        lifetime: int = 30 * 24 * 3600,
        on_refused: Refused | None = None,
        have: str | Path | None = None,
        limits: CollectLimits | None = None,
    ) -> None:
        if roster.federation != federation:
            raise ConfigError(f"the roster is of federation {roster.federation!r}: expected {federation!r}.")
        self.shelf, self.name, self.roster, self.federation = shelf, peer_name(name), roster, federation
        self._identity, self._seen, self._clock, self._lifetime = identity, seen, clock, lifetime
        self._on_refused = on_refused or (lambda site, topic, why: None)
        self._limits = limits or CollectLimits()
        self._temporary = _temporary_folder() if have is None else None
        self._cache = BlobCache(self._temporary.name if self._temporary else str(have))
        self._recent: deque[set[str]] = deque(maxlen=ROUNDS_KEPT)

    def post(self, round: int, site: str, parcel: Parcel) -> None:
        if site != self.name:
            raise ExchangeError(f"{self.name} cannot post as {site!r}: expected its own name. Each site posts itself.")
        self.say(f"round-{round}", parcel)

    def collect(self, round: int, quorum: int = 0, deadline: float = 0.0) -> LazyParcels:
        return self.gather(f"round-{round}", quorum, deadline)

    def say(self, topic: str, parcel: Parcel, card: Mapping[str, Any] | None = None) -> Manifest:
        """Sign a parcel and lay it on the shelf, in a version above all before; readable by all on return."""
        return self._put(topic, *self.sealed(topic, parcel, card))

    def sealed(
        self, topic: str, parcel: Parcel, card: Mapping[str, Any] | None = None
    ) -> tuple[bytes, dict[str, bytes]]:
        """What `say` would lay on the shelf now."""
        return seal(parcel, self._identity, card=card, **self._facts(topic))

    def withdraw(self, topic: str, why: str) -> Manifest:
        """Take back what was said on a topic: its blobs are gone from the shelf, and others are told so."""
        return self._put(topic, withdrawal(self._identity, why=why, **self._facts(topic)), {})

    def fetch(self, site: str, topic: str) -> tuple[Manifest, bytes] | None:
        """What a member says on a topic, verified, and noted as seen before it is used; None if it says nothing.

        NotTrusted or ParcelError: it may not be used; ExchangeError: it could not be read.
        """
        self.roster.key_of(site)
        data = self.shelf.manifest(site, topic)
        return None if data is None else (self._verified(site, topic, data), data)

    def blobs(self, manifest: Manifest, have: str | Path | None = None) -> dict[str, bytes]:
        """The blobs of a manifest, each with the sha256 that it names; from ``have`` as far as they lie there, and put
        there as they come."""
        cache = self._cache if have is None else BlobCache(have)
        return {key: self._blob(cache, manifest.site, key, size) for key, size in manifest.blobs.items()}

    def gather(self, topic: str, quorum: int = 0, deadline: float = 0.0) -> LazyParcels:
        """The parcels of all members on a topic, those of ``quorum`` members or those that are there at the deadline.
        What is on its way then is waited for, as long as the shelf allows."""
        until, pause = time.monotonic() + deadline, PAUSES[0]
        gathering = _Gathering(self, topic)
        gathering.look()
        while len(gathering.found) < quorum and time.monotonic() < until:
            time.sleep(min(pause, max(0.0, until - time.monotonic())))
            pause = min(2 * pause, PAUSES[1])
            gathering.look()
        for site, why in sorted(gathering.refused.items()):
            self._on_refused(site, topic, why)
        found = dict(sorted(gathering.found.items()))
        self._forget_others(found.values())
        sizes = {site: manifest.nbytes for site, manifest in found.items()}
        digests = {site: manifest.digest for site, manifest in found.items()}
        return LazyParcels(sizes, lambda site: unseal(found[site], self.blobs(found[site])), digests)

    def close(self) -> None:
        self.shelf.close()
        if self._temporary:
            self._temporary.cleanup()

    def _facts(self, topic: str) -> dict[str, Any]:
        now = int(self._clock())
        # The time as the least version: also a site that lost all it had never says an old version again.
        version = max(now, 1 + self._seen.highest(self.name, topic), 1 + self._on_shelf(topic))
        facts = {"federation": self.federation, "site": self.name, "topic": topic, "version": version}
        return {**facts, "created": now, "expires": now + self._lifetime}

    def _on_shelf(self, topic: str) -> int:
        """The version of our own that a process which was killed may have left there without noting it."""
        try:
            data = self.shelf.manifest(self.name, topic)
            return self._read(self.name, topic, data).version if data else 0
        except (ParcelError, ExchangeError):  # expired, of a former key, or spoilt: the time is above it
            return 0

    def _put(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> Manifest:
        read = self._read(self.name, topic, manifest)  # as others will: what they would refuse is not posted
        self.shelf.put(topic, manifest, blobs)
        self._seen.note(self.name, topic, read.version, read.digest)
        return read

    def _read(self, site: str, topic: str, data: bytes) -> Manifest:
        limits = ManifestLimits(total_bytes=self._limits.site_bytes)
        return Manifest.read(data, self.roster, site=site, topic=topic, now=int(self._clock()), limits=limits)

    def _verified(self, site: str, topic: str, data: bytes) -> Manifest:
        manifest = self._read(site, topic, data)
        self._seen.note(site, topic, manifest.version, manifest.digest)
        return manifest

    def _blob(self, cache: BlobCache, site: str, key: str, size: int) -> bytes:
        if (known := cache.read(key, size)) is not None:
            return known
        data = self.shelf.blob(site, key, size)
        if len(data) != size or sha256(data) != key:
            raise NotTrusted(
                f"blob {key[:12]} of {site} is not what its manifest names ({len(data)} bytes): expected {size} bytes "
                f"with that sha256. It was changed on the way; fetch it again, or ask {site}."
            )
        cache.add(key, data)
        return data

    def _forget_others(self, manifests: Iterable[Manifest]) -> None:
        if self._temporary:
            self._recent.append({key for manifest in manifests for key in manifest.blobs})
            self._cache.keep_only(set().union(*self._recent))


class _Gathering:
    """One round's looking around: who was found, and why others were not."""

    def __init__(self, exchange: SignedExchange, topic: str) -> None:
        self.found: dict[str, Manifest] = {}
        self.refused: dict[str, str] = {}
        self._exchange, self._topic = exchange, topic
        self._settled: dict[str, bytes] = {}  # what was refused for good, so that it is not fetched again and again

    def look(self) -> None:
        """Ask all members that were not found yet, first for manifests, then for blobs."""
        sites = [name for name in sorted(self._exchange.roster.names) if name not in self.found]
        told = _together(ASKED_AT_ONCE, partial(self._tried, self._manifest), [(site,) for site in sites])
        manifests: dict[str, Manifest] = {}
        for site, data in zip(sites, told, strict=True):
            if data is not None and data != self._settled.get(site):
                manifest = self._tried(self._checked, site, data)
                if manifest is not None and self._fits(manifest, manifests):
                    manifests[site] = manifest
        jobs = list(manifests.items())
        whole = _together(FETCHED_AT_ONCE, partial(self._tried, self._whole), jobs)
        self.found |= {site: manifests[site] for (site, _), done in zip(jobs, whole, strict=True) if done}
        for site in self.found:
            self.refused.pop(site, None)

    def _manifest(self, site: str) -> bytes | None:
        return self._exchange.shelf.manifest(site, self._topic)

    def _checked(self, site: str, data: bytes) -> Manifest:
        self._settled[site] = data
        manifest = self._exchange._verified(site, self._topic, data)
        if manifest.withdrawn is not None:
            raise ParcelError(f"{site} took it back ({manifest.withdrawn})")
        return manifest

    def _whole(self, site: str, manifest: Manifest) -> bool:
        """Whether all is there and can be read."""
        settled = self._settled.pop(site)
        blobs = self._exchange.blobs(manifest)  # may be tried again: they may still be on their way
        self._settled[site] = settled
        unseal(manifest, blobs)
        return True

    def _fits(self, manifest: Manifest, others: Mapping[str, Manifest]) -> bool:
        most = self._exchange._limits.total_bytes
        before = sum(one.nbytes for one in (*others.values(), *self.found.values()))
        if manifest.nbytes + before > most:
            said = f"{manifest.nbytes} bytes on top of {before} of other sites"
            self.refused[manifest.site] = f"{said}: expected at most {most} together"
            return False
        return True

    def _tried(self, step: Callable[..., Any], site: str, *given: Any) -> Any:
        """What goes wrong with one site is written down, and no concern of the others."""
        try:
            return step(site, *given)
        except (ParcelError, ExchangeError) as error:
            self.refused[site] = reason(error)
            return None


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="peerwise-")
    except OSError as error:
        raise StorageError(
            f"no temporary folder can be made ({error}): expected room where the system keeps such files. Free some "
            f"space, or name another place in TMPDIR."
        ) from error


def _together(most: int, call: Callable[..., Any], given: list[Any]) -> list[Any]:
    if not given:
        return []
    with ThreadPoolExecutor(min(most, len(given))) as pool:
        return list(pool.map(lambda one: call(*one), given))
