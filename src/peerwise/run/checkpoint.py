"""Where a run of one method stands: all that the next step needs, in one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from peerwise.federation import Broadcast, Memory, State
from peerwise.parcels import Parcel, read_tree, write_tree


class Saved(NamedTuple):
    """What a session left behind: its state, and the best one so far."""

    state: State
    best: State | None = None


@dataclass
class Checkpoint:
    """``round`` is the one at work (the number of rounds: what comes after the last one), ``done`` the sites that have
    taken their step in it, ``parcels`` what they shared in it, ``failed`` the sites that failed in an earlier one
    ({"step", "why"}). ``has_shared``: whether any site has shared in any round. Once it is ``finished``, each state is
    the one that answers, ``parcels`` are those of a method's only round, and ``predictions`` the answers so far."""

    round: int = 0
    done: set[str] = field(default_factory=set)
    sessions: dict[str, Saved] = field(default_factory=dict)
    parcels: dict[str, Parcel] = field(default_factory=dict)
    broadcast: Broadcast | None = None
    memory: Memory = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    has_shared: bool = False
    finished: bool = False
    predictions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        # Lists, because a site's name may be any text, which the name of an item may not.
        write_tree(
            path,
            {
                "round": self.round,
                "done": sorted(self.done),
                "names": list(self.sessions),
                "sessions": [[saved.state, saved.best] for saved in self.sessions.values()],
                "parcels": _listed(self.parcels),
                "broadcast": None if self.broadcast is None else _packed_broadcast(self.broadcast),
                "memory": self.memory,
                "failed": [[name, failure["step"], failure["why"]] for name, failure in self.failed.items()],
                "has_shared": self.has_shared,
                "finished": self.finished,
                "predictions": [list(pair) for pair in self.predictions.items()],
            },
            durable=True,
        )

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        tree = read_tree(path)
        sessions = [Saved(state, best) for state, best in tree["sessions"]]
        return cls(
            round=tree["round"],
            done=set(tree["done"]),
            sessions=dict(zip(tree["names"], sessions, strict=True)),
            parcels=_by_name(tree["parcels"]),
            broadcast=None if tree["broadcast"] is None else _unpacked_broadcast(tree["broadcast"]),
            memory=tree["memory"],
            failed={name: {"step": step, "why": why} for name, step, why in tree["failed"]},
            has_shared=tree["has_shared"],
            finished=tree["finished"],
            predictions=dict(tree["predictions"]),
        )


def _packed_broadcast(broadcast: Broadcast) -> dict[str, Any]:
    content = broadcast.content
    about = {"round": broadcast.round, "left_out": [list(pair) for pair in broadcast.left_out.items()]}
    if isinstance(content, Parcel):
        return {**about, "one": content, "bytes": content.nbytes}
    return {**about, "named": _listed(content)}


def _unpacked_broadcast(tree: dict[str, Any]) -> Broadcast:
    content = Parcel.of_size(tree["bytes"], tree["one"]) if "one" in tree else _by_name(tree["named"])
    return Broadcast(tree["round"], content, dict(tree["left_out"]))


def _listed(parcels: Any) -> list[list[Any]]:
    return [[name, parcels[name].nbytes, parcels[name]] for name in parcels]


def _by_name(listed: list[list[Any]]) -> dict[str, Parcel]:
    return {name: Parcel.of_size(nbytes, items) for name, nbytes, items in listed}
