"""Small federations of real sites in folders: three hospitals that meet in a directory, made once and then copied."""

from __future__ import annotations

import shutil
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from peerwise.data.task import Task, TaskFeature
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel
from peerwise.run.peer import PeerFolder, admit, decided, fit, found, join, outbox, publish, pull

sys.path.append(str(Path(__file__).parents[1] / "parcels"))  # for the files that a peer might send to do harm
from peerwise.transport import FolderTransport, SignedTransport

NAMES = ("north", "south", "east")
FEATURES = ("age", "pressure", "sugar", "site")
CLASSES = ("healthy", "ill", "unclear")
TASK = Task(
    name="ward",
    kind="table",
    classes=CLASSES,
    target="outcome",
    features=tuple(TaskFeature(name, "number", "", -100.0, 100.0) for name in FEATURES),
)
QUICK: dict[str, Any] = {"models": ["logistic"], "attack_seconds": 0.0, "method": "knorae"}
DAY = 86_400


def table(name: str, count: int = 90, seed: int = 0) -> pd.DataFrame:
    """Rows of three overlapping classes, whose places differ from site to site."""
    rng = np.random.default_rng([seed, *name.encode()])
    y = np.arange(count) % 3
    centres = rng.normal(size=(3, 4)) + np.eye(3, 4) * 2
    X = centres[y] + rng.normal(scale=1.5, size=(count, 4))
    return pd.DataFrame(np.round(X, 3), columns=list(FEATURES)).assign(outcome=[CLASSES[code] for code in y])


def mislabeled(sites: Sites, *names: str) -> Sites:
    """With the wrong labels at these sites, so that their models do harm elsewhere."""
    for name in names:
        rows = table(name)
        wrong = [CLASSES[(CLASSES.index(label) + 1) % 3] for label in rows["outcome"]]
        rows.assign(outcome=wrong).to_csv(sites.root / f"{name}.csv", index=False)
    return sites


@dataclass
class Clock:
    """The time of all sites of a federation, which a test may set forward and back."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Sites(Mapping[str, PeerFolder]):
    """The folders of a federation under one root, each read anew whenever it is asked for."""

    def __init__(self, root: Path, names: tuple[str, ...] = NAMES) -> None:
        self.root, self.names, self.clock = root, names, Clock()

    def __getitem__(self, name: str) -> PeerFolder:
        return PeerFolder(self.root / name, clock=self.clock)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def transport(self, name: str) -> FolderTransport:
        return outbox(self[name])

    def signed(self, name: str) -> SignedTransport:
        return self[name].signed(self.transport(name))

    def pull(self, name: str, worker: Worker) -> dict[str, Any]:
        return pull(self[name], self.transport(name), worker)

    def publish(self, name: str, **more: Any) -> dict[str, Any]:
        return publish(self[name], self.transport(name), **more)

    def accept(self, at: str, site: str, why: str = "helps") -> dict[str, Any]:
        return decided(self[at], site, None, "accepted", why)

    def send(self, name: str, models: Mapping[str, bytes], classes: list[str] | None = None, **card: Any) -> int:
        """As a member whose software is another: any models under its signature, with the card of its true ones."""
        parcel = Parcel(models=dict(models), classes=list(CLASSES) if classes is None else classes)
        return self.signed(name).publish("models", parcel, {**self.card(name), **card}).version

    def card(self, name: str) -> dict[str, Any]:
        """The card of what a site shows."""
        shown = self.signed(name).fetch(name, "models")
        return dict((shown and shown.manifest.card) or {})

    def seen_version(self, of: str, at: str = "north") -> int:
        return self[at].seen.highest(of, "models")

    def told(self, name: str, what: str) -> list[dict[str, Any]]:
        """The lines of a site's ledger on one matter."""
        return [line for line in self[name].ledger.lines() if line["what"] == what]

    def shown(self, name: str, topic: str = "models") -> Path:
        return self.root / "meeting" / name / "manifests" / f"{topic}.json"

    def change(self, name: str, **settings: Any) -> None:
        """Edit a site's peerwise.toml."""
        path = self.root / name / "peerwise.toml"
        path.write_text(tomli_w.dumps({**tomllib.loads(path.read_text()), **settings}))


def founded(root: Path, name: str = "north", **settings: Any) -> dict[str, Any]:
    table(name).to_csv(root / f"{name}.csv", index=False)
    meeting = {"folder": str(root / "meeting")}
    return found(root / name, {**QUICK, "data": f"../{name}.csv", "meeting": meeting, **settings}, TASK)


def asked(root: Path, name: str, founders: str, founder: str = "north", **settings: Any) -> dict[str, Any]:
    table(name).to_csv(root / f"{name}.csv", index=False)
    given = {**QUICK, "data": f"../{name}.csv", "meeting": {"folder": str(root / "meeting")}, **settings}
    return join(root / name, given, root / founder / "invite.json", founders)


def admitted(sites: Sites, told: dict[str, Any], founder: str = "north") -> dict[str, Any]:
    """Both sides of it: the founder's answer to a request, and the member's to a welcome."""
    answer = admit(sites[founder], Path(told["request"]), told["fingerprint"], sites.transport(founder))
    return admit(sites[told["site"]], Path(answer["welcome"]), "", sites.transport(told["site"]))


def formed(root: Path, names: tuple[str, ...] = NAMES, **settings: Any) -> Sites:
    """A federation whose members know each other, and have published nothing."""
    sites = Sites(root, names)
    fingerprint = founded(root, names[0], **settings)["fingerprint"]
    for name in names[1:]:
        admitted(sites, asked(root, name, fingerprint, names[0], **settings), names[0])
    return sites


def copied(sites: Sites, root: Path) -> Sites:
    """The same federation elsewhere, to be spoilt."""
    shutil.copytree(sites.root, root, dirs_exist_ok=True)
    for name in sites.names:
        settings = root / name / "peerwise.toml"
        settings.write_text(settings.read_text().replace(str(sites.root), str(root)))
    return Sites(root, sites.names)


def fitted_by(method: str, root: Path, worker: Worker, **settings: Any) -> Sites:
    """North has learned with the models of all others."""
    sites = formed(root, method=method, **settings)
    for name in sites:
        sites.publish(name)
    sites.pull("north", worker)
    for name in ("south", "east"):
        sites.accept("north", name)
    fit(sites["north"], worker, use_peers=True)
    return sites
