"""A site's folder after `peerwise fit`, asked over HTTP as its page asks it."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from serve_desks import Client, client_of

sys.path.append(str(Path(__file__).parents[1] / "run"))
from peer_sites import CLASSES, Sites, fitted_by, table

from peerwise.models.worker import Worker
from peerwise.run.peer import predict
from peerwise.run.peer.answering import answers_csv
from peerwise.serve import shapes
from peerwise.serve.opening import open_desk
from peerwise.serve.pool_desk import PoolDesk
from peerwise.serve.room import Room
from peerwise.trust.prediction_sets import PredictionSets

CSV = {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as process:
        yield process


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, worker: Worker) -> Sites:
    return fitted_by("peerwise", tmp_path_factory.mktemp("federation"), worker, models=["logistic", "forest"])


@pytest.fixture(scope="module")
def service(sites: Sites) -> Iterator[Client]:
    room = Room(open_desk, sites["north"].path, 1, 8)
    room.open()
    yield client_of(room, quiet=True)
    room.close()


def test_the_answers_are_those_of_the_command(service: Client, sites: Sites, worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "ward.csv"
    table("west", 30).to_csv(file, index=False)
    found = service.post("/v1/predict", content=file.read_bytes(), headers=CSV).json()
    shapes.Predicted.model_validate(found, strict=True)
    expected = predict(sites["north"], file, worker, trust=True)
    for answer, said, trust in zip(found["answers"], expected.probabilities, expected.trust, strict=True):
        assert list(answer["probabilities"].values()) == pytest.approx(said.tolist())
        assert answer["trust"] == pytest.approx(trust)
    assert {model["site"] for model in found["models"].values()} == {"north", "south", "east"}
    assert all(bool(model["version"]) != model["own"] for model in found["models"].values())


def test_the_service_and_the_command_give_the_same_verdict_on_the_same_case(
    service: Client, sites: Sites, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "ward.csv"
    table("west", 60).to_csv(file, index=False)
    mixed = []
    for level in (0.6, 0.7, 0.8, 0.85, 0.9, 0.95):
        found = service.post(f"/v1/predict?level={level}", content=file.read_bytes(), headers=CSV).json()
        expected = predict(sites["north"], file, worker, level=level)
        for served, row in zip(found["answers"], expected.rows(), strict=True):
            for name in ("row", "answer", "unsure", "why", "set"):
                assert served[name] == row[name]
            assert served["unsure"] == (len(served["set"]) > 1)
        assert found["record"] == expected.sets.record(level).to_dict()
        mixed.append(len({answer["unsure"] for answer in found["answers"]}) == 2)
    assert any(mixed), "or nothing is told apart here"


def test_a_file_of_answers_is_the_same_from_the_service_and_from_the_command(
    service: Client, sites: Sites, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "ward.csv"
    table("west", 30).to_csv(file, index=False)
    by_service = service.post("/v1/predict", content=file.read_bytes(), headers=CSV | {"Accept": "text/csv"}).text
    found = predict(sites["north"], file, worker, trust=True)
    one, other = (
        pd.read_csv(io.StringIO(text)) for text in (by_service, answers_csv(CLASSES, found.sites, found.rows()))
    )
    assert {"answer", "unsure", "set", "trust_north", "trust_south", "trust_east"} <= set(one.columns)
    pd.testing.assert_frame_equal(one, other, rtol=1e-4)


def test_a_validation_case_can_be_sent_back_as_it_came_and_explained(service: Client) -> None:
    about = service.get("/v1/bundle").json()
    shapes.Bundle.model_validate(about, strict=True)
    cases = service.get("/v1/cases?limit=3").json()
    shapes.Cases.model_validate(cases, strict=True)
    assert about["has_cases"]
    for case in cases["cases"]:
        opened = service.post("/v1/explain", json={"row": case["row"]}).json()
        shapes.Explained.model_validate(opened, strict=True)
        explanation = opened["explanation"]
        assert {line["site"] for line in explanation["evidence"]} == {"north", "south", "east"}
        assert all("such cases" in line["text"] for line in explanation["evidence"])
        assert explanation["neighbours"][0]["values"].keys() == case["row"].keys()


def test_the_sites_behind_the_answers_are_described(service: Client) -> None:
    found = service.get("/v1/peers").json()
    shapes.Peers.model_validate(found, strict=True)
    assert found["peers"][0]["site"] == "north"
    assert found["rows"] == service.get("/v1/bundle").json()["validation"]["rows"]


def test_a_frugal_answer_asks_fewer_models(service: Client) -> None:
    assert service.get("/v1/bundle").json()["frugal"]
    rows: list[dict[str, Any]] = [case["row"] for case in service.get("/v1/cases").json()["cases"]]
    whole = service.post("/v1/predict", json={"rows": rows}).json()
    few = service.post("/v1/predict", json={"rows": rows, "frugal": True}).json()
    shapes.Predicted.model_validate(few, strict=True)
    homes = {name: model["site"] for name, model in whole["models"].items()}
    own = {name for name, model in whole["models"].items() if model["own"]}
    asked = [len(answer["consulted"]) for answer in few["answers"]]
    assert min(asked) < len(homes), "some rows stop early"
    for one, other in zip(few["answers"], whole["answers"], strict=True):
        assert own <= set(one["consulted"]) <= set(other["consulted"])
        assert one["own"] == pytest.approx(other["own"])
        trusted = {site for site, weight in one["trust"].items() if weight}
        assert trusted <= {homes[name] for name in one["consulted"]}
        assert sum(one["trust"].values()) == pytest.approx(1)
        if len(one["consulted"]) == len(homes):
            assert one["probabilities"] == pytest.approx(other["probabilities"])


@pytest.fixture(scope="module")
def desk(sites: Sites) -> Iterator[PoolDesk]:
    found = open_desk(sites["north"].path)
    assert isinstance(found, PoolDesk)
    yield found
    found.close()


def test_how_sure_a_frugal_answer_is_comes_from_frugal_answers_to_the_test_rows(desk: PoolDesk, sites: Sites) -> None:
    test = sites["north"].site().test
    served, whole = desk.answer(test.X, frugal=True), desk.answer(test.X)
    assert not np.allclose(served.probabilities, whole.probabilities), "or nothing is told apart here"
    for answers, frugal in ((served, True), (whole, False)):
        expected = PredictionSets.fit(answers.probabilities, test.y)
        given = desk.sets(frugal=frugal)(answers.probabilities, 0.8)
        np.testing.assert_array_equal(given, expected(answers.probabilities, 0.8))


def test_a_killed_worker_costs_a_frugal_answer_nothing_but_time(desk: PoolDesk, sites: Sites) -> None:
    rows = sites["north"].site().test.X
    before = desk.answer(rows, frugal=True)
    assert desk._worker.pid is not None
    os.kill(desk._worker.pid, signal.SIGKILL)
    after = desk.answer(rows, frugal=True)
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    assert not after.failed
    assert desk.restarts > 0
