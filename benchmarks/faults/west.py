"""A peer of which something is wrong: home pulls, fits and answers as if that peer were not there."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from faults.rows import Row
from faults.sites import HOME, WEST, Sites, answers, with_worker
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel, sha256
from peerwise.parcels.signed import Identity, Manifest, seal, unseal, withdrawal
from peerwise.run.peer import PeerFolder, fit, outbox, pull, revoke
from peerwise.transport import FolderTransport

MODELS = "models"
HOUR = 3600
LEFT_OUT = ("refused", "unreachable", "nothing", "withdrawn", "removed")
Spoil = Callable[["West"], None]
Connect = Callable[[], Any]


class West:
    """What west shows, and the means to show something else."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.folder = sites.live / "shared" / WEST
        self.path = self.folder / "manifests" / f"{MODELS}.json"
        self.peer = sites.peer(WEST)
        self.transport = FolderTransport(sites.live / "shared", WEST)

    @property
    def manifest(self) -> Manifest:
        return Manifest.read(self.path.read_bytes(), self.peer.roster(), site=WEST, topic=MODELS, now=self.peer.now())

    @property
    def parcel(self) -> Parcel:
        return unseal(self.manifest, self.blobs)

    @property
    def blobs(self) -> dict[str, bytes]:
        published = self.transport.fetch(WEST, MODELS)
        assert published is not None
        return {key: published.blob(key, size) for key, size in self.manifest.blobs.items()}

    @property
    def biggest(self) -> Path:
        return max((self.folder / "blobs").iterdir(), key=lambda path: path.stat().st_size)

    def say(self, parcel: Parcel | None = None, identity: Identity | None = None, **changes: Any) -> None:
        """Signed by west, unless somebody else is to sign."""
        now = self.peer.now()
        facts = {"federation": self.peer.federation.task, "site": WEST, "topic": MODELS, "version": now + 1}
        facts |= {"created": now, "expires": now + HOUR, "card": self.manifest.card}
        sealed = seal(parcel or self.parcel, identity or self.peer.identity, **{**facts, **changes})
        self.transport.publish(MODELS, *sealed)

    def pulled(self, clock: Callable[[], float] = time.time, connect: Connect | None = None) -> dict[str, Any]:
        """In a process of its own: what home made of it, and what it answers then."""
        sites = self.sites

        def work() -> dict[str, Any]:
            peer = PeerFolder(sites.live / HOME, clock)
            with Worker() as worker:
                told = pull(peer, connect() if connect else outbox(peer), worker)
                fitted = fit(peer, worker)
                lines = [line for line in peer.ledger.lines() if line["what"] in ("left out", "removed")]
                peer.ledger.check()
                return {
                    "peers": told["peers"],
                    "left out": [line["site"] for line in lines],
                    "fitted": sorted(fitted["peers"]),
                    "answers": answers(peer, worker),
                }

        ended = sites.run(work)
        assert not ended.error, ended.error
        return {**ended.said, "seconds": ended.seconds, "peak": ended.peak}


class Faulty:
    """Trials on the federation "alone"."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.slowest = 0.0
        self.without = self._answers(without_west)
        self.whole = self._answers(lambda west: None)

    def _answers(self, spoil: Spoil) -> Any:
        self.sites.restore("alone")
        west = West(self.sites)
        spoil(west)
        return west.pulled()["answers"]

    def trial(self, row: Row, spoil: Spoil, **how: Any) -> dict[str, Any]:
        self.sites.restore("alone")
        west = West(self.sites)
        spoil(west)
        found = west.pulled(**how)
        row.trials += 1
        self.check(row, found)
        return found

    def check(self, row: Row, found: dict[str, Any], *, name: str = "") -> None:
        """I5 and I6: west is not in it, and that is written down."""
        self.slowest = max(self.slowest, found["seconds"])
        outcome = found["peers"].get(WEST, {"outcome": "removed"})["outcome"]
        where = f"{name or row.what}: "
        row.struck += outcome in LEFT_OUT
        if outcome not in LEFT_OUT:
            row.problems.append(f"{where}west was taken in ({outcome})")
        if found["answers"] != self.without:
            row.problems.append(f"{where}I5: the answers are not those without west")
        if outcome not in ("nothing", "withdrawn", "removed") and WEST not in found["left out"]:
            row.problems.append(f"{where}I6: that west was left out is not in the ledger ({outcome})")


def without_west(west: West) -> None:
    shutil.rmtree(west.folder)


# ---- transfers ------------------------------------------------------------------------------------------------------


def torn(west: West) -> None:
    west.biggest.write_bytes(west.biggest.read_bytes()[:-7])


def torn_manifest(west: West) -> None:
    west.path.write_bytes(west.path.read_bytes()[:300])


def swapped(west: West) -> None:
    path = west.biggest
    path.write_bytes(bytes(path.stat().st_size))


def endless(west: West) -> None:
    with west.biggest.open("ab") as file:
        file.truncate(1 << 40)  # none of it on disk


def endless_manifest(west: West) -> None:
    with west.path.open("ab") as file:
        file.truncate(1 << 40)


def zipped(west: West) -> None:
    path = west.biggest
    path.write_bytes(gzip.compress(path.read_bytes()))


def lost(west: West) -> None:
    west.biggest.unlink()


def piped(west: West) -> None:
    path = west.biggest
    path.unlink()
    os.mkfifo(path)


def linked(west: West) -> None:
    west.path.unlink()
    west.path.symlink_to("/dev/zero")


def of_another(west: West) -> None:
    west.path.write_bytes((west.sites.live / "shared" / "east" / "manifests" / f"{MODELS}.json").read_bytes())


TRANSFERS: dict[str, Spoil] = {
    "a blob cut short": torn,
    "a manifest cut short": torn_manifest,
    "a blob swapped for another of its size": swapped,
    "a blob without an end": endless,
    "a manifest without an end": endless_manifest,
    "a blob compressed on the way (gzip)": zipped,
    "a blob lost": lost,
    "a pipe in place of a blob": piped,
    "a link to an endless device in place of a manifest": linked,
    "another site's manifest": of_another,
}


def transfers(faulty: Faulty, some: int = 0) -> Iterator[Row]:
    for name, spoil in list(TRANSFERS.items())[: some or None]:
        row = Row(name)
        faulty.trial(row, spoil)
        yield row
    yield _resumed(faulty)


def _resumed(faulty: Faulty) -> Row:
    """A copy that is still on its way when home looks, and whole when it looks again."""
    row = Row("a transfer that is broken off and goes on later")
    sites = faulty.sites
    sites.restore("alone")
    west = West(sites)
    whole = west.biggest.read_bytes()
    west.biggest.write_bytes(whole[: len(whole) // 2])
    first = west.pulled()
    row.trials += 1
    faulty.check(row, first)
    (west.folder / "blobs" / sha256(whole)).write_bytes(whole)
    if west.pulled()["answers"] != faulty.whole:
        row.problems.append("what came whole later is not used as if it had come at once")
    return row


# ---- statements -----------------------------------------------------------------------------------------------------


def expired(west: West) -> None:
    now = west.peer.now()
    west.say(created=now - 10, expires=now)


def from_the_future(west: West) -> None:
    now = west.peer.now()
    west.say(created=now + 2 * HOUR, expires=now + 3 * HOUR)


def wrong_key(west: West) -> None:
    west.say(identity=Identity.new())


def duplicate(west: West) -> None:
    """Another member says that it is west."""
    west.say(identity=west.sites.peer("east").identity)


def revoked(west: West) -> None:
    home = west.sites.peer()
    revoke(home, WEST, "its key was stolen", outbox(home))


def other_federation(west: West) -> None:
    west.say(federation="0" * 64)


def other_topic(west: West) -> None:
    west.say(topic="round-0")


def taken_back(west: West) -> None:
    now = west.peer.now()
    facts = {"federation": west.peer.federation.task, "site": WEST, "topic": MODELS}
    said = withdrawal(west.peer.identity, **facts, version=now + 1, created=now, expires=now + HOUR, why="an error")
    west.transport.publish(MODELS, said, {})


STATEMENTS: dict[str, Spoil] = {
    "an expired manifest": expired,
    "a clock two hours ahead (the peer's)": from_the_future,
    "a wrong key": wrong_key,
    "another member under the peer's name": duplicate,
    "a revoked key": revoked,
    "a manifest of another federation": other_federation,
    "a manifest of another topic": other_topic,
    "a withdrawal": taken_back,
}


def statements(faulty: Faulty, some: int = 0) -> Iterator[Row]:
    for name, spoil in list(STATEMENTS.items())[: some or None]:
        row = Row(name)
        faulty.trial(row, spoil)
        yield row
    yield _own_clock(faulty, "a clock two hours behind (home's own)", -2 * HOUR)
    yield _own_clock(faulty, "a clock a year ahead (home's own)", 365 * 24 * HOUR)


def _own_clock(faulty: Faulty, what: str, by: int) -> Row:
    """Nothing new is let in, with the reason; what was fitted answers as before, and all is well once it is set."""
    row, sites = Row(what, trials=1), faulty.sites
    sites.restore("alone")
    west = West(sites)
    before = west.pulled()["answers"]
    odd = PeerFolder(sites.live / HOME, lambda: time.time() + by)
    ended = sites.run(lambda: with_worker(lambda worker: pull(odd, outbox(odd), worker)))
    row.struck += ended.is_ours
    if not ended.is_ours or not ("clock" in ended.error or "expired" in ended.error or "ended" in ended.error):
        row.problems.append(f"it was not told: {ended.error or ended.said}")
    if sites.done(lambda: with_worker(lambda worker: answers(odd, worker))) != before:
        row.problems.append("I3: the answers changed")
    if west.pulled()["answers"] != before:
        row.problems.append("it does not go on once the clock is right")
    return row
