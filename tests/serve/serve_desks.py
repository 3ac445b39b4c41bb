"""Desks for tests of the service: the smallest that keep the promises of one, and what a test may ask of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from peerwise.data import Inputs
from peerwise.data.task import TaskFeature
from peerwise.errors import ConfigError
from peerwise.serve.app import make_app
from peerwise.serve.counting import Counts
from peerwise.serve.desk import About, Desk, Served, ServedModel
from peerwise.serve.guard import Log
from peerwise.serve.room import Room
from peerwise.serve.settings import Settings
from peerwise.trust.prediction_sets import PredictionSets

TOKEN = "a-token-of-the-tests"
FEATURES = (
    TaskFeature("age", "number", "years", 0, 120),
    TaskFeature("chol", "number", "mg/dl", 50, 600),
    TaskFeature("sex", "category", values=("female", "male")),
)
MODELS = tuple(
    ServedModel(f"{kind}@{site}", site, site == "north", "" if site == "north" else "2026-01-02", "ab" * 32)
    for site in ("north", "south")
    for kind in ("forest", "linear")
)
INPUTS = {
    "table": {"x": (3,)},
    "image": {"x": (1, 4, 5)},
    "colour": {"x": (3, 4, 5)},
    "sequence": {"static": (2,), "series": (3, 2)},
}
SAID = ((0.9, 0.1), (0.4, 0.6), (0.5, 0.5), (0.2, 0.8))


class SmallDesk(Desk):
    """Says of the n-th row the n-th line of SAID, over and over. ``seconds``: how long it ponders; ``fails``:
    by what, with the rows in the message; ``calibrated``: cases behind the sets."""

    closed = 0

    def __init__(
        self,
        kind: str = "table",
        *,
        digest: str = "d1",
        seconds: float = 0.0,
        fails: type[Exception] | None = None,
        calibrated: int = 40,
        classes: tuple[str, str] = ("healthy", "disease"),
        models: tuple[ServedModel, ...] = MODELS,
        fallback: bool = False,
    ) -> None:
        self.seconds, self.fails, self.calibrated, self.fallback = seconds, fails, calibrated, fallback
        self.asked: list[Inputs] = []
        self.alive = True
        self.about = About(
            digest=digest,
            site="north",
            method="peerwise",
            task="ward",
            kind="image" if kind == "colour" else kind,
            classes=classes,
            positive=classes[1],
            target="outcome",
            inputs=dict(INPUTS[kind]),
            features=FEATURES if kind == "table" else (),
            models=models,
            made=1_790_000_000,
            calibration_rows=calibrated,
            frugal=True,
            validation={"rows": 30, "verdict": "better"},
        )

    def answer(self, X: Inputs, *, frugal: bool = False) -> Served:
        time.sleep(self.seconds)
        if self.fails is not None:
            raise self.fails(f"cannot answer {X!r}")
        self.asked.append(X)
        rows, models = len(X), len(self.about.models)
        said = np.array([SAID[row % 4] for row in range(rows)])
        consulted = np.ones((rows, models), bool)
        consulted[:, models // 2 :] = not frugal
        return Served(
            said,
            said.argmax(axis=1),
            own=said[:, ::-1],
            trust=np.tile(np.linspace(0.1, 0.4, models), (rows, 1)),
            consulted=consulted,
            fallback=np.full(rows, self.fallback),
        )

    def sets(self, *, frugal: bool = False) -> PredictionSets:
        said = np.full((self.calibrated, 2), 0.5)
        return PredictionSets.fit(said, np.arange(self.calibrated) % 2)

    def explain(self, X: Inputs) -> dict[str, Any] | None:
        near = {"part": "train", "label": "disease", "distance": np.float32(0.5), "weight": 0.25}
        said = {"confidence": 0.8, "competence": float("nan"), "of_nearby": 7}
        return {
            "models": [
                {"name": "forest@south", "says": "disease", "trust": 0.7, "right_nearby": 6, **said},
                {"name": "forest@north", "says": "healthy", "trust": 0.2, "right_nearby": 1, **said},
                {"name": "linear@north", "says": "healthy", "trust": 0.1, "right_nearby": 3, **said},
            ],
            "neighbours": [{"row": 3, "values": {"age": 61.0, "chol": float("nan")}, **near}],
            "fallback": False,
            "note": "own model wrong on 6 of 7 such cases",
            "agreed": False,
            "agreement": "2 of 3 models say otherwise",
            "influence": {"south": 0.3, "north": -0.1},
        }

    def peers(self) -> list[dict[str, Any]]:
        return [{"site": "north", "own": True, "accuracy": float("nan"), "warnings": []}]

    def cases(self) -> list[dict[str, Any]]:
        if self.about.kind != "table":
            return []
        return [{"case": at + 1, "label": "healthy", "row": {"age": 40 + at, "chol": None}} for at in range(120)]

    def is_alive(self) -> bool:
        return self.alive

    def close(self) -> None:
        self.closed += 1


def open_written(path: Path) -> Desk:
    """The desk that ``bundle.json`` describes; the file is as good as its own digest."""
    try:
        found = json.loads((path / "bundle.json").read_text())
    except ValueError as error:
        raise ConfigError(f"{path} is broken: expected JSON.") from error
    return SmallDesk(**found)


def write_bundle(path: Path, **facts: Any) -> None:
    path.mkdir(exist_ok=True)
    (path / "new").write_text(json.dumps(facts))
    os.replace(path / "new", path / "bundle.json")


class Client:
    """Asks an app in this process."""

    def __init__(self, app: Any, headers: dict[str, str]) -> None:
        self._app, self._headers = app, headers

    def get(self, path: str, **how: Any) -> httpx.Response:
        return asyncio.run(self.ask("GET", path, **how))

    def post(self, path: str, **how: Any) -> httpx.Response:
        return asyncio.run(self.ask("POST", path, **how))

    async def ask(self, method: str, path: str, *, address: str = "192.0.2.1", **how: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, client=(address, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://north", headers=self._headers) as client:
            return await client.request(method, path, **how)


def client_of(room: Room, **settings: Any) -> Client:
    """Of a service over this room in this process, with the token."""
    given = Settings(**{"token": TOKEN, "rate": 100_000, **settings})
    app = make_app(room, given, Counts(), Log(given.quiet))
    return Client(app, {"Authorization": f"Bearer {TOKEN}"})


def client(desk: Desk | None = None, *, waiting: int = 64, **settings: Any) -> Client:
    """Of a service with one small desk."""
    served = desk or SmallDesk()
    room = Room(lambda path: served, Path(), 1, waiting)
    room.open()
    return client_of(room, **settings)
