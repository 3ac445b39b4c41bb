"""Flower over the working folders of real sites: what is learned stays there, and nothing else leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flower_grid import LocalGrid, start
from flwr.app import Context, Message

from peerwise.data import Dataset, Site, load, make_sites
from peerwise.data.task import task_from
from peerwise.errors import ConfigError, ModelError
from peerwise.federation import answer
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import unpack
from peerwise.parcels.egress import holds_rows
from peerwise.run import run_method
from peerwise.run.flower.client import app as client
from peerwise.run.flower.client import finished, site_of
from peerwise.run.flower.records import tree_in
from peerwise.run.flower.server import app as server
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.peer.founding import found

HOSPITALS = ["cleveland", "hungarian", "long_beach", "switzerland"]
TRAINED = {"peerwise": {}, "fedproto": {"rounds": 3, "lr": 0.1}}


def table(data: Dataset, name: str) -> pd.DataFrame:
    """A hospital's rows as its own file has them."""
    assert data.site is not None
    rows = np.flatnonzero(np.asarray(data.site) == name)
    columns: dict[str, Any] = {}
    for place, feature in enumerate(data.features):
        values = np.asarray(data.X)[rows, place]
        named = (
            [feature.categories[int(v)] if np.isfinite(v) else None for v in values] if feature.categories else values
        )
        columns[feature.name] = named
    return pd.DataFrame(columns).assign(target=[data.classes[code] for code in data.y[rows]])


def folders(tmp_path: Path, models: list[str], **other: Any) -> dict[int, dict[str, Any]]:
    """Four hospitals, each with its own folder, as nodes 11 to 14 hold them."""
    data = load("heart_disease")
    task = task_from(data)
    for name in HOSPITALS:
        table(data, name).to_csv(tmp_path / f"{name}.csv", index=False)
        meeting = {"folder": str(tmp_path / "meeting")}
        settings = {"name": name, "data": str(tmp_path / f"{name}.csv"), "models": models, "meeting": meeting}
        found(tmp_path / name, {**settings, **other}, task)
    return {11 + place: {"folder": str(tmp_path / name)} for place, name in enumerate(HOSPITALS)}


def in_process(settings: FlowerSettings, models: list[str]) -> list[Site]:
    sites = make_sites(load("heart_disease"), "natural", recipes=models, seed=0)
    run_method(settings.make(), sites)
    return sites


class Recording(LocalGrid):
    """Keeps all that the hub receives."""

    def pull_messages(self, message_ids: Any) -> list[Message]:
        found = super().pull_messages(message_ids)
        self.received = [
            *getattr(self, "received", []),
            *(tree_in(message.content["reply"]) for message in found if message.has_content()),
        ]
        return found


@pytest.mark.parametrize("method", TRAINED)
def test_real_sites_answer_as_one_process_does_and_keep_their_rows(method: str, tmp_path: Path) -> None:
    nodes = folders(tmp_path, ["mlp"])
    settings = FlowerSettings(
        method=method, settings=TRAINED[method], nodes=4, deadline=60.0, out=str(tmp_path / "hub")
    )
    grid = Recording(dict.fromkeys(nodes, client), settings.config(), nodes.__getitem__)
    grid.names = dict(zip(nodes, HOSPITALS, strict=True))
    start(server, grid, settings.config())
    assert not (tmp_path / "hub" / "answers.tree").exists(), "no answers leave a real site"
    assert all(reply["tested"] is None for reply in grid.received)
    for site in in_process(settings, ["mlp"]):
        with Worker() as worker, one_thread():
            ready, here = finished(tmp_path / site.name, method, worker)
            assert np.array_equal(answer(ready, here, site.test.X), answer(ready, site, site.test.X)), site.name
        for reply in grid.received:
            if reply["parcel"] is not None:
                manifest, blobs = reply["parcel"]
                assert not any(holds_rows(data, site.train) for data in (manifest, *blobs.values()))
    known = json.loads((tmp_path / "hub" / "results.json").read_text())
    assert sorted(known["sites"]) == HOSPITALS


def test_a_site_under_another_name_than_it_was_registered_with_is_left_out(tmp_path: Path) -> None:
    nodes = folders(tmp_path, ["mlp"])
    settings = FlowerSettings(method="fedproto", settings=TRAINED["fedproto"], nodes=4, out=str(tmp_path / "hub"))
    grid = LocalGrid(dict.fromkeys(nodes, client), settings.config(), nodes.__getitem__)
    grid.names = dict(zip(nodes, ["cleveland", "budapest", "long_beach", "switzerland"], strict=True))
    start(server, grid, settings.config())
    known = json.loads((tmp_path / "hub" / "results.json").read_text())
    assert "hungarian" not in known["sites"]
    assert "expected 'budapest', as it was registered" in known["left_out"][0]["why"]


def test_a_model_that_tells_of_few_rows_does_not_leave(tmp_path: Path) -> None:
    nodes = folders(tmp_path, ["forest"], min_leaf=50)  # its leaves hold ten rows or more
    settings = FlowerSettings(nodes=1)
    sent: list[Any] = []

    def node(message: Message, context: Context) -> Message:
        reply: Message = client(message, context)
        sent.append(unpack(*tree_in(reply.content["reply"])["parcel"]))
        return reply

    grid = LocalGrid({11: node}, settings.config(), nodes.__getitem__)
    with pytest.raises(ModelError, match="MayNotLeave"):
        start(server, grid, settings.config())
    assert not sent


def test_a_method_that_moves_rows_is_refused(tmp_path: Path) -> None:
    nodes = folders(tmp_path, ["mlp"])
    with pytest.raises(ConfigError, match="moves rows"):
        site_of(FlowerSettings(method="centralised", nodes=4), nodes[11])


def test_sites_that_would_not_start_alike_are_refused(tmp_path: Path) -> None:
    nodes = folders(tmp_path, ["mlp"])
    with pytest.raises(ConfigError, match=r"seed is 0 in .* and 5 in the run"):
        site_of(FlowerSettings(nodes=4, seed=5), nodes[11])
