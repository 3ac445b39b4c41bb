"""A real site's report: of its validation rows alone, and without a row of them in what `fit` keeps."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from hospitals import Hospitals

from peerwise.cli import main
from peerwise.errors import PeerwiseError
from peerwise.metrics import accuracy
from peerwise.models.worker import Worker
from peerwise.parcels import Store
from peerwise.report import Story, story_from
from peerwise.run.peer import fit, outbox, publish, pull
from peerwise.run.peer.record import site_run
from peerwise.run.score import answers_of

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory, worker: Worker) -> tuple[Path, dict[str, object]]:
    names = ["cleveland", "hungarian", "switzerland"]
    hospitals = Hospitals(tmp_path_factory.mktemp("hospitals"), names, method="peerwise", models=["logistic"])
    hospitals.begin()
    for name in names:
        publish(hospitals.peer(name), outbox(hospitals.peer(name)))
    pull(hospitals.peer("cleveland"), outbox(hospitals.peer("cleveland")), worker)
    return hospitals.folder / "cleveland", fit(hospitals.peer("cleveland"), worker, use_peers=True)


@pytest.fixture(scope="module")
def story(fitted: tuple[Path, dict[str, object]]) -> Story:
    return story_from(fitted[0])


def test_its_figures_are_those_that_fit_has_told(fitted: tuple[Path, dict[str, object]], story: Story) -> None:
    told = fitted[1]["validation"]
    assert isinstance(told, dict)
    tree = story.run.predictions[0, "peerwise", "cleveland"]
    assert len(tree["y"]) == told["rows"]
    assert story.found.methods.loc["peerwise", "accuracy"] == told["accuracy"]
    assert story.found.methods.loc["local", "accuracy"] == told["own_accuracy"]
    assert accuracy(tree["y"], tree["details"]["own"].argmax(axis=1)) == told["own_accuracy"]
    line = story.found.sites.set_index("method").loc["peerwise"]
    assert (line["only_ours"], line["only_own"]) == (told["gained"], told["lost"])


def test_it_says_that_these_are_validation_rows_and_that_it_must_stay(story: Story) -> None:
    assert story.is_site
    rows = len(next(iter(story.run.predictions.values()))["y"])
    assert story.notes[0].startswith(f"these are the {rows} validation rows of cleveland")
    assert any("must stay there" in note for note in story.notes)
    assert "validation rows" in story.headline
    assert not any("test rows" in sheet.about for sheet in story.sheets.values())
    assert "home" not in story.sheets, "a site does not know the classes of others"
    assert [row[0].text for row in story.sheets["trust"].rows] == ["cleveland"]
    assert story.found.settings["positive"] == "disease"


def test_the_case_is_opened_by_what_has_not_learned_from_it(story: Story) -> None:
    opened = story.opened
    assert opened is not None
    tree = story.run.predictions[0, "peerwise", "cleveland"]
    row = opened["row"]
    assert opened["part"] == "validation"
    answers = answers_of(tree)
    assert opened["answer"] == story.run.classes[int(answers[row])]
    trust = dict(zip(tree["details"]["models"], tree["details"]["trust"][row], strict=True))
    assert all(abs(say["trust"] - trust[say["name"]]) < 1e-6 for say in opened["models"])
    changed = answers != tree["details"]["own"].argmax(axis=1)
    assert not changed.any() or row == int(changed.argmax())
    assert set(opened["values"]) == set(story.run.features)


def test_no_row_is_in_what_is_kept(fitted: tuple[Path, dict[str, object]]) -> None:
    kept = Store(fitted[0] / "bundle").load("record")
    assert "values" not in kept["opened"]
    assert "image" not in kept["opened"]
    assert {key for key, value in kept.items() if isinstance(value, np.ndarray)} == {"y", "ours", "own", "label_counts"}


def test_a_bundle_alone_has_a_report_without_the_values(fitted: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    shutil.copytree(fitted[0] / "bundle", tmp_path / "bundle")
    alone = story_from(tmp_path / "bundle")
    assert alone.opened is not None
    assert alone.opened["values"] == {}
    assert not any("must stay" in note for note in alone.notes)
    assert site_run(fitted[0], case=False)[0].opened is None


def test_rows_that_have_changed_since_are_not_shown_as_the_case(
    fitted: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    shutil.copytree(fitted[0].parent, tmp_path / "all")
    rows = tmp_path / "all" / "cleveland.csv"
    rows.write_text("\n".join(rows.read_text().splitlines()[:-40]) + "\n")
    site = tmp_path / "all" / "cleveland"
    text = (site / "peerwise.toml").read_text()
    (site / "peerwise.toml").write_text(text.replace(str(fitted[0].parent), str(tmp_path / "all")))
    assert (story_from(site).opened or {})["values"] == {}


@pytest.mark.parametrize("how", ["no record", "damaged", "another fit", "no bundle"])
def test_a_record_that_is_not_of_the_bundle_is_refused(
    fitted: tuple[Path, dict[str, object]], tmp_path: Path, how: str
) -> None:
    site = tmp_path / "site"
    shutil.copytree(fitted[0], site)
    record = site / "bundle" / "record.json"
    if how == "no record":
        record.unlink()
    elif how == "damaged":
        record.write_bytes(record.read_bytes()[:200])
    elif how == "another fit":
        tree = json.loads(record.read_text())
        tree["body"]["report"]["peers"] = {}
        record.write_text(json.dumps(tree))
    else:
        shutil.rmtree(site / "bundle")
    with pytest.raises(PeerwiseError, match="fit"):
        story_from(site)


def test_fit_ends_with_a_report_that_is_its_owners_alone(
    fitted: tuple[Path, dict[str, object]], capsys: Capture
) -> None:
    site = fitted[0]
    assert main(["fit", "--folder", str(site), "-q"]) == 0
    assert capsys.readouterr().out.endswith(f"\nreport: {site / 'report.html'}\n")
    page = site / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "must stay there" in page.read_text(encoding="utf-8")
    assert main(["fit", "--folder", str(site), "-q", "--no-case", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["validation"]
    assert "must stay there" not in page.read_text(encoding="utf-8")
    assert main(["report", str(site)]) == 0
    assert "The methods" in capsys.readouterr().out
