"""The commands of a site in a real federation, from the first to the last: what each of them says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from peer_windows import Done, fewer_rows, found, hospital_tables, join, peerwise, refused, right

from peerwise.cli import VERBS, parser_for

OF_A_SITE = [name for name, (module, _) in VERBS.items() if module.startswith("peer.")]
WIDEST = 100


@dataclass(frozen=True)
class Way:
    """Two hospitals that went all the way; ``said`` what the commands of one of them have printed."""

    root: Path
    tables: dict[str, Path]
    said: dict[str, Done]

    @property
    def north(self) -> Path:
        return self.root / "cleveland"

    @property
    def south(self) -> Path:
        return self.root / "hungarian"


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    root = tmp_path_factory.mktemp("federation")
    tables = hospital_tables(root / "rows")
    north, south = root / "cleveland", root / "hungarian"
    join(south, tables["hungarian"], north, found(north, tables["cleveland"], root / "shared"))
    said = {"before": right("status", "--folder", north)}
    for verb in ("train", "preview", "publish"):
        said[verb] = right(verb, "--folder", north)
        right(verb, "--folder", south)
    said["pull"] = right("pull", "--folder", north)
    said["waiting"] = right("status", "--folder", north)
    said["review"] = right("review", "--folder", north)
    said["alone"] = right("fit", "--folder", north)
    said["accept"] = right("accept", "hungarian", "--why", "adds what we miss", "--folder", north)
    said["accepted"] = right("status", "--folder", north)
    said["fit"] = right("fit", "--folder", north)
    said["predict"] = right("predict", tables["switzerland"], "--explain", "20", "--folder", north)
    said["doctor"] = right("doctor", "--folder", north)
    said["status"] = right("status", "--folder", north)
    return Way(root, tables, said)


def test_every_step_says_what_comes_next(way: Way) -> None:
    assert "published: -" in way.said["before"].out
    assert "due: nothing is published: run 'peerwise preview', then 'peerwise publish'." in way.said["before"].out
    assert "next: peerwise review" in way.said["pull"].out
    assert "due: waiting for a decision: hungarian" in way.said["waiting"].out
    assert "next: peerwise accept hungarian --why TEXT" in way.said["review"].out
    assert "next: peerwise fit" in way.said["accept"].out
    assert "due: a refit is due: hungarian is new. Run 'peerwise fit'." in way.said["accepted"].out
    assert "due" not in way.said["status"].out


def test_train_says_how_good_each_model_is(way: Way) -> None:
    assert re.search(r"^\d+ train, \d+ validation, \d+ test rows$", way.said["train"].out, re.M)
    assert re.search(r"^logistic +\d+\.\d % +\d+\.\d % +\d+\.\d kB$", way.said["train"].out, re.M)


def test_preview_shows_every_file_the_card_and_to_whom(way: Way) -> None:
    out = way.said["preview"].out
    assert "would go to: hungarian" in out
    assert re.search(r"models/logistic +model +\d+\.\d kB +sha256 [0-9a-f]{16}", out)
    assert "logistic     holds no training row" in out
    assert "rows      100-499" in out


def test_review_says_what_a_model_adds_and_review_of_one_site_shows_its_card(way: Way) -> None:
    out = way.said["review"].out
    assert re.search(r"^on validation rows: own models \d+\.\d %, wrong on \d+ of \d+$", out, re.M)
    assert re.search(r"^logistic@hungarian +0\.\d+ +\d+\.\d % +\d+ of \d+ +\d+\.\d kB", out, re.M)
    assert "not decided" in out
    one = right("review", "hungarian", "--folder", way.north).out
    assert "licence   not stated" in one
    assert "accepted by" in one
    assert "adds what we miss" in one


def test_fit_says_plainly_whether_it_beats_the_own_models(way: Way) -> None:
    assert "no peer's models are accepted: the own models answer" in way.said["alone"].out
    out = way.said["fit"].out
    verdict = re.search(r"^with peers it is (better than|as good as|WORSE than) the own models: (.*)$", out, re.M)
    assert verdict is not None
    assert re.fullmatch(r"\d+ of \d+ cases gained, \d+ lost", verdict[2])
    assert "peers: hungarian" in out
    figures = right("fit", "--folder", way.north, "--format", "json").told["validation"]
    better = figures["ours"] > figures["own"]
    assert ("better" in figures["verdict"]) == better == ("better" in verdict[1])


def test_predict_names_for_each_row_whom_to_trust(way: Way) -> None:
    header, *rows = way.said["predict"].out.splitlines()
    assert header.split() == ["row", "answer", "p", "sure?", "trust", "note"]
    rows, rest = rows[:20], " ".join(rows[20:])
    column = header.index("trust")
    for row in rows:
        assert re.match(r"\d+ +(disease|healthy) +[01]\.\d\d +(sure|unsure) +(own|hungarian) [01]\.\d\d", row)
        assert row[column - 1] == " " != row[column]
    assert any("own" in row for row in rows)
    assert any("hungarian" in row for row in rows)
    unsure = sum(row.split()[3] == "unsure" for row in rows)
    assert (f"unsure ({unsure} of 20): both " in rest) == bool(unsure)
    assert re.search(
        r"at 90 %: \d+ of \d+ sure answers? to cases with a known outcome (was|were) wrong; \d+ of \d+ unsure", rest
    )


def test_answers_of_all_rows_go_to_a_file_and_are_counted_as_the_printed_ones(way: Way, tmp_path: Path) -> None:
    arguments = ("predict", way.tables["switzerland"], "--folder", way.north, "--out", tmp_path / "answers.csv")
    done = right(*arguments)
    assert done.out == ""
    assert "123 answers" in done.err
    told = right("predict", way.tables["switzerland"], "--folder", way.north, "--format", "json").told
    table = pd.read_csv(tmp_path / "answers.csv")
    assert table["row"].tolist() == list(range(1, 124)) == [row["row"] for row in told["rows"]]
    assert table["answer"].tolist() == [row["answer"] for row in told["rows"]]
    assert table["unsure"].tolist() == [row["unsure"] for row in told["rows"]]
    assert table["set"].tolist() == ["; ".join(row["set"]) for row in told["rows"]]
    assert (table["unsure"] == table["set"].str.contains("; ")).all()
    assert table[["trust_cleveland", "trust_hungarian"]].sum(axis=1).tolist() == pytest.approx([1] * 123, abs=1e-4)
    shown = right(*arguments, "--explain", "2").out.splitlines()
    assert [line.split()[0] for line in shown[:3]] == ["row", "1", "2"]
    assert not shown[3].startswith("3 ")


def test_another_level_is_another_verdict_and_an_impossible_one_is_refused(way: Way) -> None:
    arguments = ("predict", way.tables["switzerland"], "--folder", way.north, "--format", "json", "--level")
    unsure = [sum(row["unsure"] for row in right(*arguments, level).told["rows"]) for level in ("0.6", "0.98")]
    assert unsure[0] < unsure[1]
    assert right(*arguments, "0.6").told["level"] == 0.6
    assert "expected a share from 0.5 to 0.999" in refused(*arguments, "2")


def test_trust_in_json_is_by_site_and_sums_to_one(way: Way) -> None:
    arguments = ("predict", way.tables["switzerland"], "--folder", way.north, "--explain", "5", "--format", "json")
    told = right(*arguments).told
    assert set(told) == {"site", "classes", "own_models_answer", "level", "calibration_rows", "sets", "record", "rows"}
    for row in told["rows"][:5]:
        assert sum(row["trust"].values()) == pytest.approx(1)
        assert set(row["trust"]) <= {"cleveland", "hungarian"}
        assert row["p"] == max(row["probabilities"])
    assert "trust" not in told["rows"][5]


def test_doctor_looks_at_everything_and_wraps_its_lines(way: Way) -> None:
    told = right("doctor", "--folder", way.north, "--format", "json").told
    looked_at = {check["what"] for check in told}
    assert looked_at >= {"keys", "clock", "policy", "disk", "task", "rows", "ledger", "members", "isolation", "peers"}
    assert {check["verdict"] for check in told} <= {"ok", "warning"}
    assert ("peers", "ok", "hungarian can be reached") in [tuple(check.values()) for check in told]


def test_tables_fit_a_terminal(way: Way) -> None:
    for verb, done in way.said.items():
        assert max(map(len, done.out.splitlines()), default=0) <= WIDEST, f"{verb}:\n{done.out}"


@pytest.mark.parametrize("verb", ["train", "preview", "publish", "pull", "review", "fit", "doctor", "status"])
def test_json_alone_is_on_standard_output(way: Way, verb: str) -> None:
    done = right(verb, "--folder", way.north, "--format", "json")
    assert done.told
    assert right(verb, "--folder", way.north, "--format", "json", "-q").err == ""


def test_a_newer_version_follows_and_status_says_that_a_refit_is_due(tmp_path: Path) -> None:
    tables = hospital_tables(tmp_path / "rows")
    north, south = tmp_path / "cleveland", tmp_path / "hungarian"
    rows = fewer_rows(tables["hungarian"], tmp_path / "south.csv", 150)
    join(south, rows, north, found(north, tables["cleveland"], tmp_path / "shared"))
    first = right("publish", "--folder", south, "--format", "json").told["version"]
    right("pull", "--folder", north)
    right("accept", "hungarian", "--why", "good", "--folder", north)
    right("fit", "--folder", north)
    fewer_rows(tables["hungarian"], rows, 250)
    second = right("publish", "--folder", south, "--format", "json").told["version"]
    assert second > first
    assert "is new: logistic" in right("pull", "--folder", north).out
    said = right("status", "--folder", north).out
    assert re.search(r"due: a refit is due: hungarian has a new version \(.*\)\. Run 'peerwise fit'\.", said)
    shown = re.search(r"hungarian +version (\S+) accepted", said)
    assert shown is not None
    done = right("refuse", "hungarian", "--version", shown[1], "--why", "few", "--folder", north, "--format", "json")
    assert (done.told["version"], done.told["decided"]) == (second, "refused")
    assert "may no longer be used" in right("status", "--folder", north).out
    done = right("withdraw", "--why", "a patient objected", "--folder", south, "--format", "json")
    assert done.told["why"] == "a patient objected"
    assert "withdrawn: a patient objected" in right("pull", "--folder", north).out
    assert right("status", "--folder", north, "--format", "json").told["peers"] == []


@pytest.mark.parametrize("verb", OF_A_SITE)
def test_help_shows_an_example_that_is_understood(verb: str) -> None:
    done = peerwise(verb, "--help")
    assert done.code == 0
    examples = done.out.partition("example:\n")[2].replace("\\\n", " ").splitlines()
    assert examples
    for example in examples:
        _, *arguments = (part.strip('"') for part in re.findall(r'"[^"]*"|\S+', example))
        assert arguments[0] == verb
        parser_for(arguments).parse_args(arguments)
        if verb != "init":
            assert set(vars(parser_for(arguments).parse_args(arguments))) >= {"folder", "format", "quiet"}
