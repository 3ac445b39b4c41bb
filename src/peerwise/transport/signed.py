"""Signed parcels over any transport, verified when they are fetched: nobody in between is trusted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from peerwise.errors import ExchangeError, NotTrusted, ParcelError, reason
from peerwise.parcels import LazyParcels, Parcel, sha256, write_atomic
from peerwise.parcels.signed import Identity, Manifest, ManifestLimits, Roster, Seen, seal, unseal, withdrawal
from peerwise.transport.base import Published, Transport, checked_sha256, exchange_errors

ASKED_AT_ONCE, FETCHED_AT_ONCE = 32, 4
PAUSES = 0.05, 1.0  # seconds between two looks at a round: the first, and the longest

Refused = Callable[[str, str, str], None]
Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class GatherLimits:
    """Bytes that one site may send on a topic, and that all may together."""

    site_bytes: int = 512 << 20
    total_bytes: int = 8 << 30


@dataclass(frozen=True)
class SignedParcel:
    """A manifest that was verified; ``blob`` fetches and verifies one of its blobs."""

    manifest: Manifest
    blob: Callable[[str, int], bytes]

    def read(self) -> Parcel:
        """The parcel; every blob of it is fetched now, unless it is in the cache."""
        return unseal(self.manifest, self.blobs())

    def blobs(self) -> dict[str, bytes]:
        return {key: self.blob(key, size) for key, size in self.manifest.blobs.items()}


class SignedTransport:
    """Publishes parcels signed by ``identity``, and fetches those of the members of ``roster``, which may be replaced
    by a newer one at any time. ``seen`` keeps the highest version of each site, so that no older one is taken again.

    Whatever is wrong with what a member sent, or with how it sends it, excludes that member from what is gathered and
    is reported to ``on_refused(site, topic, why)``. ``cache`` is a folder for blobs that were fetched, which the caller
    cleans; without it what is gathered is kept in memory.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        identity: Identity,
        roster: Roster,
        seen: Seen,
        clock: Callable[[], float] = time.time,
        lifetime: int = 30 * 24 * 3600,
        on_refused: Refused | None = None,
        cache: str | Path | None = None,
        limits: GatherLimits | None = None,
    ) -> None:
        self.transport, self.roster, self.limits = transport, roster, limits or GatherLimits()
        self._identity, self._seen, self._clock, self._lifetime = identity, seen, clock, lifetime
        self._on_refused = on_refused or (lambda site, topic, why: None)
        self._cache = None if cache is None else Path(cache)

    @property
    def name(self) -> str:
        return self.transport.name

    def publish(self, topic: str, parcel: Parcel, card: Mapping[str, Any] | None = None) -> Manifest:
        """Sign a parcel in a version above all before, and publish it."""
        return self._publish(topic, *self.sealed(topic, parcel, card))

    def sealed(
        self, topic: str, parcel: Parcel, card: Mapping[str, Any] | None = None
    ) -> tuple[bytes, dict[str, bytes]]:
        """The manifest and blobs that `publish` would publish now."""
        return seal(parcel, self._identity, card=card, **self._facts(topic))

    def withdraw(self, topic: str, why: str) -> Manifest:
        """Replace what was published on a topic by a signed withdrawal; its blobs are gone."""
        return self._publish(topic, withdrawal(self._identity, why=why, **self._facts(topic)), {})

    def fetch(self, site: str, topic: str) -> SignedParcel | None:
        """What a member published on a topic, its version noted as seen before it is used; None for nothing.

        NotTrusted or ParcelError: it may not be used; ExchangeError: it could not be read.
        """
        self.roster.key_of(site)
        published = self._found(site, topic)
        return None if published is None else self._verified(site, topic, published)

    def gather(self, topic: str, quorum: int = 0, deadline: float = 0.0) -> LazyParcels:
        """The parcels of all members on a topic, once ``quorum`` of them are there or ``deadline`` seconds have passed.
        Transfers that have begun then are waited for, as long as the transport allows."""
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
        sizes = {site: one.manifest.nbytes for site, one in found.items()}
        return LazyParcels(
            sizes, lambda site: found[site].read(), {site: one.manifest.digest for site, one in found.items()}
        )

    def close(self) -> None:
        self.transport.close()

    def list(self, topic: str) -> Sequence[str]:
        """The members that may have published on a topic."""
        return [site for site in self.transport.list(topic) if site in self.roster.names]

    def _facts(self, topic: str) -> dict[str, Any]:
        now = int(self._clock())
        # Versions start at the current time, so a site that lost its files still publishes a higher one.
        version = max(now, 1 + self._seen.highest(self.name, topic), 1 + self._published_version(topic))
        facts = {"federation": self.roster.federation, "site": self.name, "topic": topic, "version": version}
        return {**facts, "created": now, "expires": now + self._lifetime}

    def _published_version(self, topic: str) -> int:
        """The version of our own that a process which was killed may have published without noting it."""
        try:
            published = self._found(self.name, topic)
            return self._manifest(self.name, topic, published.manifest).version if published else 0
        except (ParcelError, ExchangeError):  # expired, signed by a former key, or damaged: the time is above it
            return 0

    def _found(self, site: str, topic: str) -> Published | None:
        with exchange_errors(f"fetching {topic!r} of {site}"):  # a transport need not be a `Transport`
            return self.transport.fetch(site, topic)

    def _publish(self, topic: str, data: bytes, blobs: Mapping[str, bytes]) -> Manifest:
        manifest = self._manifest(self.name, topic, data)  # what the others would refuse is not published
        with exchange_errors(f"publishing {topic!r}"):
            self.transport.publish(topic, data, blobs)
        self._seen.note(self.name, topic, manifest.version, manifest.digest)
        return manifest

    def _manifest(self, site: str, topic: str, data: bytes) -> Manifest:
        limits = ManifestLimits(total_bytes=self.limits.site_bytes)
        return Manifest.read(data, self.roster, site=site, topic=topic, now=int(self._clock()), limits=limits)

    def _verified(self, site: str, topic: str, published: Published) -> SignedParcel:
        manifest = self._manifest(site, topic, published.manifest)
        self._seen.note(site, topic, manifest.version, manifest.digest)
        return SignedParcel(manifest, partial(self._blob, site, published))

    def _blob(self, site: str, published: Published, key: str, size: int) -> bytes:
        path = None if self._cache is None else self._cache / checked_sha256(key)
        if path is not None and path.is_file() and path.stat().st_size == size:
            known = path.read_bytes()
            if sha256(known) == key:  # what was damaged is fetched again
                return known
        with exchange_errors(f"fetching blob {key[:12]} of {site}"):
            data = published.blob(key, size)
        if len(data) != size or sha256(data) != key:
            raise NotTrusted(
                f"blob {key[:12]} of {site} is not what its manifest names ({len(data)} bytes): expected {size} bytes "
                f"with that sha256. It was changed on the way; fetch it again, or ask {site}."
            )
        if path is not None:
            write_atomic(path, data, durable=False)  # it can be fetched again
        return data


class _Gathering:
    """The parcels of one topic that were found, and why others were refused."""

    def __init__(self, signed: SignedTransport, topic: str) -> None:
        self.found: dict[str, SignedParcel] = {}
        self.refused: dict[str, str] = {}
        self._signed, self._topic = signed, topic
        self._final: dict[str, bytes] = {}  # manifests that were refused for good: they are not read again

    def look(self) -> None:
        """Ask all members that were not found yet, first for manifests, then for blobs."""
        sites = [name for name in sorted(self._signed.roster.names) if name not in self.found]
        new: dict[str, SignedParcel] = {}
        for site, published in zip(sites, _at_once(ASKED_AT_ONCE, self._fetched, sites), strict=True):
            if published is not None and published.manifest != self._final.get(site):
                self._final[site] = published.manifest
                parcel = self._tried(site, partial(self._checked, site, published))
                if parcel is not None and self._fits(parcel.manifest, new):
                    new[site] = parcel
        whole = _at_once(FETCHED_AT_ONCE, self._whole, list(new.values()))
        self.found |= {parcel.manifest.site: parcel for parcel in whole if parcel is not None}
        for site in self.found:
            self.refused.pop(site, None)

    def _fetched(self, site: str) -> Published | None:
        return self._tried(site, lambda: self._signed._found(site, self._topic))

    def _checked(self, site: str, published: Published) -> SignedParcel:
        parcel = self._signed._verified(site, self._topic, published)
        if parcel.manifest.withdrawn is not None:
            raise ParcelError(f"{site} took it back ({parcel.manifest.withdrawn})")
        return parcel

    def _whole(self, parcel: SignedParcel) -> SignedParcel | None:
        """The parcel, all of which is here and can be read. Blobs may still be on their way: they are tried again."""
        site = parcel.manifest.site
        final = self._final.pop(site)
        blobs = self._tried(site, parcel.blobs)
        if blobs is None:
            return None
        self._final[site] = final
        if self._tried(site, lambda: unseal(parcel.manifest, blobs)) is None:
            return None
        kept = SignedParcel(parcel.manifest, lambda key, size: blobs[key])
        return kept if self._signed._cache is None else parcel

    def _fits(self, manifest: Manifest, others: Mapping[str, SignedParcel]) -> bool:
        before = sum(one.manifest.nbytes for one in (*others.values(), *self.found.values()))
        most = self._signed.limits.total_bytes
        if manifest.nbytes + before > most:
            size = f"{manifest.nbytes} bytes on top of {before} of other sites"
            self.refused[manifest.site] = f"{size}: expected at most {most} together"
            return False
        return True

    def _tried(self, site: str, step: Callable[[], Result]) -> Result | None:
        """Record what goes wrong with one site, and go on with the others."""
        try:
            return step()
        except (ParcelError, ExchangeError) as error:
            self.refused[site] = reason(error)
            return None


def _at_once(most: int, call: Callable[[Given], Result], given: Sequence[Given]) -> list[Result]:
    with ThreadPoolExecutor(max(1, min(most, len(given)))) as pool:
        return [*pool.map(call, given)]
