"""A whole report of a real run: every table is there, says the same as the numbers, and survives odd names."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_runs import NASTY_SITES, heart, nasty

from peerwise.evaluate import assess
from peerwise.report import Story, story_from, story_of, write_page
from peerwise.report.written import FORMATS, as_csv, as_plain
from peerwise.run import Run, simulate

ALWAYS = ["methods", "sites", "right", "own", "own_balanced", "cost", "trust", "home", "ensemble", "trusts",
          "probabilities", "calibration", "opened", "neighbours", "split", "tests", "settings",
          "provenance"]  # fmt: skip


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("heart")
    heart(folder / "run")
    return story_from(folder / "run")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("odd")
    nasty(folder / "run")
    return story_from(folder / "run")


def test_every_table_is_there_in_the_order_of_reading(story: Story) -> None:
    assert list(story.sheets) == ALWAYS
    assert story.title == "heart_disease, 4 sites, 2 seeds"
    assert "peerwise" in story.headline
    for sheet in story.sheets.values():
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
        assert len({column.key for column in sheet.columns}) == len(sheet.columns), "a program needs different keys"


def test_the_methods_table_says_what_the_assessment_found(story: Story) -> None:
    rows = {row["method"]: row for row in as_plain(story.sheets["methods"])["rows"]}
    found = story.found.methods.loc["peerwise"]
    assert rows["peerwise"]["accuracy"] == found["accuracy"]
    assert rows["peerwise"]["accuracy_worst"] == found["accuracy_worst"]
    assert rows["peerwise"]["accuracy_gain_low"] == found["accuracy_gain_low"]
    assert rows["peerwise"]["no_worse_of"] == 8
    assert rows["peerwise"]["no_worse_at"] == round((1 - found["accuracy_losses"]) * 8)
    assert rows["peerwise"]["bytes_sent"] == found["bytes_sent"]
    assert rows["local"]["accuracy_over_own"] is None
    assert rows["peerwise"]["seconds"] > rows["local"]["seconds"] * 0.5 > 0


def test_the_tables_behind_the_pictures_add_up(story: Story) -> None:
    plain = {key: as_plain(sheet)["rows"] for key, sheet in story.sheets.items()}
    for row in plain["trust"]:
        assert sum(value for key, value in row.items() if key != "site") == pytest.approx(1)
    tested = sum(len(t["y"]) for (_, m, _), t in story.run.predictions.items() if m == "peerwise")
    assert sum(row["rows"] for row in plain["calibration"] if row["method"] == "peerwise") == tested
    right = sum(row["rows"] * row["accuracy"] for row in plain["calibration"] if row["method"] == "peerwise")
    answers = [t for (_, m, _), t in story.run.predictions.items() if m == "peerwise"]
    assert right == pytest.approx(sum((t["probabilities"].argmax(axis=1) == t["y"]).sum() for t in answers))
    for row in plain["split"]:
        assert row["healthy"] + row["disease"] == row["train_rows"]
    assert len(plain["home"]) == 4 * 2 * 2
    assert f"rho {story.found.methods.loc['peerwise', 'home_spearman']:.2f}" in story.sheets["home"].about
    assert plain["ensemble"][-1]["size_mean"] == pytest.approx(
        np.mean(np.concatenate([(t["details"]["trust"] > 0).sum(axis=1) for t in answers]))
    )
    assert [row["site"] for row in plain["sites"]] == ["cleveland", "hungarian", "long_beach", "switzerland"]


def test_subgroups_and_rounds_have_tables_where_there_are_any(odd: Story, tmp_path: Path) -> None:
    assert [row[0].text for row in odd.sheets["subgroups"].rows] == sorted(NASTY_SITES * 2)
    run = simulate("digits", rows=240, sites=2, models=["mlp"], methods=["local_rounds", "fedavg"], seeds=1,
                   training={"rounds": 2, "local_epochs": 1})  # fmt: skip
    story = story_of(run, assess(run))
    rounds = [row["round"] for row in as_plain(story.sheets["curves"])["rows"] if row["method"] == "fedavg"]
    assert rounds == [0, 1]
    assert "opened" not in story.sheets
    assert "trust" not in story.sheets


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_odd_names_stay_names_on_the_page_and_in_every_format(odd: Story, tmp_path: Path) -> None:
    page = write_page(odd, tmp_path / "report.html").read_text(encoding="utf-8")
    read = Tags()
    read.feed(page)
    assert "script" not in read.tags
    assert "b" not in read.tags
    assert NASTY_SITES[0] in "".join(read.text)
    assert len(page.encode()) < 1_000_000
    for sheet in odd.sheets.values():
        for written in FORMATS.values():
            assert "<script>" not in written(sheet)
        assert not re.search(r'(^|,)"?[=@]', as_csv(sheet), re.MULTILINE), sheet.key
        json.dumps(as_plain(sheet), allow_nan=False)


def test_a_report_without_its_case_holds_none(story: Story, tmp_path: Path) -> None:
    assert story.run.folder is not None
    without = story_from(story.run.folder, case=False)
    assert without.opened is None
    assert "opened" not in without.sheets


@pytest.mark.parametrize("settings", [
    {"methods": ["peerwise"]},
    {"methods": ["local"]},
    {"methods": ["local", "centralised"], "seeds": 1},
    {"methods": ["local", "best_single"], "test": "common"},
])  # fmt: skip
def test_runs_with_little_to_say_have_a_report_too(settings: dict[str, object], tmp_path: Path) -> None:
    run: Run = heart(tmp_path / "run", **settings)
    story = story_of(run, assess(run))
    assert story.headline.endswith(".")
    assert write_page(story, tmp_path / "report.html").stat().st_size > 10_000
