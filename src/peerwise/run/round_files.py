"""The files of a method with many rounds while it runs: quick to write, verified on reading, few at any time.

state.<round>.<site>   said.<round>.<site>   best..<site>   told.<round>   told.<round>.<site>   memory.<round>
round.<round>

A site's state is written last, after its best state and its parcel: what it says was done, was done. The checkpoint of
a round is written last of all; it names every file that is needed from then on, and the others are removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from peerwise.errors import ParcelError
from peerwise.exchange import LazyParcels, file_name
from peerwise.exchange.names import site_name
from peerwise.methods import Inbox, Memory
from peerwise.parcels import Parcel, read_packed, read_tree, write_tree
from peerwise.run.rounds import RUN


@dataclass(frozen=True)
class Checkpoint:
    """Where all stand after a round: each site's newest state by round, the sites that failed ({"step", "why"}),
    whether anybody has shared so far, the round that was told last, whether as one parcel, by site name, or as the
    parcels themselves, and bytes by name."""

    round: int = -1
    states: dict[str, int] = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    spoken: bool = False
    told: int = -1
    kind: Literal["one", "named", "said"] = "said"
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundFiles:
    folder: Path

    def load_state(self, site: str, round: int) -> dict[str, Any]:
        return read_tree(self._path("state", round, site))

    def save_state(self, site: str, round: int, tree: dict[str, Any]) -> None:
        write_tree(self._path("state", round, site), tree)

    def load_best(self, site: str) -> dict[str, Any]:
        """{"best_round", "best_score", "state"}"""
        return read_tree(self._path("best", "", site))

    def save_best(self, site: str, record: dict[str, Any], state: dict[str, Any]) -> None:
        about = {"best_round": record["best_round"], "best_score": record["best_score"]}
        write_tree(self._path("best", "", site), {**about, "state": state})

    def save_said(self, site: str, round: int, parcel: Parcel) -> int:
        """Its bytes."""
        return write_tree(self._path("said", round, site), parcel)

    def said(self, round: int, sizes: dict[str, int]) -> LazyParcels:
        return self._parcels("said", round, sizes)

    def done_before(self, site: str, round: int) -> dict[str, Any] | None:
        """What a site left behind in a round that was broken off, if all of it is whole."""
        if not self._path("state", round, site).exists():
            return None
        try:
            tree = self.load_state(site, round)
            if tree.get("said"):
                read_packed(self._path("said", round, site))
        except ParcelError:
            return None
        return tree

    def forget(self, site: str, round: int) -> None:
        self._path("state", round, site).unlink(missing_ok=True)

    def save_told(self, round: int, told: Inbox | Parcel, memory: Memory) -> dict[str, int]:
        """Bytes by site name; of the one parcel for all, under no name."""
        write_tree(self._path("memory", round), memory)
        if isinstance(told, Parcel):
            return {"": write_tree(self._path("told", round), told)}
        return {site: write_tree(self._path("told", round, site), parcel) for site, parcel in told.items()}

    def load_told(self, at: Checkpoint) -> Callable[[], Inbox | Parcel]:
        """What was told last; what is for all is read here, once, and decoded at every call: nobody can spoil it for
        the next."""
        if at.kind == "one":
            packed = read_packed(self._path("told", at.told))
            return lambda: packed.copy().parcel()
        parcels = self._parcels("said" if at.kind == "said" else "told", at.told, at.sizes)
        return lambda: parcels

    def load_memory(self, at: Checkpoint) -> Memory:
        path = self._path("memory", at.told)
        return read_tree(path) if at.told >= 0 and at.kind != "said" else {}

    def save(self, at: Checkpoint) -> None:
        """From now on this is where it goes on; what is not needed for that is removed."""
        # As text, because a site's name may be any, which an item's may not.
        write_tree(self._path("round", at.round), {"checkpoint": json.dumps(asdict(at))})
        for path, kind, round, site in self._all():
            if not _needed(at, kind, round, site):
                path.unlink(missing_ok=True)

    def load(self, round: int) -> Checkpoint:
        if round < 0:
            return Checkpoint()
        return Checkpoint(**json.loads(read_tree(self._path("round", round))["checkpoint"]))

    def newest(self, warn: Callable[[str], None]) -> Checkpoint:
        """The newest whole checkpoint. Files that a power cut has damaged are told of and left aside, and all that was
        done after that checkpoint is then done again."""
        rounds = sorted((round for _, kind, round, _ in self._all() if kind == "round"), reverse=True)
        damage = ""
        for round in (*rounds, -1):
            try:
                at = self.load(round)
                self._verify(at)
                break
            except ParcelError as error:
                damage = damage or str(error)
        later = [(path, round) for path, _, round, _ in self._all() if round > at.round]
        if not damage and any(round > at.round + 1 for _, round in later):
            damage = f"{self.folder} holds later rounds than the one that it ends with."
        if damage:
            warn(f"{damage} Going on after {f'round {at.round}' if at.round >= 0 else 'nothing: from the beginning'}.")
            for path, _ in later:
                path.unlink(missing_ok=True)
        return at

    def _verify(self, at: Checkpoint) -> None:
        for site, round in at.states.items():
            record = self.load_state(site, round)["state"][RUN]
            if "best_round" in record and self.load_best(site)["best_round"] < record["best_round"]:
                raise ParcelError(f"{self._path('best', '', site)} is older than expected. Was there a power cut?")
        if at.told >= 0:
            told = self.load_told(at)()
            self.load_memory(at)
            for site in () if isinstance(told, Parcel) else told:
                told[site]

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # there are others
            self.folder.parent.rmdir()

    def _parcels(self, kind: str, round: int, sizes: dict[str, int]) -> LazyParcels:
        def read(site: str) -> Parcel:
            return read_packed(self._path(kind, round, site)).parcel()

        return LazyParcels(sizes, read)

    def _path(self, kind: str, round: int | str, site: str | None = None) -> Path:
        return self.folder / (f"{kind}.{round}" if site is None else f"{kind}.{round}.{file_name(site)}")

    def _all(self) -> Iterator[tuple[Path, str, int, str]]:
        """Each file with its kind, its round (-1 where it has none) and its site."""
        for path in list(self.folder.iterdir()) if self.folder.is_dir() else []:
            if not path.name.startswith("."):
                kind, round, *site = path.name.split(".", 2)
                yield path, kind, int(round) if round else -1, site_name(site[0]) if site else ""


def _needed(at: Checkpoint, kind: str, round: int, site: str) -> bool:
    if kind == "state":
        return at.states.get(site) == round
    if kind == "said":
        return at.kind == "said" and at.told == round and site in at.sizes
    return kind == "best" or round == (at.round if kind == "round" else at.told)
