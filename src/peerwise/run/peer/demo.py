"""A real federation of four hospitals in one folder, made by the steps that real sites take; for a first look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerwise.data import Dataset, load
from peerwise.data.task import Task, task_from
from peerwise.models.worker import Worker
from peerwise.parcels import write_atomic
from peerwise.run.peer.arrivals import arrivals
from peerwise.run.peer.connection import outbox
from peerwise.run.peer.fitting import BUNDLE, fit
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.founding import INVITE, REQUEST, found, join
from peerwise.run.peer.membership import admit
from peerwise.run.peer.publishing import publish
from peerwise.run.peer.pulling import pull
from peerwise.run.peer.reviewing import decided
from peerwise.run.peer.settings import FILE
from peerwise.run.peer.training import train

AT = "cleveland"  # founds the federation, and is the one that answers
TARGET, POSITIVE = "diagnosis", "disease"
ROWS, MEETING = "rows", "meeting"
WHY = "a demonstration: the rows are public"
ATTACK_SECONDS = 1.0
# What is known of each quantity without looking at the rows.
QUANTITIES: dict[str, tuple[str, float, float]] = {
    "age": ("years", 18, 100),
    "trestbps": ("mmHg", 60, 260),
    "chol": ("mg/dl", 50, 700),
    "thalach": ("beats/min", 40, 230),
    "oldpeak": ("mm ST", -4, 8),
    "ca": ("vessels", 0, 3),
}

Tell = Callable[[str], None]


def demo_site(folder: Path, tell: Tell = lambda text: None) -> Path:
    """The folder of the hospital that answers. What is there already is not made again, so it can be broken off at any
    instant."""
    here = PeerFolder(folder / AT)
    if (here.path / FILE).is_file() and here.bundle.has(BUNDLE):
        return here.path
    data = load("heart_disease")
    names = hospitals(data)
    write_hospitals(data, folder / ROWS)
    _form(folder, names, tell)
    for number, name in enumerate(names, 1):
        tell(f"{name}: training and publishing its models ({number} of {len(names)})")
        peer = PeerFolder(folder / name)
        train(peer)
        publish(peer, outbox(peer))
    with Worker() as worker:
        tell(f"{AT}: fetching and checking the models of {', '.join(names[1:])}")
        pull(here, outbox(here), worker)
        for arrival in arrivals(here):
            if arrival.decided == "waiting":
                decided(here, arrival.site, arrival.version, "accepted", WHY)
        tell(f"{AT}: learning for which cases to trust whom")
        fit(here, worker)
    return here.path


def hospitals(data: Dataset) -> list[str]:
    """Their names, the one that answers first."""
    assert data.site is not None
    names = sorted(set(data.site.tolist()))
    return [AT, *(name for name in names if name != AT)]


def write_hospitals(data: Dataset, folder: Path) -> dict[Path, int]:
    """One table a hospital, as it might keep it: values by name, empty cells for what is missing. The files, and the
    number of rows of each."""
    X, written = np.asarray(data.X), {}
    for name in sorted(hospitals(data)):
        here = data.site == name
        columns = {
            feature.name: [
                None if np.isnan(value) else feature.categories[int(value)] if feature.is_category else str(value)
                for value in X[here, place]
            ]
            for place, feature in enumerate(data.features)
        }
        table = pd.DataFrame({**columns, TARGET: [data.classes[code] for code in data.y[here]]})
        write_atomic(folder / f"{name}.csv", table.to_csv(index=False).encode())
        written[folder / f"{name}.csv"] = len(table)
    return written


def hospital_task() -> Task:
    """What the hospitals agree on, with units and plausible ranges."""
    drawn_up = task_from(load("heart_disease"), positive=POSITIVE, target=TARGET)
    features = []
    for feature in drawn_up.features:
        unit, low, high = QUANTITIES.get(feature.name, ("", None, None))
        features.append(replace(feature, unit=unit, low=low, high=high) if feature.type == "number" else feature)
    return replace(drawn_up, features=tuple(features))


def _form(folder: Path, names: list[str], tell: Tell) -> None:
    """The first founds the federation; the others ask, are admitted, and are welcomed."""
    founder = PeerFolder(folder / AT)
    if not (founder.path / FILE).is_file():
        tell(f"{AT}: founding the federation")
        found(founder.path, _settings(folder, AT), hospital_task())
    for name in names[1:]:
        peer = PeerFolder(folder / name)
        if not (peer.path / FILE).is_file():
            tell(f"{name}: asking to join")
            join(peer.path, _settings(folder, name), founder.path / INVITE, founder.identity.fingerprint)
        if not peer.roster_path.is_file():
            told = admit(founder, peer.path / REQUEST, peer.identity.fingerprint, outbox(founder))
            admit(peer, Path(told["welcome"]), "", outbox(peer))


def _settings(folder: Path, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "data": f"../{ROWS}/{name}.csv",
        "licence": "CC BY 4.0",
        "attack_seconds": ATTACK_SECONDS,
        "meeting": {"folder": str((folder / MEETING).resolve())},
    }
