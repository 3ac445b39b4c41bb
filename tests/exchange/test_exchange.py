"""Both exchanges keep one contract; a folder is safe against odd names and half-written files."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.errors import ParcelError
from peerwise.exchange import Exchange, FolderExchange, MemoryExchange, file_name
from peerwise.exchange.names import site_name
from peerwise.parcels import Parcel

ODD_NAMES = [
    "St. Mary's",
    "ward/7",
    "../../etc",
    "..",
    ".",
    ".hidden",
    "a b ",
    "Zürich",
    "北京",
    "a\\b",
    "c:",
    "50%",
    "$x",
]


@pytest.fixture(params=["memory", "folder", "run folder"])
def exchange(request: pytest.FixtureRequest, tmp_path: Path) -> Exchange:
    if request.param == "memory":
        return MemoryExchange()
    if request.param == "folder":
        return FolderExchange(tmp_path / "shared")
    return FolderExchange(tmp_path / "shared", "sites/{site}/parcels/peerwise-s0/round-{round}")


def test_a_round_in_which_nobody_spoke_is_empty(exchange: Exchange) -> None:
    exchange.post(1, "a", Parcel(said=1))
    assert exchange.collect(0) == {}
    assert exchange.collect(2) == {}


def test_parcels_come_back_sorted_by_site_with_their_content(exchange: Exchange) -> None:
    for name in ("north", "East", "10", "9"):
        exchange.post(0, name, Parcel(who=name, values=np.arange(3.0), model=b"\x00onnx"))
    found = exchange.collect(0)
    assert list(found) == sorted(["north", "East", "10", "9"])
    assert found["East"]["who"] == "East"
    assert found["East"]["model"] == b"\x00onnx"
    assert found["East"]["values"].tolist() == [0.0, 1.0, 2.0]


def test_posting_twice_replaces(exchange: Exchange) -> None:
    exchange.post(0, "a", Parcel(said="first"))
    exchange.post(0, "a", Parcel(said="second"))
    exchange.post(1, "a", Parcel(said="later round"))
    assert {site: parcel["said"] for site, parcel in exchange.collect(0).items()} == {"a": "second"}


def test_what_is_collected_cannot_be_changed_by_the_sender(exchange: Exchange) -> None:
    values = np.zeros(3)
    exchange.post(0, "a", Parcel(values=values))
    values[:] = 7
    assert exchange.collect(0)["a"]["values"].tolist() == [0.0, 0.0, 0.0]


def test_names_of_any_kind_come_back_as_they_were(exchange: Exchange) -> None:
    for name in ODD_NAMES:
        exchange.post(0, name, Parcel(who=name))
    found = exchange.collect(0)
    assert list(found) == sorted(ODD_NAMES)
    assert all(parcel["who"] == site for site, parcel in found.items())


@pytest.mark.parametrize("name", ["", "x" * 201, "北" * 30])
def test_a_name_no_file_system_takes_is_refused_by_both_alike(exchange: Exchange, name: str) -> None:
    with pytest.raises(ParcelError, match="Rename the site"):
        exchange.post(0, name, Parcel(said=1))


def test_no_site_name_leaves_the_folder(tmp_path: Path) -> None:
    shared = tmp_path / "a" / "b" / "shared"
    exchange = FolderExchange(shared)
    for name in [*ODD_NAMES, str(tmp_path / "elsewhere"), "../../../../escaped"]:
        exchange.post(0, name, Parcel(who=name))
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(shared)]
    assert outside == []
    assert not [path for path in shared.rglob("*") if path.is_file() and path.name.startswith(".")]


@given(st.text(min_size=1, max_size=20).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)))
def test_a_file_name_is_one_plain_path_part_and_can_be_turned_back(name: str) -> None:
    safe = file_name(name)
    assert site_name(safe) == name
    assert Path(safe).name == safe
    assert safe.isascii()
    assert safe[0] not in ". "
    assert safe[-1] not in ". "


def test_collect_returns_at_once_when_the_quorum_is_there(exchange: Exchange) -> None:
    exchange.post(0, "a", Parcel(said=1))
    exchange.post(0, "b", Parcel(said=1))
    started = time.monotonic()
    assert len(exchange.collect(0, quorum=2, deadline=30)) == 2
    assert time.monotonic() - started < 5


def test_collect_waits_for_a_late_site(exchange: Exchange) -> None:
    exchange.post(0, "a", Parcel(said=1))
    late = threading.Timer(0.3, lambda: exchange.post(0, "b", Parcel(said=2)))
    late.start()
    try:
        started = time.monotonic()
        found = exchange.collect(0, quorum=2, deadline=30)
        assert list(found) == ["a", "b"]
        assert 0.2 < time.monotonic() - started < 10
    finally:
        late.join()


def test_collect_gives_what_is_there_when_the_deadline_passes(exchange: Exchange) -> None:
    exchange.post(0, "a", Parcel(said=1))
    started = time.monotonic()
    assert list(exchange.collect(0, quorum=2, deadline=0.3)) == ["a"]
    assert 0.25 < time.monotonic() - started < 10


def test_many_writers_at_once_lose_nothing(exchange: Exchange) -> None:
    shared = b"one model that everybody has" * 1000

    def post(number: int) -> None:
        for _ in range(5):
            exchange.post(0, f"site-{number}", Parcel(model=shared, number=number, own=np.full(50, number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(post, range(16)))
    found = exchange.collect(0)
    assert {parcel["number"] for parcel in found.values()} == set(range(16))
    assert all(parcel["model"] == shared for parcel in found.values())


def test_a_reader_never_sees_half_of_a_parcel_that_is_being_replaced(exchange: Exchange) -> None:
    def content(turn: int) -> Parcel:
        return Parcel(turn=turn, values=np.full(20_000, turn), model=bytes([turn % 256]) * 50_000)

    exchange.post(0, "a", content(0))
    stop = threading.Event()

    def write() -> None:
        for turn in range(1, 200):
            if stop.is_set():
                return
            exchange.post(0, "a", content(turn))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            parcel = exchange.collect(0)["a"]
            assert (parcel["values"] == parcel["turn"]).all()
            assert parcel["model"] == bytes([parcel["turn"] % 256]) * 50_000
    finally:
        stop.set()
        writer.join()


def test_another_process_can_post_later(tmp_path: Path) -> None:
    script = (
        "import sys, time; from peerwise.exchange import FolderExchange; from peerwise.parcels import Parcel;"
        "FolderExchange(sys.argv[1]).post(3, 'other process', Parcel(said='hello'))"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as process:
        found = FolderExchange(tmp_path).collect(3, quorum=1, deadline=60)
        assert process.wait() == 0
    assert found["other process"]["said"] == "hello"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [cut, remove])
def test_a_damaged_blob_is_refused_and_never_read(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    exchange = FolderExchange(tmp_path)
    exchange.post(0, "a", Parcel(model=b"some model"))
    damage(next((tmp_path / "blobs").iterdir()))
    with pytest.raises(ParcelError, match="blob"):
        exchange.collect(0)["a"]
    exchange.post(0, "a", Parcel(model=b"some model"))
    assert exchange.collect(0)["a"]["model"] == b"some model"


def test_files_of_a_writer_that_was_killed_are_not_taken_for_parcels(tmp_path: Path) -> None:
    exchange = FolderExchange(tmp_path)
    exchange.post(0, "a", Parcel(said=1))
    (tmp_path / "round-0" / ".b.json").write_bytes(b'{"format":1,')
    (tmp_path / "round-0" / ".0123456789abcdef").write_bytes(b'{"format":1,')
    assert list(exchange.collect(0)) == ["a"]
