"""peerwise recommend: what it prints, what it reads, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peer_windows import found, hospital_tables, right

from peerwise.cli import main

Capture = pytest.CaptureFixture[str]
FLAGS = ["--kind", "image", "--rows", "120", "--classes", "10", "--sites", "6"]


def test_it_says_what_to_use_what_it_costs_and_what_was_measured(capsys: Capture) -> None:
    assert main(["recommend", *FLAGS, "--strangers", "--one-shot"]) == 0
    out = capsys.readouterr().out
    said = "image rows, 120 rows, 10 classes, 6 sites, label skew not known, 0 public rows, strangers, one shot"
    assert f"situation: {said}" in out
    assert "nearest measured: " in out
    assert "use: " in out
    assert "points over what a site has alone" in out, "own models are lost on classes that they have never seen"
    assert "sends " in out
    assert "not considered (has rounds): " in out
    assert "not considered (needs public rows): distilled_vote" in out
    assert "commit " in out


def test_a_run_leads_with_its_own_figures(capsys: Capture, tmp_path: Path) -> None:
    tiny = ["--models", "logistic", "--folds", "2", "--seeds", "1", "--methods", "local,global_ensemble"]
    assert main(["simulate", "heart_disease", *tiny, "-q", "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert main(["recommend", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("in this run: ")
    assert out.index("points over own") < out.index("situation: ")
    assert main(["recommend", str(tmp_path / "run"), "--format", "json"]) == 0
    methods = {each["method"]: each for each in json.loads(capsys.readouterr().out)["run"]["methods"]}
    assert methods["global_ensemble"]["bar"] == "own"
    assert methods["local"]["gain"] is None


def test_what_does_harm_is_warned_of(capsys: Capture) -> None:
    assert main(["recommend", *FLAGS, "--label-skew", "strong"]) == 0
    warned = capsys.readouterr().out.partition("avoid: ")[2]
    assert "fedsov" in warned or "global_ensemble" in warned, "an equal vote of sites with different classes"


def test_json_has_the_same_and_all_numbers(capsys: Capture) -> None:
    assert main(["recommend", *FLAGS, "--strangers", "--public", "500", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["situation"]["public"] == 500
    assert len(told["use"]) == 3
    gains = [line["gain"] for line in told["use"]]
    assert gains == sorted(gains, reverse=True)
    assert all(line["gain"] > 2 * line["error"] for line in told["use"])
    assert all(line["gain"] < 0 for line in told["avoid"])
    assert {each["data"] for each in told["comparable"]} == {"image"}


def test_a_sites_folder_is_enough(tmp_path: Path) -> None:
    tables = hospital_tables(tmp_path / "rows")
    folder = tmp_path / "cleveland"
    found(folder, tables["cleveland"], tmp_path / "shared")
    out = right("recommend", folder).out
    assert "situation: table rows, 182 rows, 2 classes, label skew not known, 0 public rows" in out, (
        "rare is not skewed"
    )
    out = right("recommend", folder, "--sites", "4", "--label-skew", "mild").out
    assert "2 classes, 4 sites, label skew mild" in out, "what is said goes before what is found"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "no kind of rows"),
        (["--kind", "image", "--own-columns"], "only tables have columns"),
        (["--kind", "table", "--strangers", "--label-skew", "mild"], "meets no strangers"),
        (["nowhere"], "no site's folder"),
        (["--target", "sick", "--kind", "table"], "without a file of rows"),
        (["--kind", "table", "--sites", "1"], "sites is 1: expected at least 2"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_a_sentence(capsys: Capture, arguments: list[str], why: str) -> None:
    assert main(["recommend", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert len(err.strip().splitlines()) == 1
