"""peerwise report: the page, the tables in every format, two runs compared, and everything that cannot be."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pytest
from peer_windows import Done, no_constant, peerwise, refused, right

TINY = ("digits", "--sites", "3", "--rows", "300", "--models", "logistic", "--folds", "2", "--seeds", "1", "-q")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    right("simulate", *TINY, "--methods", "local,peerwise", "--out", root / "a")
    right("simulate", *TINY, "--methods", "local,peerwise", "--set", "peerwise.features=decision", "--out", root / "b")
    return root


def told(runs: Path, *arguments: str | Path) -> Done:
    return right("report", runs / "a", *arguments)


def test_the_tables_are_printed_and_the_page_is_written(runs: Path) -> None:
    (runs / "a" / "report.html").unlink()
    done = told(runs)
    assert done.err == ""
    for title in ("The methods", "Who trusts whom", "Calibration", "One decision opened", "Where it comes from"):
        assert f"\n{title}\n" in done.out
    assert done.out.endswith(f"\nreport: {runs / 'a' / 'report.html'}\n")
    page = (runs / "a" / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "digits, 3 sites, 1 seed" in page
    assert "http-equiv" not in page
    assert 'src="http' not in page


def test_the_page_goes_where_it_is_wanted(runs: Path, tmp_path: Path) -> None:
    done = told(runs, "--out", tmp_path / "deep" / "page.html", "--no-case")
    assert (tmp_path / "deep" / "page.html").is_file()
    assert "One decision opened" not in done.out


def test_the_run_folder_is_all_that_is_needed(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERWISE_DATA", str(tmp_path / "nothing"))
    moved = tmp_path / "moved"
    shutil.copytree(runs / "a", moved)
    same = right("report", moved, "--format", "json").out
    assert same == told(runs, "--format", "json").out


def test_json_has_the_tables_the_sentence_and_where_it_comes_from(runs: Path) -> None:
    found = json.loads(told(runs, "--format", "json").out, parse_constant=no_constant)
    assert {"title", "headline", "notes", "tables", "opened", "provenance"} == set(found)
    assert [row["method"] for row in found["tables"]["methods"]["rows"]] == ["own", "local", "peerwise"]
    assert found["opened"]["method"] == "peerwise"
    alone = json.loads(told(runs, "--format", "json", "--table", "cost").out)
    assert list(alone["tables"]) == ["cost"]


def test_csv_is_one_table_or_a_folder_of_them(runs: Path, tmp_path: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(told(runs, "--format", "csv", "--table", "methods").out)))
    assert [line["method"] for line in lines] == ["own", "local", "peerwise"]
    assert 0 < float(lines[1]["accuracy"]) <= 1
    told(runs, "--format", "csv", "--out", tmp_path / "tables")
    names = {path.stem for path in (tmp_path / "tables").iterdir()}
    assert {"methods", "sites", "trust", "split", "provenance"} <= names
    assert (tmp_path / "tables" / "methods.csv").read_text().splitlines()[0].startswith("method,accuracy,")


def test_markdown_and_latex_go_to_standard_output_or_to_a_file(runs: Path, tmp_path: Path) -> None:
    markdown = told(runs, "--format", "md").out
    assert markdown.startswith("# digits, 3 sites, 1 seed\n")
    assert "### The methods" in markdown
    latex = told(runs, "--format", "latex", "--table", "methods").out
    assert latex.startswith("\\begin{table}")
    assert latex.count("\\begin{table}") == 1
    assert told(runs, "--format", "latex", "--table", "methods", "--out", tmp_path / "t.tex").out == ""
    assert (tmp_path / "t.tex").read_text() == latex


def test_one_table_in_the_terminal_writes_no_page(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "a", tmp_path / "a")
    (tmp_path / "a" / "report.html").unlink(missing_ok=True)
    out = right("report", tmp_path / "a", "--table", "split").out
    assert out.startswith("Which classes are where")
    assert not (tmp_path / "a" / "report.html").exists()


def test_two_runs_are_compared(runs: Path, tmp_path: Path) -> None:
    done = right("report", runs / "a", runs / "b")
    assert done.out.startswith("B against A, on the same ")
    assert "of 3 of 3 sites x seeds" in " ".join(done.out.split())
    assert done.out.endswith(f"report: {runs / 'b' / 'against-a.html'}\n")
    assert "<h1>A: " in (runs / "b" / "against-a.html").read_text(encoding="utf-8")
    found = json.loads(right("report", runs / "a", runs / "b", "--format", "json").out, parse_constant=no_constant)
    assert set(found["tables"]) == {"compared", "places", "differs"}
    rows = right("report", runs / "a", runs / "b", "--format", "csv", "--table", "compared").out.splitlines()
    assert len(rows) == 3


def test_what_cannot_be_is_one_sentence_with_the_remedy(runs: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    shutil.copytree(runs / "a", unfinished)
    (unfinished / "index.json").unlink()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    a = str(runs / "a")
    for arguments, message in (
        ((tmp_path / "lost",), "lost is not there: expected the folder of a run or of a site"),
        ((tmp_path / "empty",), "empty is no run: expected a folder that 'peerwise simulate' wrote"),
        ((tmp_path / "file",), "file is a file: expected the folder of a run"),
        ((unfinished,), "not finished: expected its index.json. Run the same 'peerwise simulate' again"),
        ((a, tmp_path / "lost"), "lost is not there"),
        ((a, "--table", "metods"), "--table: unknown table 'metods': did you mean 'methods'?"),
        ((a, "--format", "csv"), "--format csv holds one table a file: expected --out FOLDER"),
        ((a, "--format", "csv", "--out", tmp_path / "file"), "file is a file: expected a folder"),
        ((a, "--format", "md", "--out", tmp_path / "empty"), "empty is a folder: expected a file"),
        ((a, "--positive", "elephant"), "positive: unknown class 'elephant'"),
        ((a, "--threshold", "2"), "threshold is 2.0: expected a probability"),
    ):
        assert message in refused("report", *arguments), arguments


@pytest.mark.parametrize("arguments", [(), ("x", "--format", "xml"), ("a", "b", "c")])
def test_wrong_arguments_exit_with_2_and_the_usage(arguments: tuple[str, ...]) -> None:
    done = peerwise("report", *arguments)
    assert done.code == 2
    assert "usage: peerwise" in done.err


def test_a_report_that_cannot_be_written_costs_no_results(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "report.html").mkdir(parents=True)
    done = peerwise("simulate", *TINY, "--methods", "local,best_single", "--out", folder)
    assert done.code == 2
    assert "results: " in done.out
    assert "Against what a site has alone: accuracy" in done.out
    assert "the results are complete, but there is no report of them" in done.err
    assert "Traceback" not in done.err
    again = peerwise("simulate", *TINY, "--methods", "local,best_single", "--out", folder, "--format", "json")
    assert again.code == 2
    assert again.told["summary"]


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_folder_that_may_not_be_written_can_still_be_reported_elsewhere(runs: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    shutil.copytree(runs / "a", locked)
    locked.chmod(0o555)
    right("report", locked, "--out", tmp_path / "page.html")
    assert "cannot be written" in peerwise("report", locked).err
