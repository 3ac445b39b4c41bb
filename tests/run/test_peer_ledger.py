"""A site's ledger tells its whole life in order, and what is rebuilt from it is right."""

from __future__ import annotations

import shutil

import pytest
from hostile_parts import file
from peer_sites import Sites

from peerwise.errors import ParcelError, PeerwiseError
from peerwise.models.worker import Worker
from peerwise.run.peer import decided, fit, in_use, publish, review, status, withdraw


def test_a_life_in_lines(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    decided(sites["north"], "east", None, "refused", "another device")
    withdraw(sites["north"], sites.transport("north"), "a patient objected")
    told = [line["what"] for line in sites["north"].ledger.lines() if line["what"] not in ("seen", "trained")]
    assert told[0] == "founded"
    life = ["admitted", "admitted", "published", "arrived", "arrived", "accepted", "accepted", "fitted", "refused"]
    assert [what for what in told[1:] if what != "list"] == [*life, "withdrew"]
    assert sites["north"].ledger.check() == len(sites["north"].ledger.lines())
    assert all(line["who"].endswith("@north") for line in sites["north"].ledger.lines())
    times = [line["when"] for line in sites["north"].ledger.lines()]
    assert times == sorted(times)


def test_the_ledger_is_the_owners_alone(fitted_sites: Sites) -> None:
    assert (fitted_sites.root / "north" / "ledger.jsonl").stat().st_mode & 0o077 == 0


def test_a_torn_last_line_is_mended_at_the_next_one(fitted_sites: Sites, worker: Worker) -> None:
    path = fitted_sites.root / "north" / "ledger.jsonl"
    before = len(fitted_sites["north"].ledger.lines())
    with open(path, "ab") as ledger:
        ledger.write(b'{"what":"accepted","site":"so')
    assert set(in_use(fitted_sites["north"])) == {"south", "east"}
    fit(fitted_sites["north"], worker, use_peers=True)
    assert fitted_sites["north"].ledger.check() == before + 2
    assert fitted_sites.told("north", "mended")


def test_decisions_put_in_by_hand_are_noticed(fitted_sites: Sites) -> None:
    path = fitted_sites.root / "north" / "ledger.jsonl"
    lines = path.read_bytes().split(b"\n")
    forged = [line.replace(b'"refused"', b'"accepted"').replace(b"south", b"east") for line in lines]
    path.write_bytes(b"\n".join(forged))
    with pytest.raises(ParcelError, match="was changed"):
        fitted_sites["north"].ledger.check()


def test_versions_seen_are_made_good_from_the_ledger(fitted_sites: Sites, worker: Worker) -> None:
    before = {name: fitted_sites.seen_version(name) for name in ("south", "east")}
    shutil.rmtree(fitted_sites.root / "north" / "seen")
    assert {name: fitted_sites.seen_version(name) for name in before} == before
    fitted_sites.pull("north", worker)
    assert {name: fitted_sites.seen_version(name) for name in before} == before


def test_what_arrived_and_was_lost_is_pulled_again_with_its_decision(fitted_sites: Sites, worker: Worker) -> None:
    shutil.rmtree(fitted_sites.root / "north" / "peers")
    assert in_use(fitted_sites["north"]) == {}
    told = fitted_sites.pull("north", worker)
    assert {one["outcome"] for one in told["peers"].values()} == {"new"}
    assert set(in_use(fitted_sites["north"])) == {"south", "east"}, "the ledger knows what was decided"


def test_a_ledger_that_cannot_be_read_stops_what_depends_on_it(fitted_sites: Sites, worker: Worker) -> None:
    path = fitted_sites.root / "north" / "ledger.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"\x00\xff", *lines[2:]]))
    for depends in (
        lambda: review(fitted_sites["north"], worker),
        lambda: status(fitted_sites["north"]),
        lambda: fitted_sites.pull("north", worker),
    ):
        with pytest.raises(PeerwiseError, match="line 2 of the ledger"):
            depends()


def test_a_quiet_federation_does_not_fill_the_ledger(fitted_sites: Sites, worker: Worker) -> None:
    fitted_sites.send("south", {"bad": b"no model"})
    fitted_sites.pull("north", worker)
    before = len(fitted_sites["north"].ledger.lines())
    for _ in range(3):
        fitted_sites.pull("north", worker)
        publish(fitted_sites["north"], fitted_sites.transport("north"))
    assert len(fitted_sites["north"].ledger.lines()) == before


def test_every_exclusion_names_peer_version_and_reason(fitted_sites: Sites, worker: Worker) -> None:
    first = fitted_sites.send("south", {"bad": b"no model", "good": file()})
    fitted_sites.pull("north", worker)
    second = fitted_sites.send("south", {"bad": b"no model", "good": file()})
    fitted_sites.pull("north", worker)
    lines = fitted_sites.told("north", "left out")
    assert [(line["site"], line["about"], line["version"]) for line in lines] == [
        ("south", "bad", first),
        ("south", "bad", second),
    ]
    assert all("GateRefused" in line["why"] for line in lines)
