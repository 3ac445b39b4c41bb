"""A finished run read back from its folder alone, and folders that hold none."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.data import Dataset, load
from peerwise.errors import ConfigError, PeerwiseError
from peerwise.run import Run, load_run, simulate
from peerwise.run.provenance import bare, work_sessions

TINY: dict[str, Any] = {"models": ["logistic"], "folds": 2, "methods": ["local", "peerwise", "best_single"], "seeds": 2}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("run") / "heart"
    return simulate("heart_disease", out=folder, subgroup="sex", method={"peerwise": {"k": 3}}, **TINY), folder


def same(first: Any, second: Any) -> bool:
    """Alike down to the last number, and of the same type."""
    if isinstance(first, dict):
        return (
            isinstance(second, dict) and first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
        )
    if isinstance(first, np.ndarray):
        return isinstance(second, np.ndarray) and first.dtype == second.dtype and np.array_equal(first, second)
    return bool(first == second)


def test_a_run_read_back_is_the_one_that_was_returned(kept: tuple[Run, Path]) -> None:
    run, folder = kept
    again = load_run(folder)
    pd.testing.assert_frame_equal(again.results, run.results)
    assert again.experiment == run.experiment
    assert list(again.predictions) == list(run.predictions)
    assert all(same(again.predictions[place], tree) for place, tree in run.predictions.items())
    assert (again.classes, again.features, again.kind) == (run.classes, run.features, run.kind)
    assert again.opened == run.opened
    assert list((again.opened or {})["values"]) == list(run.features), "in the order of the table"
    assert again.provenance == run.provenance


def test_the_results_file_can_be_made_again_from_the_rest(kept: tuple[Run, Path]) -> None:
    folder = kept[1]
    written = pd.read_parquet(folder / "results.parquet")
    pd.testing.assert_frame_equal(load_run(folder).results, written, check_dtype=False)


def test_no_data_set_is_needed(tmp_path: Path) -> None:
    """Neither one at hand nor a file that has gone since."""
    rows = tmp_path / "rows.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90), "ill": ["no", "yes", "no"] * 30})
    frame.to_csv(rows, index=False)
    settings: dict[str, Any] = {"options": {"target": "ill"}, "sites": 2, "models": ["logistic"], "seeds": 1}
    run = simulate(rows, out=tmp_path / "run", methods=["local"], **settings)
    rows.unlink()
    again = load_run(tmp_path / "run")
    assert again.experiment == run.experiment
    assert again.experiment.dataset == str(rows)
    assert str(tmp_path) not in json.dumps(again.provenance), "where a file lay is nobody's business"
    assert again.provenance["data"]["name"] in ("rows", "rows.csv")


def test_a_data_set_at_hand_leaves_its_class_names(tmp_path: Path) -> None:
    whole = load("digits")
    few = Dataset("few", "table", whole.X[:200], whole.y[:200] % 2, ("<b>&", "=cmd()"))
    simulate(few, out=tmp_path / "run", sites=2, models=["logistic"], methods=["local"], seeds=1)
    assert load_run(tmp_path / "run").classes == ("<b>&", "=cmd()")


def test_running_again_keeps_what_was_noted_when_the_numbers_were_made(kept: tuple[Run, Path], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept[1], folder)
    index = json.loads((folder / "index.json").read_text())
    index["body"]["provenance"]["python"] = "CPython 3.11.0"
    (folder / "index.json").write_text(json.dumps(index))
    again = simulate(kept[0].experiment, out=folder)
    assert again.provenance["python"] == "CPython 3.11.0"
    assert len(again.provenance["sessions"]) == 1
    more = simulate(kept[0].experiment, out=folder, seeds=3)
    assert more.provenance["python"] != "CPython 3.11.0"
    assert len(more.provenance["sessions"]) == 2
    assert load_run(folder).provenance == more.provenance


def test_provenance_says_what_is_needed_and_nothing_private(kept: tuple[Run, Path]) -> None:
    found = kept[0].provenance
    assert found["packages"]["numpy"] == np.__version__
    assert found["seeds"] == [0, 1]
    assert found["configuration"]["method"] == {"peerwise": {"k": 3}}
    assert len(found["data"]["sha256"]) == len(found["sha256"]["split.json"]) == 64
    assert found["sessions"][0]["workers"] == 1
    assert found["cores"] >= 1
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    if head.returncode == 0:  # in a checkout, which says what the numbers were made with
        assert head.stdout.startswith(found["commit"].rstrip("+"))
    text = json.dumps(found)
    for private in (str(kept[1]), str(Path.home()), "/tmp"):
        assert private not in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [("C:\\Users\\ann\\ward.csv", "ward.csv"), ("~/ward.csv", "ward.csv"), ("data/ward.csv", "data/ward.csv"),
     ({"a": ["/x/y"]}, {"a": ["y"]}), (3, 3)],
)  # fmt: skip
def test_paths_lose_where_they_lead_to(value: Any, expected: Any) -> None:
    assert bare(value) == expected


def test_a_session_that_did_nothing_is_none() -> None:
    events = [{"time": 0.0, "event": "start", "workers": 2}, {"time": 4.0, "event": "predicted"},
              {"time": 5.0, "event": "end"}, {"time": 9.0, "event": "start"},
              {"time": 9.5, "event": "end"}]  # fmt: skip
    assert work_sessions(events) == [
        {"started": "1970-01-01 00:00:00", "ended": "1970-01-01 00:00:04", "workers": 2, "seconds": 4.0}
    ]


def spoiled(folder: Path, how: str) -> None:
    if how == "no index":
        (folder / "index.json").unlink()
    elif how == "half an index":
        (folder / "index.json").write_bytes((folder / "index.json").read_bytes()[:100])
    elif how == "old index":
        index = json.loads((folder / "index.json").read_text())
        index["body"]["format"] = 0
        (folder / "index.json").write_text(json.dumps(index))
    elif how == "begun again":
        text = (folder / "config.toml").read_text()
        (folder / "config.toml").write_text(text.replace("seeds = 2", "seeds = 5"))
    elif how == "results changed":
        (folder / "results.parquet").write_bytes(b"x")
    elif how == "split lost":
        (folder / "split.json").unlink()
    elif how == "answers damaged":
        for file in (folder / "predictions").glob("*"):
            file.write_bytes(b"x")
    else:
        (folder / "config.toml").unlink()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no index", "holds a run that is not finished"),
        ("half an index", "index.json is damaged"),
        ("old index", "another Peerwise"),
        ("begun again", "is not finished"),
        ("results changed", "results.parquet was changed"),
        ("split lost", "split.json is not there"),
        ("answers damaged", "Remove that file"),
        ("no configuration", "is no run"),
    ],
)
def test_a_folder_that_is_no_finished_run_is_refused_with_the_remedy(
    kept: tuple[Run, Path], tmp_path: Path, how: str, said: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept[1], folder)
    spoiled(folder, how)
    with pytest.raises(PeerwiseError, match=said) as told:
        load_run(folder)
    assert "simulate" in str(told.value)


@pytest.mark.parametrize("how", ["no index", "half an index", "old index", "begun again", "results changed"])
def test_running_again_mends_it(kept: tuple[Run, Path], tmp_path: Path, how: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept[1], folder)
    spoiled(folder, how)
    simulate(kept[0].experiment, out=folder)
    pd.testing.assert_frame_equal(load_run(folder).results, kept[0].results)


def test_a_folder_that_is_not_there_or_empty_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not there"):
        load_run(tmp_path / "lost")
    with pytest.raises(ConfigError, match="is no run"):
        load_run(tmp_path)
