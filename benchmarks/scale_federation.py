"""A federation in a folder with many members that have published: real keys, signatures, cards and model files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from peerwise.data.rows import Feature, Rows
from peerwise.data.task import Task, TaskFeature
from peerwise.models import ZOO, one_thread
from peerwise.parcels import Parcel, write_atomic
from peerwise.parcels.card import about, model_card
from peerwise.parcels.egress import rows_bucket
from peerwise.parcels.signed import Identity, Member, Roster, seal
from peerwise.run.peer import PeerFolder, found, outbox
from peerwise.transport import FolderTransport

INPUTS, CLASSES, OWN_ROWS = 64, tuple(map(str, range(10))), 300
FEATURES = tuple(f"pixel{number}" for number in range(INPUTS))
TASK = Task(
    name="digits",
    kind="table",
    classes=CLASSES,
    target="digit",
    features=tuple(TaskFeature(name, "number", "", 0.0, 16.0) for name in FEATURES),
)
DAY = 86_400


def model_files(count: int) -> list[bytes]:
    """Logistic regressions on different rows of the digits."""
    X, y = load_digits(return_X_y=True)
    X, rng = X.astype(np.float32), np.random.default_rng(0)
    features = tuple(Feature(name) for name in FEATURES)
    files = []
    with one_thread():
        for _ in range(count):
            rows = rng.choice(len(y), 60, replace=False)
            fitted = ZOO["logistic"].fit(Rows(X[rows], y[rows]), None, classes=10, features=features, seed=0)
            files.append(fitted.to_onnx())
    return files


def card(number: int) -> dict[str, Any]:
    known = {"recipe": "logistic", "classes_trained_on": ", ".join(CLASSES[number % 5 : number % 5 + 5])}
    task = {"name": TASK.name, "digest": TASK.digest, "kind": TASK.kind}
    models = {"logistic": about(known)}
    return model_card(
        task, classes=CLASSES, features=FEATURES, rows=rows_bucket(10 + number % 400), models=models, licence=""
    )


def signed_manifest(identity: Identity, name: str, number: int, model: bytes) -> tuple[bytes, dict[str, bytes]]:
    now = int(time.time())
    facts = {"federation": TASK.digest, "site": name, "topic": "models", "version": now, "created": now}
    parcel = Parcel(models={"logistic": model}, classes=list(CLASSES))
    return seal(parcel, identity, card=card(number), expires=now + 30 * DAY, **facts)


def published(root: Path, members: int, files: list[bytes], **settings: Any) -> PeerFolder:
    """The folder of the founder, "asking", in whose list there are so many others."""
    X, y = load_digits(return_X_y=True)
    table = pd.DataFrame(X[:OWN_ROWS], columns=list(FEATURES)).assign(digit=[str(code) for code in y[:OWN_ROWS]])
    root.mkdir(parents=True)
    table.to_csv(root / "rows.csv", index=False)
    given = {"data": "../rows.csv", "models": ["logistic"], "ask": "never", "meeting": {"folder": str(root / "shared")}}
    found(root / "asking", {**given, **settings}, TASK)
    peer = PeerFolder(root / "asking")
    identities = {f"site-{number:04}": Identity.new() for number in range(members)}
    first = peer.roster()
    others = tuple(Member(name=name, key=identity.public) for name, identity in identities.items())
    listed = Roster(
        first.federation, 2, first.founder, first.issued, first.expires, (*first.members, *others), first.rotations
    )
    write_atomic(peer.roster_path, listed.signed(peer.identity))
    for number, (name, identity) in enumerate(identities.items()):
        sealed, blobs = signed_manifest(identity, name, number, files[number % len(files)])
        FolderTransport(root / "shared", name).publish("models", sealed, blobs)
    return peer


def transport_of(peer: PeerFolder) -> FolderTransport:
    return outbox(peer)
