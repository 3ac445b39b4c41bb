"""The hospitals of the heart disease data as real sites with folders of their own, and the same in one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data import Dataset, Rows, Site, load, make_sites
from peerwise.data.task import Task, task_from
from peerwise.federation import answer
from peerwise.methods import make_method
from peerwise.models.worker import Worker
from peerwise.run import run_method
from peerwise.run.participation import Participation
from peerwise.run.peer import PeerFolder, admit, found, join, outbox, predict
from peerwise.run.peer.training import FOLDS

TARGET = "diagnosis"


def write_rows(path: Path, data: Dataset, X: Any, y: Any = None) -> Path:
    """As a person would write them: categories and classes by name, gaps empty."""
    columns: dict[str, Any] = {}
    for place, feature in enumerate(data.features):
        column = np.asarray(X)[:, place]
        names = [*feature.categories, None]
        texts = [names[-1 if np.isnan(value) else int(value)] for value in column] if feature.is_category else column
        columns[feature.name] = texts
    frame = pd.DataFrame(columns)
    (frame if y is None else frame.assign(**{TARGET: [data.classes[code] for code in y]})).to_csv(path, index=False)
    return path


class Hospitals:
    """``sites``: the hospitals as one process has them, by name; a folder of the same name is the real site. The first
    of ``names`` founds the federation. ``settings`` are keys of peerwise.toml, the same for all."""

    def __init__(
        self, folder: Path, names: Sequence[str], *, seed: int = 0, public: int = 0, most: int = 0, **settings: Any
    ) -> None:
        self.folder, self.seed = folder, seed
        self.settings = {"attack_seconds": 0.0, "ask": "never", "seed": seed, **settings}
        whole = load("heart_disease")
        keep = np.concatenate([np.flatnonzero(whole.site == name)[: most or None] for name in names])
        self.whole = whole.take(np.sort(keep))
        made = make_sites(self.whole, "natural", seed=seed, recipes=settings.get("models", ()), public=public)
        self.sites = {name: site for name in names for site in made if site.name == name}
        self.public = made[0].public
        self.founder = next(iter(self.sites))
        folder.mkdir(parents=True, exist_ok=True)
        for name, site in self.sites.items():
            rows = np.sort(np.concatenate(list(site.index.values())))
            write_rows(self.rows(name), self.whole, self.whole.X[rows], self.whole.y[rows])
            write_rows(folder / f"{name}-test.csv", self.whole, site.test.X)

    def task(self) -> Task:
        return task_from(load("heart_disease"), positive="disease", target=TARGET)

    def rows(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def peer(self, name: str) -> PeerFolder:
        return PeerFolder(self.folder / name)

    def begin(self, **meetings: dict[str, Any]) -> None:
        """Found the federation; ``meetings`` by site, a common folder where there is none."""
        public = ""
        if self.public is not None:
            public = str(write_rows(self.folder / "public.csv", self.whole, self.public))
        found(self.folder / self.founder, self._chosen(self.founder, meetings), self.task(), public=public)
        for name in self.sites:
            if name != self.founder and (not meetings or name in meetings):
                self.add(name, **meetings)

    def add(self, name: str, **meetings: dict[str, Any]) -> None:
        """Ask, be admitted, be welcomed."""
        founder = self.peer(self.founder)
        invite, print_of = founder.path / "invite.json", founder.identity.fingerprint
        chosen = self._chosen(name, meetings)
        if self.public is not None:
            chosen["public"] = str(self.folder / "public.csv")
        told = join(self.folder / name, chosen, invite, print_of)
        welcome = admit(founder, Path(told["request"]), told["fingerprint"], outbox(founder))["welcome"]
        peer = self.peer(name)
        admit(peer, Path(welcome), "", outbox(peer))

    def _chosen(self, name: str, meetings: dict[str, dict[str, Any]]) -> dict[str, Any]:
        meeting = dict(meetings.get(name) or {"folder": str(self.folder / "shared")})
        return {**self.settings, "name": name, "data": str(self.rows(name)), "meeting": meeting}

    def change(self, name: str, /, **settings: Any) -> None:
        """Other settings at one site, as if its file had been edited."""
        path = self.folder / name / "peerwise.toml"
        path.write_text(replace(self.peer(name).settings, **settings).text())

    def expected(self, *without: str, participation: Participation | None = None) -> dict[str, NDArray[np.float64]]:
        """What the sites answer to their test rows after the same method in one process."""
        sites = [site.replace(state={}) for name, site in self.sites.items() if name not in without]
        settings = self.settings.get("method_settings", {})
        method = make_method(self.settings["method"], settings, folds=FOLDS, epochs=None, sites=len(sites))
        run_method(method, sites, participation=participation)
        return {site.name: answer(method, site, site.test.X) for site in sites}

    def answers(self, name: str) -> NDArray[np.float64]:
        """What the real site answers to its test rows, read from a file without their classes."""
        with Worker() as worker:
            return predict(self.peer(name), self.folder / f"{name}-test.csv", worker).probabilities

    def lines(self, name: str, what: str) -> list[dict[str, Any]]:
        return [line for line in self.peer(name).ledger.lines() if line["what"] == what]


def same_rows(one: Rows, other: Rows) -> bool:
    return np.asarray(one.X).tobytes() == np.asarray(other.X).tobytes() and one.y.tobytes() == other.y.tobytes()


def same_site(one: Site, other: Site) -> bool:
    return all(same_rows(getattr(one, part), getattr(other, part)) for part in ("train", "val", "test"))
