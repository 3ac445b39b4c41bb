"""What was signed is what is heard: nothing older, nothing else, by nobody else; and much of it fits on disk."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from exchange_parties import FEDERATION, Party

from peerwise.errors import ConfigError, NotTrusted
from peerwise.exchange import FolderShelf, MemoryShelf, SignedExchange
from peerwise.exchange.shelf import Entries
from peerwise.parcels import Parcel
from peerwise.parcels.signed import Seen, unseal

NAMES = ("a", "b", "c")


@pytest.fixture
def place() -> Entries:
    return Entries()


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path, NAMES)


def at(party: Party, place: Entries, site: str) -> SignedExchange:
    return party.at(site, MemoryShelf(site, place))


def test_an_older_version_that_is_put_back_is_refused(party: Party, place: Entries) -> None:
    at(party, place, "b").post(0, "b", Parcel(said="old"))
    old = place["b"]["round-0"]
    assert at(party, place, "a").collect(0)["b"]["said"] == "old"
    at(party, place, "b").post(0, "b", Parcel(said="new"))
    assert at(party, place, "a").collect(0)["b"]["said"] == "new"
    place["b"]["round-0"] = old
    assert list(at(party, place, "a").collect(0)) == []
    assert "was seen before" in party.refused[-1][2]


def test_two_contents_under_one_version_are_refused(party: Party, place: Entries, tmp_path: Path) -> None:
    at(party, place, "b").post(0, "b", Parcel(said="to one"))
    assert at(party, place, "a").collect(0)["b"]["said"] == "to one"
    place.clear()
    shutil.rmtree(tmp_path / "seen" / "b")
    at(party, place, "b").post(0, "b", Parcel(said="to another"))  # in the same second, having forgotten the first
    assert list(at(party, place, "a").collect(0)) == []
    assert "two different versions" in party.refused[-1][2]


def test_a_site_that_lost_everything_is_heard_again(party: Party, place: Entries, tmp_path: Path) -> None:
    for said in ("one", "two", "three"):
        at(party, place, "b").post(0, "b", Parcel(said=said))
    at(party, place, "a").collect(0)
    shutil.rmtree(tmp_path / "seen" / "b")
    place.clear()
    party.now += 60
    at(party, place, "b").post(0, "b", Parcel(said="back"))
    assert at(party, place, "a").collect(0)["b"]["said"] == "back"


def test_a_clock_that_was_put_back_does_not_lower_versions(party: Party, place: Entries) -> None:
    first = at(party, place, "b").say("models", Parcel(said=1))
    party.now -= 100
    second = at(party, place, "b").say("models", Parcel(said=2))
    assert second.version == first.version + 1
    party.now += 10_000
    assert at(party, place, "b").say("models", Parcel(said=3)).version == party.now


def test_what_has_expired_or_comes_from_the_future_is_not_heard(party: Party, place: Entries) -> None:
    at(party, place, "b").post(0, "b", Parcel(said=1))
    party.now += 3601
    assert list(at(party, place, "a").collect(0)) == []
    assert "expired" in party.refused[-1][2]
    party.now -= 2 * 3601
    assert list(at(party, place, "a").collect(0)) == []
    assert "from now" in party.refused[-1][2]


def test_who_was_revoked_is_not_heard_and_a_newer_roster_counts_at_once(party: Party, place: Entries) -> None:
    for name in NAMES:
        at(party, place, name).post(0, name, Parcel(who=name))
    reader = at(party, place, "a")
    assert list(reader.collect(0)) == ["a", "b", "c"]
    reader.roster = party.roster.revoked("b", "left")
    assert list(reader.collect(0)) == ["a", "c"]
    with pytest.raises(NotTrusted, match="revoked"):
        reader.fetch("b", "round-0")


def test_what_is_said_under_another_topic_or_name_is_not_heard(party: Party, place: Entries) -> None:
    at(party, place, "b").post(0, "b", Parcel(said=1))
    place["b"]["round-1"] = place["b"]["round-0"]
    place["c"] = {"round-0": place["b"]["round-0"]}
    reader = at(party, place, "a")
    assert list(reader.collect(1)) == []
    assert list(reader.collect(0)) == ["b"]
    assert [(site, topic) for site, topic, _ in party.refused] == [("b", "round-1"), ("c", "round-0")]


def test_the_highest_version_is_on_disk_before_the_parcel_is_used(party: Party, place: Entries, tmp_path: Path) -> None:
    manifest = at(party, place, "b").say("models", Parcel(said=1))
    place["b"]["models"][1].clear()
    assert list(at(party, place, "a").gather("models")) == []
    assert Seen(tmp_path / "seen" / "a").highest("b", "models") == manifest.version


def test_withdrawal_is_told_and_a_later_word_is_heard_again(party: Party, place: Entries) -> None:
    site, reader = at(party, place, "b"), at(party, place, "a")
    site.say("models", Parcel(said=1))
    assert list(reader.gather("models")) == ["b"]
    site.withdraw("models", "trained on the wrong rows")
    assert list(reader.gather("models")) == []
    assert "wrong rows" in party.refused[-1][2]
    site.say("models", Parcel(said=2))
    assert reader.gather("models")["b"]["said"] == 2


def test_fetch_gives_the_manifest_and_blobs_come_from_what_is_there(
    party: Party, place: Entries, tmp_path: Path
) -> None:
    site, reader = at(party, place, "b"), at(party, place, "a")
    assert reader.fetch("b", "models") is None
    site.say("models", Parcel(model=b"x" * 1000), card={"rows": "100-1000"})
    found = reader.fetch("b", "models")
    assert found is not None
    manifest, data = found
    assert data == place["b"]["models"][0]
    assert manifest.card == {"rows": "100-1000"}
    blobs = reader.blobs(manifest, have=tmp_path / "kept")
    assert unseal(manifest, blobs)["model"] == b"x" * 1000
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == sorted(manifest.blobs)
    place["b"]["models"][1].clear()
    assert reader.blobs(manifest, have=tmp_path / "kept") == blobs
    biggest = max((tmp_path / "kept").iterdir(), key=lambda path: path.stat().st_size)
    biggest.write_bytes(bytes(1000))
    with pytest.raises(Exception, match="is not there"):
        reader.blobs(manifest, have=tmp_path / "kept")


def test_another_federation_is_refused(party: Party, place: Entries) -> None:
    with pytest.raises(ConfigError, match="expected 'other'"):
        SignedExchange(
            MemoryShelf("a", place),
            name="a",
            identity=party.identities["a"],
            roster=party.roster,
            federation="other",
            seen=Seen(party.folder / "seen"),
        )
    assert party.roster.federation == FEDERATION


def test_many_large_parcels_do_not_lie_in_memory(tmp_path: Path) -> None:
    names = tuple(f"s{number:02}" for number in range(30))
    party = Party(tmp_path, names)
    for place, name in enumerate(names):
        model = np.random.default_rng(place).bytes(2_000_000)
        party.at(name, FolderShelf(tmp_path / "shared", name)).post(0, name, Parcel(model=model))
    reader = party.at("s00", FolderShelf(tmp_path / "shared", "s00"))
    tracemalloc.start()
    try:
        found = reader.collect(0)
        for name in found:
            assert len(found[name]["model"]) == 2_000_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(found) == list(names)
    assert most < 40_000_000, "of sixty million bytes"


def test_rounds_that_are_over_leave_the_disk(party: Party, place: Entries) -> None:
    site, reader = at(party, place, "b"), at(party, place, "a")
    for round in range(6):
        site.post(round, "b", Parcel(model=bytes([round]) * 1000))
        found = reader.collect(round)
        assert found["b"]["model"] == bytes([round]) * 1000
    folder = reader._cache.folder
    assert len(list(folder.iterdir())) == 4, "two rounds of two blobs"
    reader.close()
    assert not folder.exists()
