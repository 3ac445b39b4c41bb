"""The highest version seen: it never falls, whatever happens to its files."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from signed_things import read, sealed

from peerwise.errors import NotTrusted, ParcelError, StorageError
from peerwise.parcels import sha256
from peerwise.parcels.signed import Ledger, Seen

ONE, TWO = sha256(b"one"), sha256(b"two")
NOTER = """
import sys
from peerwise.parcels import sha256
from peerwise.parcels.signed import Ledger, Seen
seen = Seen(sys.argv[1] + "/seen", Ledger(sys.argv[1] + "/ledger"))
version = seen.highest("b", "models")
print("ready", flush=True)
sys.stdin.readline()
while True:
    version += 1
    seen.note("b", "models", version, sha256(b"%d" % version))
    print(version, flush=True)
"""


@pytest.fixture
def both(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    return Seen(tmp_path / "seen", ledger), ledger


def test_a_higher_version_is_noted_and_an_older_one_refused(both):
    seen, _ = both
    manifest = read(sealed()[0])
    assert seen.highest("b", "models") == 0
    seen.check("b", "models", manifest.version, manifest.digest)
    assert seen.note("b", "models", manifest.version, manifest.digest)
    assert not seen.note("b", "models", manifest.version, manifest.digest)
    assert seen.highest("b", "models") == 5
    for act in (seen.check, seen.note):
        with pytest.raises(NotTrusted, match="offers version 4 of 'models', and version 5 was seen before"):
            act("b", "models", 4, ONE)
        act("b", "models", 5, manifest.digest)
    assert seen.note("b", "models", 7, TWO)
    assert seen.highest("b", "models") == 7


def test_the_same_version_with_another_content_is_refused(both):
    seen, _ = both
    seen.note("b", "models", 5, ONE)
    for act in (seen.check, seen.note):
        with pytest.raises(NotTrusted, match="signed two different versions 5 of 'models'"):
            act("b", "models", 5, TWO)
    assert seen.highest("b", "models") == 5


def test_sites_and_topics_are_apart(both):
    seen, _ = both
    seen.note("b", "models", 5, ONE)
    seen.note("b", "round-1", 1, ONE)
    seen.note("a", "models", 2, TWO)
    assert (seen.highest("b", "models"), seen.highest("b", "round-1"), seen.highest("a", "models")) == (5, 1, 2)


def test_it_is_on_disk_when_it_is_noted(both, tmp_path):
    seen, _ = both
    seen.note("b", "models", 5, ONE)
    again = Seen(tmp_path / "seen")
    assert again.highest("b", "models") == 5
    with pytest.raises(NotTrusted):
        again.check("b", "models", 4, ONE)


def lose(path):
    shutil.rmtree(path)


def truncate(path):
    (path / "b.json").write_bytes(b"")


def flip(path):
    data = bytearray((path / "b.json").read_bytes())
    data[data.index(b"5")] ^= 1
    (path / "b.json").write_bytes(data)


@pytest.mark.parametrize("damage", [lose, truncate, flip])
def test_what_was_lost_or_damaged_is_made_good_from_the_ledger(both, tmp_path, damage):
    seen, ledger = both
    seen.note("b", "models", 5, ONE)
    seen.note("b", "round-1", 1, TWO)
    damage(tmp_path / "seen")
    for again in (seen, Seen(tmp_path / "seen", ledger)):
        assert again.highest("b", "models") == 5
        with pytest.raises(NotTrusted, match="was seen before"):
            again.note("b", "models", 4, ONE)
        with pytest.raises(NotTrusted, match="two different"):
            again.check("b", "round-1", 1, ONE)
    assert not again.note("b", "models", 5, ONE)
    assert ledger.lines()[-1]["what"] == "mended"
    assert ledger.lines()[-1]["site"] == "b"
    alone = Seen(tmp_path / "seen")
    assert (alone.highest("b", "models"), alone.highest("b", "round-1")) == (5, 1)


def test_a_changed_bit_in_any_byte_of_a_file_is_noticed(both, tmp_path):
    seen, _ = both
    seen.note("b", "models", 5, ONE)
    path = tmp_path / "seen" / "b.json"
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(StorageError, match=r"is damaged .* and there is no ledger"):
            Seen(tmp_path / "seen").highest("b", "models")


def test_an_old_copy_that_was_put_back_does_not_count(both, tmp_path):
    seen, ledger = both
    seen.note("b", "models", 5, ONE)
    old = (tmp_path / "seen" / "b.json").read_bytes()
    seen.note("b", "models", 6, TWO)
    (tmp_path / "seen" / "b.json").write_bytes(old)
    again = Seen(tmp_path / "seen", ledger)
    with pytest.raises(NotTrusted, match="version 6 was seen before"):
        again.note("b", "models", 5, ONE)
    assert again.note("b", "models", 7, ONE)


def test_nothing_is_made_good_from_a_ledger_that_was_changed(both, tmp_path):
    seen, ledger = both
    seen.note("b", "models", 5, ONE)
    seen.note("b", "models", 6, TWO)
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b'"version":6', b'"version":1'))
    assert Seen(tmp_path / "seen", ledger).highest("b", "models") == 6
    truncate(tmp_path / "seen")
    with pytest.raises(ParcelError, match="line 2 of the ledger"):
        Seen(tmp_path / "seen", ledger).note("b", "models", 5, ONE)
    lose(tmp_path / "seen")
    with pytest.raises(ParcelError, match="line 2 of the ledger"):
        Seen(tmp_path / "seen", ledger).note("b", "models", 5, ONE)


def test_without_room_nothing_is_noted_and_the_next_try_succeeds(both, tmp_path):
    seen, ledger = both
    seen.note("b", "models", 5, ONE)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (10, ledger.path.stat().st_size, 500):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            with pytest.raises(StorageError, match="cannot be written"):
                seen.note("b", "models", 6, TWO)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert Seen(tmp_path / "seen").highest("b", "models") == 5
    assert seen.note("b", "models", 6, TWO) in (True, False)
    assert Seen(tmp_path / "seen").highest("b", "models") == 6
    ledger.check()


def test_what_is_no_name_version_or_digest_is_refused(both):
    seen, _ = both
    for odd in (("../b", "models", 1, ONE), ("b", "../x", 1, ONE), ("b", "models", 0, ONE), ("b", "models", 1, "x")):
        with pytest.raises(ParcelError):
            seen.note(*odd)
    assert not seen.path.exists()


def test_two_at_once_never_note_two_contents_of_one_version(both, tmp_path):
    taken = []

    def race(digest):
        mine = Seen(tmp_path / "seen", Ledger(tmp_path / "ledger"))
        for version in range(1, 11):
            try:
                mine.note("b", "models", version, digest)
                taken.append((version, digest))
            except NotTrusted:
                continue

    threads = [threading.Thread(target=race, args=(digest,)) for digest in (ONE, TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    versions = [version for version, _ in taken]
    assert len(set(versions)) == len(versions)
    assert Seen(tmp_path / "seen").highest("b", "models") == 10


def test_killed_at_any_instant_the_highest_version_stays(tmp_path):
    rng = random.Random(1)
    highest = 0
    for turn in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", NOTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        child.stdin.write("\n")
        child.stdin.flush()
        told = [int(child.stdout.readline()) for _ in range(rng.randint(1, 40))]
        threading.Event().wait(rng.random() / 100)
        os.kill(child.pid, signal.SIGKILL)
        told += [int(line) for line in child.communicate(timeout=60)[0].split()]
        assert told[0] > highest
        ledger = Ledger(tmp_path / "ledger")
        if turn == 2:
            shutil.rmtree(tmp_path / "seen")
        for seen in (Seen(tmp_path / "seen", ledger), *([] if turn == 2 else [Seen(tmp_path / "seen")])):
            assert seen.highest("b", "models") >= told[-1]
            with pytest.raises(NotTrusted):
                seen.check("b", "models", told[-1], TWO)
        ledger.add("survived")
        ledger.check()
        highest = told[-1]
