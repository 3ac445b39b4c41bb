"""Faults put into real sites by the programs of benchmarks/faults: a few of each here, all of them in the benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peer_sites import Sites

from peerwise.errors import ConfigError, StorageError, WorkerError
from peerwise.models.worker import Worker, process
from peerwise.run.peer import status, withdraw

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "faults"
QUICK = ("stages", "kill", "full", "tampering")
SLOW = ("full once", "otherwise", "transfers", "statements", "history", "answers", "crowds", "workers", "hostile")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and looks at /proc")
Rows = dict[str, list[dict[str, Any]]]


def found(work: Path, parts: tuple[str, ...], *options: str) -> Rows:
    """What the program says of each part; in a process of its own, which has one thread and can be forked."""
    command = [sys.executable, PROGRAM, "--quick", "--work", work, "--only", ",".join(parts), *options]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = {part: json.loads((work / f"{part}.json").read_text()) for part in parts if (work / f"{part}.json").exists()}
    broken = [problem for part in rows.values() for row in part for problem in row["problems"]]
    assert broken == []
    assert ended.returncode == 0, ended.stderr
    return rows


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return found(tmp_path_factory.mktemp("some"), QUICK, "--few", "1")


def test_a_site_killed_at_any_stage_goes_on_as_if_it_had_not_been(some: Rows) -> None:
    assert [row["what"].removeprefix("kill -9 during ") for row in some["stages"]] == [
        *("train", "export", "audit", "sign", "publish", "fetch", "gate", "decide", "fit", "head-save", "predict"),
        "withdraw",
    ]
    assert all(row["struck"] for row in some["stages"])


def test_a_site_killed_in_the_midst_of_a_write_goes_on_as_if_it_had_not_been(some: Rows) -> None:
    assert len(some["kill"]) == 6
    assert all(row["struck"] == row["trials"] > 0 for row in some["kill"])


def test_a_site_whose_disk_is_full_says_so_and_goes_on_once_there_is_room(some: Rows) -> None:
    assert len(some["full"]) == 6
    assert all(row["struck"] for row in some["full"])


def test_nothing_that_was_tampered_with_is_taken(some: Rows) -> None:
    struck = {row["what"]: (row["trials"], row["struck"]) for row in some["tampering"]}
    assert len(struck) == 4
    for what in ("every bit of a manifest flipped", "random bytes of a model changed on the way"):
        assert struck[what][0] == struck[what][1] >= 30


@pytest.mark.slow
def test_every_other_fault_costs_its_peer_alone_and_is_written_down(tmp_path: Path) -> None:
    rows = found(tmp_path, SLOW)
    never = [row["what"] for part in SLOW for row in rows[part] if not row["struck"]]
    assert never in ([], ["disk full at one write of `pull`"]), "each of them has struck"


def test_a_peer_that_could_not_be_fetched_is_in_the_ledger_once(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    for blob in (sites.root / "meeting" / "south" / "blobs").iterdir():
        blob.write_bytes(blob.read_bytes()[:-1])
    for _ in range(2):
        assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "unreachable"
    lines = [line for line in sites.told("north", "left out") if line["site"] == "south"]
    assert [line["about"] for line in lines] == ["models"]
    assert "cut short" in lines[0]["why"]


def test_a_full_disk_of_our_own_is_not_put_down_to_a_peer(published_sites: Sites, worker: Worker) -> None:
    """A file where the folder of arrivals should be: whatever arrives cannot be kept."""
    sites = published_sites
    place = sites["north"].arrived.folder
    place.write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be written"):
        sites.pull("north", worker)
    assert sites.told("north", "left out") == []
    place.unlink()
    assert {told["outcome"] for told in sites.pull("north", worker)["peers"].values()} == {"new"}


def test_a_worker_that_never_starts_well_is_not_waited_for_at_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that more follows than is ever taken, then nothing: once that was heard there is nothing to wait for."""
    child = tmp_path / "child.py"
    child.write_text(
        'import os, time\ntext = b\'{"isolation":{},"bytes":[1099511627776]}\'\n'
        "os.write(1, len(text).to_bytes(4, 'big') + text)\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(process, "CHILD", child)
    monkeypatch.setattr(process, "START_SECONDS", 300.0)
    started = time.monotonic()
    with Worker() as worker:
        for _ in range(3):
            with pytest.raises(WorkerError, match="1099511627776 bytes"):
                worker.shapes(b"a model", 3)
    assert time.monotonic() - started < 300, "the time that a child has to start"


def test_a_withdrawal_that_was_killed_half_way_is_finished_by_the_next(published_sites: Sites) -> None:
    """What was written last is undone: the folder holds the withdrawal, and this site does not know of it."""
    sites = published_sites
    mine = sites["south"].path / "published.json"
    before = mine.read_bytes()
    withdraw(sites["south"], sites.transport("south"), "a patient objected")
    mine.write_bytes(before)
    withdraw(sites["south"], sites.transport("south"), "a patient objected")
    assert status(sites["south"])["published"]["version"] is None
    with pytest.raises(ConfigError, match="nothing to withdraw"):
        withdraw(sites["south"], sites.transport("south"), "a patient objected")
