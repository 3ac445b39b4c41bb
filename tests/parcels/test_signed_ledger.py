"""The ledger: nothing that was told is lost, and nothing is changed unnoticed."""

from __future__ import annotations

import json
import os
import pwd
import random
import resource
import signal
import stat
import subprocess
import sys
import threading

import pytest

from peerwise.errors import ParcelError, StorageError
from peerwise.parcels import sha256
from peerwise.parcels.signed import Ledger, canonical

WRITER = """
import sys
from peerwise.parcels.signed import Ledger
ledger = Ledger(sys.argv[1], site=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    ledger.add("told", n=n, text="x" * 3000)
    print(n, flush=True)
"""


def writer(path, site, count):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), site, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    return child


def go(child):
    child.stdin.write("\n")
    child.stdin.flush()


def filled(path, count=6):
    ledger = Ledger(path, site="hospital-a", clock=lambda: 1_800_000_000.7)
    for n in range(count):
        ledger.add("accepted", why="it helps", peer="b", version=n)
    return ledger


def test_a_line_says_what_who_when_and_why(tmp_path):
    ledger = filled(tmp_path / "deep" / "ledger.jsonl", 1)
    (line,) = ledger.lines()
    assert line["what"] == "accepted"
    assert line["who"] == f"{pwd.getpwuid(os.getuid()).pw_name}@hospital-a"
    assert (line["when"], line["why"], line["peer"], line["version"]) == (1_800_000_000, "it helps", "b", 0)
    assert ledger.add("refused") == ledger.lines()[-1]
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_who_it_was_cannot_be_said_by_the_environment(tmp_path, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert "somebody-else" not in Ledger(tmp_path / "ledger").add("x")["who"]


def test_an_empty_ledger_has_no_lines(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    assert (ledger.lines(), ledger.check(), ledger.head()) == ([], 0, "0" * 64)
    assert not ledger.path.exists()


def test_lines_are_chained(tmp_path):
    ledger = filled(tmp_path / "ledger")
    assert ledger.check() == 6
    raw = ledger.path.read_bytes().splitlines()
    assert [json.loads(line)["before"] for line in raw] == ["0" * 64, *map(sha256, raw[:-1])]
    assert ledger.head() == sha256(raw[-1])
    assert [line["line"] for line in ledger.lines()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [1, 3, 6])
def test_the_first_changed_line_is_named(tmp_path, number):
    ledger = filled(tmp_path / "ledger")
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    raw = lines[number - 1]
    rehashed = json.loads(raw) | {"why": "another"}
    rehashed.pop("sha256")
    rehashed["sha256"] = sha256(canonical(rehashed))
    changes = [
        raw.replace(b"it helps", b"it harms"),
        raw.replace(b":", b": ", 1),
        raw[:-3] + raw[-1:],
        b"\n",
        b"[]\n",
        raw.replace(b'"b"', b'"\xff"'),
    ]
    for changed in changes:
        ledger.path.write_bytes(b"".join([*lines[: number - 1], changed, *lines[number:]]))
        with pytest.raises(ParcelError, match=f"line {number} of the ledger"):
            ledger.check()
    ledger.path.write_bytes(b"".join([*lines[: number - 1], canonical(rehashed) + b"\n", *lines[number:]]))
    if number < 6:
        with pytest.raises(ParcelError, match=f"line {number} of the ledger"):
            ledger.check()


def test_a_changed_bit_in_any_byte_is_noticed_at_its_line(tmp_path):
    ledger = filled(tmp_path / "ledger", 3)
    data = ledger.path.read_bytes()
    first = data.index(b"\n")
    for place in range(first):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        ledger.path.write_bytes(changed)
        with pytest.raises(ParcelError, match="line 1 of the ledger"):
            ledger.check()


def test_lines_removed_exchanged_or_put_in_are_noticed(tmp_path):
    ledger = filled(tmp_path / "ledger")
    one, two, *rest = ledger.path.read_bytes().splitlines(keepends=True)
    for lines in ([two, *rest], [one, *rest], [two, one, *rest], [one, one, two, *rest], [one, two, two, *rest]):
        ledger.path.write_bytes(b"".join(lines))
        with pytest.raises(ParcelError, match=r"line [123] of the ledger"):
            ledger.check()


def test_adding_to_a_changed_ledger_keeps_the_evidence(tmp_path):
    ledger = filled(tmp_path / "ledger")
    for damage in (lambda last: b"garbage", lambda last: last.replace(b"it helps", b"it harms")):
        lines = ledger.path.read_bytes().splitlines()
        ledger.path.write_bytes(b"\n".join([*lines[:5], damage(lines[5]), b""]))
        ledger.add("later")
        with pytest.raises(ParcelError, match="line 6 of the ledger"):
            ledger.check()
        assert ledger.path.read_bytes().splitlines()[5] == damage(lines[5])
        ledger.path.write_bytes(b"\n".join([*lines[:6], b""]))


def test_a_torn_line_at_any_byte_is_mended_and_told(tmp_path):
    ledger = filled(tmp_path / "ledger", 3)
    data = ledger.path.read_bytes()
    begin = data.rindex(b"\n", 0, -1) + 1
    for end in [begin + 1, begin + 50, len(data) - 2]:
        ledger.path.write_bytes(data[:end])
        assert len(ledger.lines()) == 2
        assert ledger.check() == 2
        assert ledger.path.read_bytes() == data[:end]
        ledger.add("after")
        assert ledger.check() == 4
        mended, after = ledger.lines()[2:]
        assert (mended["what"], mended["bytes"]) == ("mended", end - begin)
        assert after["what"] == "after"
        assert ledger.path.read_bytes().startswith(data[:begin])


def test_a_whole_line_without_its_end_is_kept(tmp_path):
    ledger = filled(tmp_path / "ledger", 3)
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data[:-1])
    ledger.add("after")
    assert ledger.path.read_bytes().startswith(data)
    assert [line["what"] for line in ledger.lines()] == ["accepted"] * 3 + ["after"]
    assert ledger.check() == 4


def test_what_peerwise_did_not_write_is_not_cut_off(tmp_path):
    path = tmp_path / "ledger"
    for data in (b"x" * 300_000, filled(path).path.read_bytes() + b"x" * 300_000, b"y" * 200_000 + b"\n"):
        path.write_bytes(data)
        with pytest.raises(StorageError, match="does not end in a line"):
            Ledger(path).add("after")
        assert path.read_bytes() == data


def test_without_room_the_ledger_stays_as_it_was(tmp_path):
    ledger = filled(tmp_path / "ledger")
    data = ledger.path.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) + 100, before[1]))
    try:
        with pytest.raises(StorageError, match=r"cannot be written \(.*\): expected room.*Free some space"):
            ledger.add("accepted", why="w" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ledger.path.read_bytes() == data
    ledger.add("later")
    assert ledger.check() == 7


def test_what_the_ledger_cannot_hold_is_refused_and_nothing_written(tmp_path):
    ledger = filled(tmp_path / "ledger", 2)
    for facts in (
        {"line": 3},
        {"sha256": "x"},
        {"who": "me"},
        {"model": b"bytes"},
        {"n": float("nan")},
        {"t": "x" * 70_000},
    ):
        with pytest.raises(ParcelError):
            ledger.add("x", **facts)
    assert ledger.check() == 2


def test_text_with_line_breaks_stays_one_line(tmp_path):
    ledger = filled(tmp_path / "ledger", 1)
    ledger.add("x", why='one\ntwo\r\n{"what":"forged"}\u2028end')
    assert ledger.check() == 2
    assert ledger.lines()[1]["why"] == 'one\ntwo\r\n{"what":"forged"}\u2028end'


def test_two_processes_and_threads_write_one_chain(tmp_path):
    path = tmp_path / "ledger"
    children = [writer(path, site, 20) for site in ("a", "b")]
    for child in children:
        go(child)
    threads = [
        threading.Thread(target=lambda: [Ledger(path, site="c").add("told") for _ in range(10)]) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    ledger = Ledger(path)
    assert ledger.check() == 60
    assert [line["n"] for line in ledger.lines() if line["who"].endswith("@a")] == list(range(20))


def test_a_writer_killed_at_any_instant_loses_no_line_that_it_was_told_of(tmp_path):
    rng = random.Random(0)
    path = tmp_path / "ledger"
    kept = 0
    for turn in range(4):
        child = writer(path, f"turn-{turn}", 100_000)
        go(child)
        told = [int(child.stdout.readline()) for _ in range(rng.randint(1, 60))]
        threading.Event().wait(rng.random() / 200)
        os.kill(child.pid, signal.SIGKILL)
        told += [int(line) for line in child.communicate(timeout=60)[0].split()]
        ledger = Ledger(path)
        ledger.add("survived")
        lines = ledger.lines()
        assert ledger.check() == len(lines)
        found = [line["n"] for line in lines if line["who"].endswith(f"@turn-{turn}") and line["what"] == "told"]
        assert found[: len(told)] == told
        assert len(lines) > kept + len(told)
        kept = len(lines)
