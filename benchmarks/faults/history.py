"""Peers that play back, or say two things at once; and sites that lose what they know."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

from faults.rows import Row
from faults.sites import HOME, WEST
from faults.west import Faulty, West
from peerwise.parcels import Parcel
from peerwise.run.peer import outbox, publish


def history(faulty: Faulty) -> Iterator[Row]:
    for lost in ("", "seen", "ledger.jsonl"):
        yield _played_back(faulty, lost)
    for lost in ("", "seen"):
        yield _two_at_once(faulty, lost)
    yield _publisher_lost_all(faulty)


def _met(faulty: Faulty) -> West:
    """Home has taken in west's second version; the first is kept aside."""
    faulty.sites.restore("alone")
    west = West(faulty.sites)
    shutil.copytree(west.folder, faulty.sites.live / "old")
    west.say(Parcel(**{**west.parcel, "models": {"logistic": west.parcel["models"]["logistic"]}}))
    return west


def _lose(west: West, lost: str) -> str:
    path = west.sites.live / HOME / lost
    if lost:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f", after home has lost its {lost.removesuffix('.jsonl')}" if lost else ""


def _played_back(faulty: Faulty, lost: str) -> Row:
    west = _met(faulty)
    before = west.pulled()
    row = Row("an old version played back" + _lose(west, lost), trials=1)
    shutil.rmtree(west.folder)
    shutil.copytree(faulty.sites.live / "old", west.folder)
    _same(row, before, west.pulled())
    return row


def _two_at_once(faulty: Faulty, lost: str) -> Row:
    west = _met(faulty)
    before = west.pulled()
    row = Row("two contents under one version" + _lose(west, lost), trials=1)
    said = west.manifest
    west.say(Parcel(**{**west.parcel, "models": {"forest": b"other"}}), version=said.version, created=said.created)
    _same(row, before, west.pulled())
    return row


def _same(row: Row, before: dict[str, Any], after: dict[str, Any]) -> None:
    outcome = after["peers"][WEST]["outcome"]
    row.struck += outcome == "refused"
    if outcome != "refused" or WEST not in after["left out"]:
        row.problems.append(f"it was not refused and written down ({outcome})")
    if "ledger" in row.what:
        row.note = "decisions are gone with the ledger: no peer is used before a new one"
        if WEST in after["fitted"]:
            row.problems.append("without a decision west is used")
    elif after["answers"] != before["answers"]:
        row.problems.append("I5: the answers changed")


def _publisher_lost_all(faulty: Faulty) -> Row:
    """West's folder is put back from an old copy, and it publishes again: nobody takes that for an old version."""
    row = Row("a publisher's folder put back from an old copy, then published again", trials=1)
    west = _met(faulty)
    west.pulled()
    peer = faulty.sites.peer(WEST)
    shutil.rmtree(peer.path / "seen", ignore_errors=True)
    (peer.path / "published.json").unlink()
    (peer.path / "ledger.jsonl").unlink()
    faulty.sites.done(lambda: publish(peer, outbox(peer)))
    found = west.pulled()
    row.struck += 1
    if found["peers"][WEST]["outcome"] != "new" or found["answers"] != faulty.whole:
        row.problems.append(f"what it publishes is not taken ({found['peers'][WEST]})")
    return row
