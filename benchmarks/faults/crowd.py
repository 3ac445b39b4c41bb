"""Many members made cheaply: each has a key of its own and shows models that others have trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import register_implementation

from faults.rows import Row
from faults.sites import HOME, Sites
from faults.west import MODELS, West
from peerwise.parcels import Parcel, write_atomic
from peerwise.parcels.signed import Identity, Member, seal
from peerwise.run.peer import PeerFolder
from peerwise.transport import FolderTransport

YEAR = 365 * 86_400
PATIENCE = 0.5  # seconds that home waits for one file


def enrol(home: PeerFolder, names: list[str]) -> dict[str, Identity]:
    """The founder's list with these members in it."""
    identities = {name: Identity.new() for name in names}
    roster = home.known_roster()
    for name, identity in identities.items():
        roster = roster.with_member(Member(name=name, key=identity.public), issued=home.now())
    data = roster.signed(home.identity)
    write_atomic(home.roster_path, data)
    return identities


def show(place: str | Path, home: PeerFolder, name: str, identity: Identity, parcel: Parcel, card: Any) -> None:
    now = home.now()
    facts = {"federation": home.federation.task, "site": name, "topic": MODELS, "version": now}
    sealed = seal(parcel, identity, **facts, created=now, expires=now + YEAR, card=card)
    FolderTransport(place, name).publish(MODELS, *sealed)


class Strange(MemoryFileSystem):
    """A place in memory in which some sites' files hang, drip or never end."""

    protocol = "strange"
    store: dict[str, Any] = {}  # noqa: RUF012 (as its parent has it)
    pseudo_dirs = [""]  # noqa: RUF012
    moods: Mapping[str, str] = {}

    def open(self, path: str, mode: str = "rb", **given: Any) -> Any:
        found = super().open(path, mode, **given)
        mood = next((mood for site, mood in self.moods.items() if f"/{site}/" in path), "")
        return Stream(found, mood) if mood and "r" in mode else found


class Stream:
    def __init__(self, file: Any, mood: str) -> None:
        self.file, self.mood = file, mood

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def seek(self, place: int) -> None:
        self.file.seek(place)

    def read(self, size: int = -1) -> bytes:
        if self.mood == "hangs":
            time.sleep(20 * PATIENCE)
        if self.mood == "drips":
            time.sleep(PATIENCE / 5)
            return bytes(self.file.read(1))
        return b"e" * size


def crowds(sites: Sites, count: int = 10) -> Iterator[Row]:
    """Ten members besides; a share of them is dead, hangs, drips or sends without end."""
    names = [f"m{number}" for number in range(count)]
    for mood, share in (
        *(("dead", part) for part in (10, 50, 100)),
        *(("hangs", part) for part in (10, 50, 100)),
        ("drips", 50),
        ("ends never", 50),
    ):
        bad = names[: count * share // 100]
        row = Row(f"{share} % of {count} peers: {SAID[mood]}", trials=len(bad))
        found = _pulled(sites, names, bad, mood)
        without = _pulled(sites, names, bad, "dead")
        told = {name: found["peers"][name]["outcome"] for name in bad}
        expected = "nothing" if mood == "dead" else "unreachable"
        row.struck = sum(outcome == expected for outcome in told.values())
        row.note = f"{found['seconds']:.1f} s"
        if row.struck != len(bad):
            row.problems.append(f"they were {told}")
        if found["answers"] != without["answers"]:
            row.problems.append("I5: the answers are not those without them")
        if mood != "dead" and not set(bad) <= set(found["left out"]):
            row.problems.append("I6: not all of them are in the ledger")
        yield row


SAID = {"dead": "dead", "hangs": "hanging", "drips": "slow, a byte at a time", "ends never": "sending without end"}


def _pulled(sites: Sites, names: list[str], bad: list[str], mood: str) -> dict[str, Any]:
    sites.restore("alone")
    west = West(sites)
    home = sites.peer()
    identities, parcel, card = enrol(home, names), west.parcel, west.manifest.card
    register_implementation("strange", Strange, clobber=True)
    Strange.store.clear()
    Strange.moods = {}
    place = "strange://shared"
    for name, identity in identities.items():
        if name not in bad or mood != "dead":
            show(place, home, name, identity, parcel, card)
    Strange.moods = dict.fromkeys(bad, mood) if mood != "dead" else {}
    connect: Callable[[], Any] = lambda: FolderTransport(place, HOME, seconds=PATIENCE)  # noqa: E731
    return west.pulled(connect=connect)
