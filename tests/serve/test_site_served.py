"""A site's folder after `peerwise fit`, asked over HTTP as its page asks it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_desks import Client, client_of

sys.path.append(str(Path(__file__).parents[1] / "run"))
from peer_sites import Sites, fitted_by, table

from peerwise.models.worker import Worker
from peerwise.run.peer import predict
from peerwise.serve import shapes
from peerwise.serve.opening import open_desk
from peerwise.serve.room import Room

CSV = {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as process:
        yield process


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, worker: Worker) -> Sites:
    return fitted_by("feddes", tmp_path_factory.mktemp("federation"), worker)


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
    expected = predict(sites["north"], file, worker, explain=30)
    for answer, said, trust in zip(found["answers"], expected.probabilities, expected.trust, strict=True):
        assert list(answer["probabilities"].values()) == pytest.approx(said.tolist())
        assert answer["trust"] == pytest.approx(trust)
    assert {model["site"] for model in found["models"].values()} == {"north", "south", "east"}
    assert all(bool(model["version"]) != model["own"] for model in found["models"].values())


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


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_a_frugal_answer_asks_no_more_models(service: Client, level: float) -> None:
    rows: list[dict[str, Any]] = [case["row"] for case in service.get("/v1/cases?limit=5").json()["cases"]]
    whole = service.post("/v1/predict", json={"rows": rows, "level": level}).json()
    few = service.post("/v1/predict", json={"rows": rows, "level": level, "frugal": True}).json()
    shapes.Predicted.model_validate(few, strict=True)
    if not service.get("/v1/bundle").json()["frugal"]:
        assert any("frugally" in note for note in few["notes"])
    for one, other in zip(few["answers"], whole["answers"], strict=True):
        assert set(one["consulted"]) <= set(other["consulted"])
