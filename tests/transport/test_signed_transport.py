"""What was signed is what is fetched: nothing older, nothing else, by nobody else; in bounded time and memory."""

from __future__ import annotations

import shutil
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from parties import Party

from peerwise.errors import ExchangeError, NotTrusted, StorageError
from peerwise.parcels import Parcel
from peerwise.parcels.signed import Seen
from peerwise.transport import FolderTransport, MemoryTransport, Published, SignedTransport
from peerwise.transport.memory import Shared

NAMES = ("a", "b", "c")


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path, NAMES)


def at(party: Party, shared: Shared, site: str) -> SignedTransport:
    return party.at(site, MemoryTransport(site, shared))


class Unplugged(MemoryTransport):
    """Of somebody else, with errors of its own: nothing here turns them into ours."""

    def fetch(self, site: str, topic: str) -> Published | None:
        found = super().fetch(site, topic)
        if site == "b":
            raise ConnectionError("the line is down")
        return found if site != "c" or found is None else Published(found.manifest, self._no_blob)

    def _no_blob(self, sha256: str, size: int) -> bytes:
        raise KeyError(sha256)


def test_errors_of_any_transport_cost_one_member(party: Party, shared: Shared) -> None:
    for name in NAMES:
        at(party, shared, name).publish("round-0", Parcel(w=np.ones(3)))
    a = party.at("a", Unplugged("a", shared))
    assert list(a.gather("round-0")) == ["a"]
    assert [(site, "ConnectionError" in why, "KeyError" in why) for site, _, why in party.refused] == [
        ("b", True, False),
        ("c", False, True),
    ]
    with pytest.raises(ExchangeError, match="the line is down"):
        a.fetch("b", "round-0")


def test_an_older_version_that_is_put_back_is_refused(party: Party, shared: Shared) -> None:
    at(party, shared, "b").publish("round-0", Parcel(note="old"))
    old = shared["b"]["round-0"]
    assert at(party, shared, "a").gather("round-0")["b"]["note"] == "old"
    at(party, shared, "b").publish("round-0", Parcel(note="new"))
    assert at(party, shared, "a").gather("round-0")["b"]["note"] == "new"
    shared["b"]["round-0"] = old
    assert list(at(party, shared, "a").gather("round-0")) == []
    assert "was seen before" in party.refused[-1][2]


def test_two_contents_under_one_version_are_refused(party: Party, shared: Shared, tmp_path: Path) -> None:
    at(party, shared, "b").publish("round-0", Parcel(note="to one"))
    assert at(party, shared, "a").gather("round-0")["b"]["note"] == "to one"
    shared.clear()
    shutil.rmtree(tmp_path / "seen" / "b")
    at(party, shared, "b").publish("round-0", Parcel(note="to another"))  # in the same second
    assert list(at(party, shared, "a").gather("round-0")) == []
    assert "two different versions" in party.refused[-1][2]


def test_a_site_that_lost_everything_is_heard_again(party: Party, shared: Shared, tmp_path: Path) -> None:
    for note in ("one", "two", "three"):
        at(party, shared, "b").publish("round-0", Parcel(note=note))
    at(party, shared, "a").gather("round-0")
    shutil.rmtree(tmp_path / "seen" / "b")
    shared.clear()
    party.now += 60
    at(party, shared, "b").publish("round-0", Parcel(note="back"))
    assert at(party, shared, "a").gather("round-0")["b"]["note"] == "back"


def test_a_clock_that_was_put_back_does_not_lower_versions(party: Party, shared: Shared) -> None:
    first = at(party, shared, "b").publish("models", Parcel(note=1))
    party.now -= 100
    second = at(party, shared, "b").publish("models", Parcel(note=2))
    assert second.version == first.version + 1
    party.now += 10_000
    assert at(party, shared, "b").publish("models", Parcel(note=3)).version == party.now


def test_what_has_expired_or_comes_from_the_future_is_not_heard(party: Party, shared: Shared) -> None:
    at(party, shared, "b").publish("round-0", Parcel(note=1))
    party.now += 3601
    assert list(at(party, shared, "a").gather("round-0")) == []
    assert "expired" in party.refused[-1][2]
    party.now -= 2 * 3601
    assert list(at(party, shared, "a").gather("round-0")) == []
    assert "from now" in party.refused[-1][2]


def test_who_was_revoked_is_not_heard_and_a_newer_roster_counts_at_once(party: Party, shared: Shared) -> None:
    for name in NAMES:
        at(party, shared, name).publish("round-0", Parcel(who=name))
    reader = at(party, shared, "a")
    assert list(reader.gather("round-0")) == ["a", "b", "c"]
    reader.roster = party.roster.revoked("b", "left")
    assert list(reader.gather("round-0")) == ["a", "c"]
    with pytest.raises(NotTrusted, match="revoked"):
        reader.fetch("b", "round-0")


def test_what_is_said_under_another_topic_or_name_is_not_heard(party: Party, shared: Shared) -> None:
    at(party, shared, "b").publish("round-0", Parcel(note=1))
    shared["b"]["round-1"] = shared["b"]["round-0"]
    shared["c"] = {"round-0": shared["b"]["round-0"]}
    reader = at(party, shared, "a")
    assert list(reader.gather("round-1")) == []
    assert list(reader.gather("round-0")) == ["b"]
    assert [(site, topic) for site, topic, _ in party.refused] == [("b", "round-1"), ("c", "round-0")]


def test_the_highest_version_is_on_disk_before_the_parcel_is_used(party: Party, shared: Shared, tmp_path: Path) -> None:
    manifest = at(party, shared, "b").publish("models", Parcel(note=1))
    shared["b"]["models"][1].clear()
    assert list(at(party, shared, "a").gather("models")) == []
    assert Seen(tmp_path / "seen" / "a").highest("b", "models") == manifest.version


def test_withdrawal_is_told_and_a_later_word_is_heard_again(party: Party, shared: Shared) -> None:
    site, reader = at(party, shared, "b"), at(party, shared, "a")
    site.publish("models", Parcel(note=1))
    assert list(reader.gather("models")) == ["b"]
    site.withdraw("models", "trained on the wrong rows")
    assert list(reader.gather("models")) == []
    assert "wrong rows" in party.refused[-1][2]
    site.publish("models", Parcel(note=2))
    assert reader.gather("models")["b"]["note"] == 2


def test_blobs_are_fetched_when_they_are_read_and_once_where_there_is_a_cache(
    party: Party, shared: Shared, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    site, reader = at(party, shared, "b"), party.at("a", MemoryTransport("a", shared), cache=kept)
    assert reader.fetch("b", "models") is None
    site.publish("models", Parcel(model=b"x" * 1000), card={"rows": "100-1000"})
    found = reader.fetch("b", "models")
    assert found is not None
    assert found.manifest.card == {"rows": "100-1000"}
    assert not kept.exists(), "no blob is fetched before it is asked for"
    assert found.read()["model"] == b"x" * 1000
    assert sorted(path.name for path in kept.iterdir()) == sorted(found.manifest.blobs)
    shared["b"]["models"][1].clear()
    assert found.read()["model"] == b"x" * 1000
    max(kept.iterdir(), key=lambda path: path.stat().st_size).write_bytes(bytes(1000))
    with pytest.raises(ExchangeError, match="is not there"):
        found.read()


def test_many_large_parcels_do_not_lie_in_memory(tmp_path: Path) -> None:
    names = tuple(f"s{number:02}" for number in range(30))
    party = Party(tmp_path, names)
    for seed, name in enumerate(names):
        model = np.random.default_rng(seed).bytes(2_000_000)
        party.at(name, FolderTransport(tmp_path / "shared", name)).publish("round-0", Parcel(model=model))
    reader = party.at("s00", FolderTransport(tmp_path / "shared", "s00"), cache=tmp_path / "kept")
    tracemalloc.start()
    try:
        found = reader.gather("round-0")
        for name in found:
            assert len(found[name]["model"]) == 2_000_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(found) == list(names)
    assert most < 40_000_000, "of sixty million bytes"


def test_no_room_for_what_is_fetched_is_an_error_in_a_sentence(party: Party, shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    site, reader = at(party, shared, "b"), party.at("a", MemoryTransport("a", shared), cache=tmp_path / "kept")
    site.publish("models", Parcel(model=b"a file"))
    with pytest.raises(StorageError, match=r"kept.* cannot be written .*Free some space"):
        reader.gather("models")
    assert not party.refused, "it is no fault of the site that sent it"


def test_without_a_cache_what_was_gathered_is_kept_in_memory(party: Party, shared: Shared, tmp_path: Path) -> None:
    at(party, shared, "b").publish("round-0", Parcel(model=b"x" * 1000))
    found = at(party, shared, "a").gather("round-0")
    shared.clear()
    assert found["b"]["model"] == b"x" * 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen"]


def test_content_of_any_kind_survives(party: Party, shared: Shared) -> None:
    sent = Parcel(
        big=np.random.default_rng(0).bytes(5_000_000),
        empty=b"",
        text="Zürich 北京 \u202e \x00 \n\"'",
        values={"of": [None, True, -1, 1.5, {"deep": np.arange(6, dtype=np.int8).reshape(2, 3)}], "none": []},
        odd=np.array([np.nan, np.inf, -0.0]),
        no_rows=np.zeros((0, 3), np.float32),
    )
    at(party, shared, "b").publish("round-0", sent)
    at(party, shared, "c").publish("round-0", Parcel())
    found = at(party, shared, "a").gather("round-0")
    assert found["b"] == sent
    assert len(found["c"]) == 0
    assert found.sizes["b"] > 5_000_000


def test_gather_gives_what_is_there_at_the_deadline(party: Party, shared: Shared) -> None:
    at(party, shared, "b").publish("round-0", Parcel(x=1))
    started = time.monotonic()
    assert list(at(party, shared, "a").gather("round-0", quorum=2, deadline=0.5)) == ["b"]
    assert time.monotonic() - started > 0.4


def test_gather_ends_when_the_quorum_is_there(party: Party, shared: Shared) -> None:
    at(party, shared, "c").publish("round-0", Parcel(x=1))
    late = threading.Timer(0.3, lambda: at(party, shared, "b").publish("round-0", Parcel(x=2)))
    late.start()
    try:
        assert list(at(party, shared, "a").gather("round-0", quorum=2, deadline=60)) == ["b", "c"]
        assert list(at(party, shared, "a").gather("round-0", quorum=1)) == ["b", "c"], "more than the quorum were there"
    finally:
        late.join()
