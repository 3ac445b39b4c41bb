"""Whatever happens to one site's files costs that site its own part of a round, in bounded time, and is reported."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import register_implementation
from parties import Party

from peerwise.errors import ConfigError, ExchangeError, NotTrusted, ParcelError, StorageError
from peerwise.parcels import Parcel, sha256
from peerwise.transport import FolderTransport, GatherLimits, SignedTransport

NAMES = ("a", "b", "c")
MODEL = bytes(range(256)) * 4000


def posted(party: Party, url: str | Path, names: tuple[str, ...] = NAMES) -> SignedTransport:
    """All have published; what the first of them sees."""
    for name in names:
        party.at(name, FolderTransport(url, name)).publish("round-0", Parcel(who=name, model=MODEL + name.encode()))
    return party.at(names[0], FolderTransport(url, names[0], seconds=2))


def biggest(folder: Path, site: str) -> Path:
    return max((folder / site / "blobs").iterdir(), key=lambda path: path.stat().st_size)


def cut(folder: Path) -> None:
    path = biggest(folder, "b")
    path.write_bytes(path.read_bytes()[:-3])


def lengthened(folder: Path) -> None:
    with biggest(folder, "b").open("ab") as file:
        file.truncate(1 << 33)  # eight gigabytes, none of them on disk


def swapped(folder: Path) -> None:
    path = biggest(folder, "b")
    path.write_bytes(bytes(len(path.read_bytes())))


def zipped(folder: Path) -> None:
    path = biggest(folder, "b")
    path.write_bytes(gzip.compress(path.read_bytes()))


def removed(folder: Path) -> None:
    biggest(folder, "b").unlink()


def piped(folder: Path) -> None:
    path = biggest(folder, "b")
    path.unlink()
    os.mkfifo(path)


def linked(folder: Path) -> None:
    path = biggest(folder, "b")
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")


def endless(folder: Path) -> None:
    path = folder / "b" / "manifests" / "round-0.json"
    path.unlink()
    path.symlink_to("/dev/zero")


def long_manifest(folder: Path) -> None:
    with (folder / "b" / "manifests" / "round-0.json").open("ab") as file:
        file.truncate(1 << 33)


def of_another(folder: Path) -> None:
    other = (folder / "c" / "manifests" / "round-0.json").read_bytes()
    (folder / "b" / "manifests" / "round-0.json").write_bytes(other)


def torn_manifest(folder: Path) -> None:
    path = folder / "b" / "manifests" / "round-0.json"
    path.write_bytes(path.read_bytes()[:200])


def linked_site(folder: Path) -> None:
    (folder / "b").rename(folder / ".b")
    (folder / "b").symlink_to(folder / ".b")


FAULTS = [cut, lengthened, swapped, zipped, removed, piped, linked, long_manifest, of_another, torn_manifest]
ABSENT = [endless, linked_site]


@pytest.mark.parametrize("fault", [*FAULTS, *ABSENT], ids=lambda fault: fault.__name__)
def test_a_fault_of_one_site_leaves_the_others_as_they_were(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    party, folder = Party(tmp_path, NAMES), tmp_path / "shared"
    first = posted(party, folder)
    fault(folder)
    found = first.gather("round-0")
    assert list(found) == ["a", "c"]
    assert {name: (found[name]["who"], found[name]["model"]) for name in found} == {
        name: (name, MODEL + name.encode()) for name in ("a", "c")
    }
    assert [(site, topic) for site, topic, _ in party.refused] == ([] if fault in ABSENT else [("b", "round-0")])


def test_a_site_repairs_what_was_damaged_by_publishing_again(tmp_path: Path) -> None:
    party, folder = Party(tmp_path, NAMES), tmp_path / "shared"
    first = posted(party, folder)
    swapped(folder)
    assert list(first.gather("round-0")) == ["a", "c"]
    party.at("b", FolderTransport(folder, "b")).publish("round-0", Parcel(who="b", model=MODEL + b"b"))
    assert first.gather("round-0")["b"]["model"] == MODEL + b"b"


def test_odd_things_in_the_folder_are_not_sites(tmp_path: Path) -> None:
    party, folder = Party(tmp_path, NAMES), tmp_path / "shared"
    first = posted(party, folder)
    for name in (".hidden", "with space", "Zürich", "x" * 41):
        (folder / name / "manifests").mkdir(parents=True)
        (folder / name / "manifests" / "round-0.json").write_bytes(b"{}")
    (folder / "file").write_bytes(b"")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to(folder / "b")
    assert first.transport.list("round-0") == list(NAMES)
    (folder / "stranger" / "manifests").mkdir(parents=True)
    (folder / "stranger" / "manifests" / "round-0.json").write_bytes(b"{}")
    assert first.transport.list("round-0") == [*NAMES, "stranger"]
    assert first.list("round-0") == list(NAMES)
    assert list(first.gather("round-0")) == list(NAMES), "only members of the roster are gathered"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".a", "a b", "é"])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    transport = FolderTransport(tmp_path / "shared", "a")
    for call in (
        lambda: FolderTransport(tmp_path, name),
        lambda: transport.fetch(name, "models"),
        lambda: transport.fetch("a", name),
        lambda: transport.publish(name, b"", {}),
        lambda: transport.publish("models", b"", {name: b""}),
    ):
        with pytest.raises(ConfigError):
            call()
    assert not (tmp_path / "shared").exists()


class Strange(MemoryFileSystem):
    """Memory, but some sites' files hang, drip or never end."""

    protocol = "strange"
    store: dict[str, Any] = {}  # noqa: RUF012 (as its parent has it)
    pseudo_dirs = [""]  # noqa: RUF012
    moods: dict[str, str] = {}  # noqa: RUF012

    def open(self, path: str, mode: str = "rb", **given: Any) -> Any:
        found = super().open(path, mode, **given)
        mood = next((mood for site, mood in self.moods.items() if f"/{site}/" in path), "")
        return Stream(found, mood) if mood and "r" in mode else found


class Stream(io.RawIOBase):
    def __init__(self, file: Any, mood: str) -> None:
        self.file, self.mood, self.asked = file, mood, 0

    def read(self, size: int = -1) -> bytes:
        if self.mood == "hangs":
            time.sleep(20)
        if self.mood == "drips":
            time.sleep(0.2)
            return bytes(self.file.read(1))
        assert 0 <= size <= 2 << 20, "never asked for more than a piece"
        self.asked += size
        assert self.asked <= 4 << 20, "read on and on"
        return b"e" * size


@pytest.fixture
def strange() -> str:
    register_implementation("strange", Strange, clobber=True)
    Strange.moods.clear()
    return f"strange://{uuid4().hex}"


@pytest.mark.parametrize(
    ("mood", "share"), [("hangs", 10), ("hangs", 50), ("hangs", 100), ("drips", 50), ("ends never", 50)]
)
def test_peers_that_hang_or_never_end_cost_their_time_alone(
    tmp_path: Path, strange: str, mood: str, share: int
) -> None:
    names = tuple(f"s{number}" for number in range(10))
    party = Party(tmp_path, names)
    first = posted(party, strange, names)
    bad = names[1 : 1 + share // 10]
    Strange.moods.update(dict.fromkeys(bad, mood))
    started = time.monotonic()
    found = first.gather("round-0")
    assert time.monotonic() - started < 60, "two seconds each, many at a time"
    assert list(found) == [name for name in names if name not in bad]
    assert {site for site, _, _ in party.refused} == set(bad)


def test_dead_peers_of_all_kinds_leave_the_rest(tmp_path: Path) -> None:
    names = tuple(f"s{number}" for number in range(10))
    party = Party(tmp_path, names)
    first = posted(party, tmp_path / "shared", names[:5])
    assert list(first.gather("round-0", quorum=10, deadline=0.3)) == list(names[:5])
    assert party.refused == []
    alone = party.at("s9", FolderTransport(tmp_path / "nobody", "s9"))
    assert dict(alone.gather("round-0")) == {}


def test_sizes_are_bounded_by_site_and_in_total(tmp_path: Path) -> None:
    party, folder = Party(tmp_path, NAMES), tmp_path / "shared"
    posted(party, folder)
    small = party.at("a", FolderTransport(folder, "a"), limits=GatherLimits(site_bytes=1000))
    assert list(small.gather("round-0")) == []
    assert len(party.refused) == 3
    two = party.at("a", FolderTransport(folder, "a"), limits=GatherLimits(total_bytes=2 * len(MODEL) + 2000))
    assert list(two.gather("round-0")) == ["a", "b"], "in the order of names, as far as they fit"
    assert party.refused[-1][0] == "c"


WRITER = """
import sys
from peerwise.transport import FolderTransport
from peerwise.parcels import sha256
transport = FolderTransport(sys.argv[1], sys.argv[2])
same = b"everybody has this" * 1000
for turn in range(int(sys.argv[4])):
    own = f"{sys.argv[3]} {turn}".encode() * 500
    transport.publish(sys.argv[3], sha256(own).encode(), {sha256(own): own, sha256(same): same})
"""


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Two sites, and two processes of each that write on different topics, with a blob in common."""
    jobs = [(site, topic) for site in ("a", "b") for topic in ("models", "round-0")]
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, *job, "15"], stderr=subprocess.PIPE) for job in jobs]
    transport = FolderTransport(tmp_path, "reader")
    while any(writer.poll() is None for writer in writers):
        for site, topic in jobs:
            found = transport.fetch(site, topic)
            assert found is None or len(found.manifest) == 64, "never half of a manifest"
    assert [writer.communicate()[1] for writer in writers] == [b""] * 4
    same = b"everybody has this" * 1000
    for site, topic in jobs:
        own = f"{topic} 14".encode() * 500
        found = transport.fetch(site, topic)
        assert found is not None
        assert found.manifest == sha256(own).encode()
        assert found.blob(sha256(own), len(own)) == own
        assert found.blob(sha256(same), len(same)) == same
        assert len(list((tmp_path / site / "blobs").iterdir())) == 3, "what was replaced is gone"
    assert not list(tmp_path.rglob("*.unfinished"))


def manifest_of(transport: FolderTransport) -> bytes:
    found = transport.fetch("a", "models")
    assert found is not None
    return found.manifest


def test_a_writer_that_was_killed_leaves_the_last_whole_version_and_nothing_to_clean(tmp_path: Path) -> None:
    transport = FolderTransport(tmp_path, "a")
    blob = b"x" * 1000
    transport.publish("models", b"first", {sha256(blob): blob})
    command = [sys.executable, "-c", WRITER, str(tmp_path), "a", "models", "1000000"]
    with subprocess.Popen(command) as writer:
        end = time.monotonic() + 60
        while manifest_of(transport) == b"first" and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        writer.kill()
    manifest = manifest_of(transport)
    assert transport.piece(manifest.decode(), 0, 100_000), "the manifest's blob is there"
    transport.publish("models", b"last", {sha256(blob): blob})
    assert manifest_of(transport) == b"last"
    assert [path.name for path in (tmp_path / "a" / "blobs").iterdir()] == [sha256(blob)]
    assert not list(tmp_path.rglob("*.unfinished"))


def test_what_cannot_be_written_or_reached_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be written"):
        FolderTransport(tmp_path / "file" / "shared", "a").publish("models", b"", {})
    with pytest.raises(ConfigError, match="cannot be used as a shared folder"):
        FolderTransport("nonsense://somewhere", "a")
    with pytest.raises(ExchangeError, match="too long"):
        FolderTransport(tmp_path, "a").publish("models", b"x" * 1_000_001, {})


def test_a_site_publishes_as_itself_alone(tmp_path: Path) -> None:
    party = Party(tmp_path, NAMES)
    stolen = party.at("b", FolderTransport(tmp_path / "shared", "b"), identity=party.identities["a"])
    with pytest.raises(NotTrusted):
        stolen.publish("round-0", Parcel())
    with pytest.raises(ParcelError, match="not in version 1 of the roster"):
        party.at("a", FolderTransport(tmp_path / "shared", "a")).fetch("stranger", "models")
