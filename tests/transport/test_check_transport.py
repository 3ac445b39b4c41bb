"""Every transport of ours passes the kit, over every kind of folder, and the kit catches those that should not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from live_peers import PATIENT, free_port
from parties import FEDERATION, Party

from peerwise.checks import check_transport
from peerwise.checks.transport import SITES
from peerwise.errors import ConfigError, ExchangeError
from peerwise.parcels import Parcel
from peerwise.transport import (
    FolderTransport,
    MemoryTransport,
    Published,
    Transport,
    ZenohTransport,
    open_session,
    zenoh_config,
)
from peerwise.transport.memory import Shared


def test_memory_passes() -> None:
    shared = Shared()
    check_transport(lambda site: MemoryTransport(site, shared))


FOLDERS: dict[str, Callable[[Path], str | Path]] = {
    "path": lambda folder: folder / "shared",
    "local": lambda folder: f"local://{folder}/shared",
    "dir": lambda folder: f"dir::file://{folder}/shared",
    "memory": lambda folder: f"memory://{uuid4().hex}/shared",
    "dir of memory": lambda folder: f"dir::memory://{uuid4().hex}",
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_any_folder_passes(tmp_path: Path, kind: str) -> None:
    url = FOLDERS[kind](tmp_path)
    check_transport(lambda site: FolderTransport(url, site))
    if "memory" not in kind:
        assert sorted(path.name for path in (tmp_path / "shared").iterdir()) == sorted(SITES)


@pytest.mark.parametrize("before", ["", "file://", "dir::"])
def test_a_folder_is_one_place_however_it_is_named(tmp_path: Path, before: str) -> None:
    party = Party(tmp_path, SITES)
    party.at("East", FolderTransport(f"{before}{tmp_path}/shared", "East")).publish("round-0", Parcel(x=1))
    assert party.at("10", FolderTransport(tmp_path / "shared", "10")).gather("round-0")["East"]["x"] == 1


def test_live_peers_pass(tmp_path: Path) -> None:
    """Two of them know only the address of the third."""
    pytest.importorskip("zenoh")
    party = Party(tmp_path, SITES)
    addresses = {site: f"127.0.0.1:{free_port()}" for site in SITES}

    def make(site: str) -> Transport:
        connect = [] if site == SITES[0] else [addresses[SITES[0]]]
        config = zenoh_config(party.roster, site, listen=addresses[site], connect=connect, insecure_loopback=True)
        folders = {"outbox": tmp_path / site / "outbox", "cache": tmp_path / site / "cache"}
        given = {"name": site, "federation": FEDERATION, "serve": True, "limits": PATIENT}
        return ZenohTransport(open_session(config), **given, **folders)

    check_transport(make)


class Unsorted(MemoryTransport):
    def list(self, topic: str) -> list[str]:
        return [*reversed(super().list(topic))]


class FirstStays(MemoryTransport):
    def publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        if self.fetch(self.name, topic) is None:
            super().publish(topic, manifest, blobs)


class KeepsAll(MemoryTransport):
    """Blobs that no topic needs any more can still be fetched."""

    def publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        before = self._shared.get(self.name, {}).get(topic, (b"", {}))[1]
        super().publish(topic, manifest, {**before, **blobs})


class Leaky(MemoryTransport):
    """Hands on the publisher's own objects."""

    def publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        super().publish(topic, manifest, blobs)
        self._shared[self.name][topic] = manifest, blobs  # type: ignore[assignment]


class AnySize(MemoryTransport):
    def fetch(self, site: str, topic: str) -> Published | None:
        found = super().fetch(site, topic)
        if found is None:
            return None
        blobs = self._shared[site][topic][1]
        return Published(found.manifest, lambda sha256, size: blobs.get(sha256) or found.blob(sha256, size))


class OneAtATime(MemoryTransport):
    """One connection for all threads, such as that of sqlite3."""

    busy = False

    def _fetch(self, site: str, topic: str) -> Any:
        assert not self.busy, "the connection is in use"
        self.busy = True
        time.sleep(0.01)
        self.busy = False
        return super()._fetch(site, topic)


class Wearing(MemoryTransport):
    published = 0

    def _publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        self.published += 1
        if self.published > 20:
            raise ConnectionError("no more room")
        super()._publish(topic, manifest, blobs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Unsorted, "in this order"),
        (FirstStays, "expected b'second'"),
        (KeepsAll, "a blob that was replaced is not refused"),
        (Leaky, "changes when its publisher"),
        (AnySize, "where 3 are expected is not refused"),
        (OneAtATime, "the connection is in use"),
    ],
)
def test_the_kit_says_what_is_wrong(wrong: type[MemoryTransport], message: str) -> None:
    shared = Shared()
    with pytest.raises(AssertionError, match=message):
        check_transport(lambda site: wrong(site, shared), patience=1)


def test_what_a_publisher_raises_is_not_lost() -> None:
    shared = Shared()
    with pytest.raises(ExchangeError, match=r"publishing 'topic-7' failed.*no more room"):
        check_transport(lambda site: Wearing(site, shared), patience=1)


def test_a_factory_that_makes_nothing_is_told_so() -> None:
    with pytest.raises(AssertionError, match=r"make\('north'\) returned None: expected a Transport, with name, pub"):
        check_transport(lambda site: None)  # type: ignore[arg-type, return-value]


def test_an_empty_transport_refuses_odd_names_too() -> None:
    transport = MemoryTransport("a", Shared())
    for call in (lambda: transport.list(".."), lambda: transport.fetch("a", ".."), lambda: transport.fetch("..", "b")):
        with pytest.raises(ConfigError):
            call()


def test_the_kit_notices_a_transport_that_forgets() -> None:
    shared = [Shared()]
    opened: list[str] = []

    def make(site: str) -> Transport:
        opened.append(site)
        if len(opened) == len(SITES) + 1:
            shared.append(Shared())
        return MemoryTransport(site, shared[-1])

    with pytest.raises(AssertionError, match="does not see what"):
        check_transport(make, patience=1)
