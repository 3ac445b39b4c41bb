"""A little federation of real sites over a folder, with two days behind it, and copies of it to go back to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from faults.forks import Ended, in_child
from peerwise.data import load
from peerwise.data.task import task_from
from peerwise.models.worker import Worker
from peerwise.run.peer import (
    PeerFolder,
    admit,
    decided,
    fit,
    found,
    join,
    outbox,
    predict,
    publish,
    pull,
    review,
    train,
    withdraw,
)

HOME, EAST, WEST = "home", "east", "west"
HOSPITALS = {HOME: "cleveland", EAST: "hungarian", WEST: "long_beach"}
MODELS = ["logistic", "forest"]
FIRST, SECOND = 60, 80  # rows on the first and the second day
COMMANDS: dict[str, Callable[[PeerFolder, Worker], Any]] = {
    "train": lambda peer, worker: train(peer),
    "publish": lambda peer, worker: publish(peer, outbox(peer)),
    "pull": lambda peer, worker: pull(peer, outbox(peer), worker),
    "review": lambda peer, worker: review(peer, worker),
    "accept": lambda peer, worker: decided(peer, WEST, None, "accepted", "looked through"),
    "fit": lambda peer, worker: fit(peer, worker),
    "predict": lambda peer, worker: answers(peer, worker),
    "withdraw": lambda peer, worker: withdraw(peer, outbox(peer), "new rows are coming"),
}
DAY = ["train", "publish", "pull", "accept", "fit"]


class Sites:
    """``root/live`` is what the sites work in; ``root/kept/<name>`` are copies of it."""

    def __init__(self, root: Path, models: list[str] = MODELS) -> None:
        self.root, self.models = root.resolve(), models
        self.live, self.kept = self.root / "live", self.root / "kept"
        self.temporary = self.live / "tmp"

    def peer(self, name: str = HOME) -> PeerFolder:
        return PeerFolder(self.live / name)

    def run(self, work: Callable[[], Any], before: Callable[[], Any] | None = None) -> Ended:
        return in_child(work, self.temporary, before)

    def done(self, work: Callable[[], Any]) -> Any:
        """What must go well."""
        ended = self.run(work)
        if ended.error or ended.killed:
            raise RuntimeError(ended.error)
        return ended.said

    def command(self, name: str, site: str = HOME) -> Callable[[], Any]:
        return lambda: with_worker(lambda worker: self.do(name, worker, site))

    def do(self, name: str, worker: Worker, site: str = HOME) -> Any:
        return COMMANDS[name](self.peer(site), worker)

    def keep(self, name: str) -> None:
        self._copy(self.live, self.kept / name)

    def restore(self, name: str) -> None:
        self._copy(self.kept / name, self.live)

    def _copy(self, source: Path, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)

    def begin(self) -> None:
        """The first day: everybody has trained and published, home uses what east has, and has fitted. Before home
        looks at the others a copy is kept ("alone"), in which it will use all that passes."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.live.mkdir(parents=True)
        self.rows(FIRST)
        self.done(self._founded)
        for name in (EAST, WEST, HOME):
            self.done(self.command("train", name))
            self.done(self.command("publish", name))
        self.keep("alone")
        path = self.kept / "alone" / HOME / "peerwise.toml"
        path.write_text(path.read_text().replace('ask = "first"', 'ask = "never"'))
        self.done(self.command("pull"))
        self.done(lambda: decided(self.peer(), EAST, None, "accepted", "known to us"))
        self.done(self.command("fit"))

    def second_day(self) -> None:
        """All have more rows; the others have published again. A copy is kept before each of home's commands."""
        self.rows(SECOND)
        for name in (EAST, WEST):
            self.done(self.command("train", name))
            self.done(self.command("publish", name))
        for name in DAY:
            self.keep(name)
            self.done(self.command(name))
        for name in ("predict", "withdraw", "done"):
            self.keep(name)

    def rows(self, count: int) -> None:
        data = load("heart_disease")
        assert data.site is not None
        for name, hospital in HOSPITALS.items():
            rows = np.flatnonzero(np.asarray(data.site) == hospital)
            table(data, np.random.default_rng(0).permutation(rows)[:count]).to_csv(
                self.live / f"{name}.csv", index=False
            )
        table(data, np.flatnonzero(np.asarray(data.site) == "switzerland")[:5]).drop(columns="target").to_csv(
            self.live / "ward.csv", index=False
        )

    def settings(self, name: str, **other: Any) -> dict[str, Any]:
        return {
            "name": name,
            "data": str(self.live / f"{name}.csv"),
            "models": self.models,
            "attack_seconds": 0,
            "meeting": {"folder": str(self.live / "shared")},
            **other,
        }

    def _founded(self) -> None:
        told = found(self.live / HOME, self.settings(HOME), task_from(load("heart_disease")))
        for name in (EAST, WEST):
            self.join(name, told["fingerprint"])

    def join(self, name: str, fingerprint: str) -> None:
        asked = join(self.live / name, self.settings(name), self.live / HOME / "invite.json", fingerprint)
        home, peer = self.peer(), self.peer(name)
        told = admit(home, Path(asked["request"]), asked["fingerprint"], outbox(home))
        admit(peer, Path(told["welcome"]), "", outbox(peer))


def with_worker(work: Callable[[Worker], Any]) -> Any:
    with Worker() as worker:
        return work(worker)


def answers(peer: PeerFolder, worker: Worker) -> list[list[float]]:
    """What the site says of the ward's rows, to the last bit."""
    found = predict(peer, peer.path.parent / "ward.csv", worker)
    return [[float(value) for value in row] for row in found.probabilities]


def table(data: Any, rows: Any) -> pd.DataFrame:
    """Rows as a hospital's own file has them."""
    columns: dict[str, Any] = {}
    for place, feature in enumerate(data.features):
        values = np.asarray(data.X)[rows, place]
        named = [feature.categories[int(v)] if np.isfinite(v) else None for v in values] if feature.categories else None
        columns[feature.name] = values if named is None else named
    return pd.DataFrame(columns).assign(target=[data.classes[code] for code in data.y[rows]])
