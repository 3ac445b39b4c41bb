"""check_transport: the contract of a Transport, tried with three sites."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from peerwise.errors import ConfigError, ExchangeError, reason
from peerwise.parcels import sha256
from peerwise.transport import Published, Transport
from peerwise.transport.base import MOST_MANIFEST

SITES = ("north", "East", "10")  # not in alphabetical order
VERBS = ("name", "publish", "list", "fetch", "close")
THREADS = 8

Make = Callable[[str], Transport]


def check_transport(make: Make, patience: float = 60.0) -> None:
    """Raise an AssertionError that says what is wrong, or return.

    ``make(site)`` opens the transport as one of `SITES`, all in one federation in which nothing is published; called
    again for the same site it stands for a restart of that site, whose earlier transport was closed. What is published
    must be seen by all within ``patience`` seconds.
    """
    sites = _Sites(make, {}, patience)
    try:
        for site in SITES:
            sites.open(site)
        for number, check in enumerate(CHECKS):
            check(sites, f"topic-{number}")
    finally:
        for transport in sites.transports.values():
            transport.close()


@dataclass(frozen=True)
class _Sites:
    make: Make
    transports: dict[str, Transport]
    patience: float

    def open(self, site: str) -> None:
        made = self.make(site)
        lacks = [verb for verb in VERBS if not hasattr(made, verb)]
        assert not lacks, f"make({site!r}) returned {made!r}: expected a Transport, with {', '.join(lacks)}."
        self.transports[site] = made

    def publish(self, site: str, topic: str, manifest: bytes, *blobs: bytes) -> None:
        self.transports[site].publish(topic, manifest, {sha256(blob): blob for blob in blobs})

    def fetched(self, reader: str, site: str, topic: str, manifest: bytes) -> Published:
        """What the reader fetches, as soon as it has this manifest."""
        until = time.monotonic() + self.patience
        found: bytes | str | None = None
        while time.monotonic() < until:
            try:
                published = self.transports[reader].fetch(site, topic)
                if published is not None and published.manifest == manifest:
                    return published
                found = published and published.manifest[:40]
            except ExchangeError as error:
                found = str(error)
            time.sleep(0.05)
        raise AssertionError(
            f"{reader} does not see what {site} published on {topic!r}: expected {manifest[:40]!r} within "
            f"{self.patience:g} seconds, found {found!r}."
        )

    def restart(self, site: str) -> None:
        self.transports.pop(site).close()
        self.open(site)


def _all_see_all(sites: _Sites, topic: str) -> None:
    for site in SITES:
        assert sites.transports[site].name == site, f"name is {sites.transports[site].name!r}: expected {site!r}."
        sites.publish(site, topic, b"manifest of " + site.encode(), b"blob of " + site.encode())
    for reader in SITES:
        for site in SITES:
            found = sites.fetched(reader, site, topic, b"manifest of " + site.encode())
            blob = b"blob of " + site.encode()
            assert found.blob(sha256(blob), len(blob)) == blob, f"{reader} gets another blob than {site} published."
        listed = [*sites.transports[reader].list(topic)]
        assert listed == sorted(SITES), f"{reader} lists {listed}: expected {sorted(SITES)}, in this order."


def _nothing_is_fetched_where_nothing_was_published(sites: _Sites, topic: str) -> None:
    sites.publish("East", "another-topic", b"elsewhere")
    sites.fetched("north", "East", "another-topic", b"elsewhere")
    found = sites.transports["north"].fetch("East", topic)
    assert found is None, f"a topic on which East published nothing holds {found!r}: expected None."


def _publishing_again_replaces(sites: _Sites, topic: str) -> None:
    old, kept, other = b"old model", b"model of both versions", b"model of another topic"
    sites.publish("10", topic, b"first", old, kept, other)
    sites.publish("10", f"{topic}-2", b"another topic", other)
    for reader in SITES:
        sites.fetched(reader, "10", topic, b"first")
    sites.publish("10", topic, b"second", kept)
    for reader in SITES:
        found = sites.fetched(reader, "10", topic, b"second")
        assert found.blob(sha256(kept), len(kept)) == kept, f"{reader} lost a blob that both versions have."
        _refused(ExchangeError, partial(found.blob, sha256(old), len(old)), "a blob that was replaced")
        beside = sites.fetched(reader, "10", f"{topic}-2", b"another topic")
        assert beside.blob(sha256(other), len(other)) == other, f"{reader} lost a blob that another topic has."


def _content_survives(sites: _Sites, topic: str) -> None:
    big, odd = np.random.default_rng(0).bytes(5_000_000), bytes(range(256)) + b"\r\n\x00\xff"
    manifest = odd * (MOST_MANIFEST // len(odd))
    sites.publish("north", topic, manifest, big, odd, b"")
    for reader in SITES:
        found = sites.fetched(reader, "north", topic, manifest)
        for blob in (big, odd, b""):
            assert found.blob(sha256(blob), len(blob)) == blob, f"{reader} gets other bytes than were published."


def _the_publisher_cannot_change_it(sites: _Sites, topic: str) -> None:
    blobs = {sha256(b"one"): b"one"}
    sites.transports["north"].publish(topic, b"manifest", blobs)
    blobs.clear()
    found = sites.fetched("10", "north", topic, b"manifest")
    assert _or_none(lambda: found.blob(sha256(b"one"), 3)) == b"one", (
        "what is published changes when its publisher changes what it was made from."
    )


def _sizes_are_checked(sites: _Sites, topic: str) -> None:
    sites.publish("north", topic, b"manifest", b"blob")
    for reader in SITES:
        found = sites.fetched(reader, "north", topic, b"manifest")
        for size in (3, 5):
            wrong = f"a blob of 4 bytes where {size} are expected"
            _refused(ExchangeError, partial(found.blob, sha256(b"blob"), size), wrong)
        _refused(ExchangeError, partial(found.blob, "0" * 64, 4), "a blob that nobody published")
    _refused(ExchangeError, lambda: sites.publish("north", topic, bytes(MOST_MANIFEST + 1)), "a manifest too long")


def _odd_names_are_refused(sites: _Sites, topic: str) -> None:
    at = sites.transports["north"]
    sites.publish("East", topic, b"manifest", b"blob")
    found = sites.fetched("north", "East", topic, b"manifest")
    for odd in ("", "..", "../north", "a/b", "a b", "é", "*"):
        _refused(ConfigError, partial(at.fetch, odd, topic), f"site {odd!r}")
        _refused(ConfigError, partial(at.fetch, "East", odd), f"topic {odd!r}")
        _refused(ConfigError, partial(at.publish, odd, b"", {}), f"publishing on topic {odd!r}")
        _refused(ConfigError, partial(at.list, odd), f"listing topic {odd!r}")
        _refused(ConfigError, partial(found.blob, odd, 4), f"blob {odd!r}")


def _a_reader_never_sees_half(sites: _Sites, topic: str) -> None:
    """Of a manifest and the blobs that it names; a blob may be gone when it was replaced meanwhile."""
    versions = [bytes([number]) * 20_000 for number in range(30)]
    sites.publish("East", topic, versions[0], versions[0])
    sites.fetched("north", "East", topic, versions[0])

    def replace() -> None:
        for version in versions[1:]:
            sites.publish("East", topic, version, version)

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(replace)
        while not writer.done():
            with suppress(ExchangeError):
                found = sites.transports["north"].fetch("East", topic)
                assert found is not None, "a topic is empty while it is replaced."
                assert found.manifest in versions, "a reader sees half of a manifest."
                blob = found.blob(sha256(found.manifest), len(found.manifest))
                assert blob == found.manifest, "a reader sees half of a blob."
        writer.result()


def _many_threads_may_read(sites: _Sites, topic: str) -> None:
    """As `SignedTransport.gather` does."""
    blobs = {site: np.random.default_rng(place).bytes(300_000) for place, site in enumerate(SITES)}
    for site in SITES:
        sites.publish(site, topic, site.encode(), blobs[site])
        sites.fetched("north", site, topic, site.encode())

    def read(site: str) -> None:
        blob, found = blobs[site], sites.transports["north"].fetch(site, topic)
        assert found is not None, f"north does not see what {site} published."
        assert found.blob(sha256(blob), len(blob)) == blob, f"north gets another blob than {site} published."

    with ThreadPoolExecutor(THREADS) as pool:
        try:
            [*pool.map(read, SITES * THREADS)]
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{THREADS} threads cannot read at the same time: {reason(error)}") from error


def _a_restart_loses_nothing(sites: _Sites, topic: str) -> None:
    for site in SITES:
        sites.publish(site, topic, b"before", site.encode())
    for site in SITES:
        sites.restart(site)
    sites.publish("East", topic, b"after", b"East")
    for reader in SITES:
        for site in SITES:
            found = sites.fetched(reader, site, topic, b"after" if site == "East" else b"before")
            assert found.blob(sha256(site.encode()), len(site)) == site.encode(), f"{site} lost a blob in a restart."


def _refused(kind: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        found = call()
    except kind:
        return
    raise AssertionError(f"{what} is not refused with {kind.__name__}: {repr(found)[:80]} was returned.")


def _or_none(call: Callable[[], bytes]) -> bytes | None:
    try:
        return call()
    except ExchangeError:
        return None


CHECKS: tuple[Callable[[_Sites, str], None], ...] = (
    _all_see_all,
    _nothing_is_fetched_where_nothing_was_published,
    _publishing_again_replaces,
    _content_survives,
    _the_publisher_cannot_change_it,
    _sizes_are_checked,
    _odd_names_are_refused,
    _a_reader_never_sees_half,
    _many_threads_may_read,
    _a_restart_loses_nothing,
)
