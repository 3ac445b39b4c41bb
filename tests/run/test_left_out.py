"""A peer's model that fails on a site's rows: the site does without it, has not fallen back, and says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from frail_models import Frail

from peerwise import Run, load, make_sites, simulate
from peerwise.cli import main
from peerwise.models import ZOO, OnnxModel
from peerwise.run import RunFolder

SETTINGS: dict[str, Any] = {"models": ["mlp"], "epochs": 4, "folds": 2, "seeds": 1}
EVERY = ["mlp@cleveland", "mlp@hungarian", "mlp@long_beach", "mlp@switzerland"]
FAILED = {
    "cleveland": {"mlp@hungarian": "on train rows: ", "mlp@switzerland": "on 1 of 61 rows to answer, left to the own"},
    "hungarian": {},
    "long_beach": {"mlp@hungarian": "on train rows: ", "mlp@switzerland": "on 1 of 40 rows to answer, left to the own"},
    "switzerland": {"mlp@hungarian": "on train rows: "},
}


@pytest.fixture(autouse=True)
def frail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ZOO, "mlp", replace(ZOO["mlp"], fit=Frail()))


def rows_of(site: str) -> Any:
    (found,) = [each for each in make_sites(load("heart_disease"), "natural", seed=0) if each.name == site]
    return found.test.X


def left_out(run: Run, method: str) -> dict[str, dict[str, str]]:
    return {site: tree["peers_left_out"] for (_, label, site), tree in run.predictions.items() if label == method}


def check_told(told: dict[str, dict[str, str]]) -> None:
    assert {site: set(models) for site, models in told.items()} == {site: set(each) for site, each in FAILED.items()}
    for site, models in FAILED.items():
        for model, start in models.items():
            assert told[site][model].startswith(start)
            assert f"BadOutputs: model '{model}' returned a non-finite value in" in told[site][model]


def test_a_site_does_without_the_model_that_fails_there_and_the_others_stay(tmp_path: Path) -> None:
    methods = "local,global_ensemble,best_single,peerwise"
    run = simulate("heart_disease", out=tmp_path, **SETTINGS, methods=methods)
    assert (run.results["fell_back_to"] == "").all()
    assert left_out(run, "local") == {site: {} for site in FAILED}
    for method in ("global_ensemble", "best_single", run.experiment.label("peerwise")):
        check_told(left_out(run, method))
        for site, models in FAILED.items():
            details = run.predictions[0, method, site]["details"]
            lost = [model for model, why in models.items() if why.startswith("on train")]
            assert details["models"] == [model for model in EVERY if model not in lost]
            assert "left_out" not in details
    again = simulate("heart_disease", out=tmp_path, **SETTINGS, methods=methods)
    assert run.results.equals(again.results)


def test_answers_are_those_of_the_models_that_remain(tmp_path: Path) -> None:
    run = simulate("heart_disease", out=tmp_path, **SETTINGS, methods="global_ensemble")
    X = rows_of("cleveland")
    parcels = RunFolder(tmp_path).load_states("global_ensemble-s0").parcels
    names = {site: OnnxModel(parcels[site]["models"]["mlp"]) for site in ("cleveland", "long_beach", "switzerland")}
    old = X[:, 0] > 76.5
    assert old.sum() == 1
    mean = np.mean([model.predict_proba(X[~old]) for model in names.values()], axis=0)
    tree = run.predictions[0, "global_ensemble", "cleveland"]
    assert np.allclose(tree["probabilities"][~old], mean, atol=1e-6)
    assert np.allclose(tree["probabilities"][old], names["cleveland"].predict_proba(X[old]), atol=1e-6)
    assert tree["details"]["fallback"].tolist() == old.tolist()


def test_results_events_and_observers_say_which_model_was_left_out_where_and_why(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    simulate("heart_disease", out=tmp_path, **SETTINGS, methods="best_single", on_event=seen.append)
    logged = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    for events in (seen, logged):
        told: dict[str, dict[str, str]] = {site: {} for site in FAILED}
        for event in events:
            if event["event"] == "left out":
                assert event["run"] == "best_single-s0"
                assert event["model"] not in told[event["site"]], "told once"
                told[event["site"]][event["model"]] = event["why"]
        check_told(told)
    column = pd.read_parquet(tmp_path / "results.parquet").set_index("site")["peers_left_out"]
    assert column["hungarian"] == ""
    assert column["switzerland"].startswith("mlp@hungarian: on train rows: BadOutputs: ")
    assert "; mlp@switzerland: on 1 of 61 rows" in column["cleveland"]


def test_the_command_tells_it_in_json_and_below_the_tables(capsys: Any, tmp_path: Path) -> None:
    command = ["simulate", "heart_disease", "--models", "mlp", "--epochs", "4", "--folds", "2", "--seeds", "1", "-q"]
    command += ["--methods", "best_single", "--out", str(tmp_path)]
    assert main([*command, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fell_back"] == []
    told: dict[str, dict[str, str]] = {site: {} for site in FAILED}
    for line in found["peers_left_out"]:
        assert (line["seed"], line["method"]) == (0, "best_single")
        told[line["site"]][line["model"]] = line["why"]
    check_told(told)
    assert main(command) == 0
    out = " ".join(capsys.readouterr().out.split())  # long lines are folded
    assert "Site switzerland (seed 0, best_single): without mlp@hungarian, because on train rows: BadOutputs:" in out
    assert "answered by" not in out


class Nowhere(Frail):
    """At one hospital nothing can be trained."""

    def __call__(self, train: Any, *rest: Any, **settings: Any) -> Any:
        if len(train) == 120:
            raise FloatingPointError("overflow")
        return super().__call__(train, *rest, **settings)


def test_a_site_that_asks_its_peers_asks_those_that_can_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(ZOO, "mlp", replace(ZOO["mlp"], fit=Nowhere()))
    run = simulate("heart_disease", out=tmp_path, **SETTINGS, methods="best_single")
    tree = run.predictions[0, "best_single", "long_beach"]
    assert tree["fell_back"] == {"to": "peers' models", "why": "share: FloatingPointError: overflow"}
    assert set(tree["peers_left_out"]) == {"mlp@hungarian", "mlp@switzerland"}
    parcel = RunFolder(tmp_path).load_states("best_single-s0").parcels["cleveland"]
    expected = OnnxModel(parcel["models"]["mlp"]).predict_proba(rows_of("long_beach"))
    assert np.allclose(tree["probabilities"], expected, atol=1e-6)
