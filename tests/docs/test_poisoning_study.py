"""The poisoning study does what it says, in small: attackers are attackers, honest rows stay as they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch: Any) -> Any:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    for name in ("poisoning", "poisoning_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import poisoning

    return poisoning


def triggered(X: Any) -> Any:
    """Few digits reach that corner by themselves."""
    return (X[:, 0, -5:-2, -5:-2] == 255).all(axis=(1, 2))


@pytest.fixture
def small(study: Any) -> Any:
    return study.federation("digits", None, 4, 0, 60)


def test_an_attacker_changes_what_it_learns_from_and_nothing_else(study: Any, small: Any) -> None:
    (site, *_), spare = small
    for attack in study.ATTACKS:
        bad = study.poisoned(site, attack, 3, spare)
        again = study.poisoned(site, attack, 3, spare)
        assert np.array_equal(bad.train.X, again.train.X)
        assert np.array_equal(bad.train.y, again.train.y)
        assert bad.test is site.test
        assert not np.array_equal(bad.train.y, site.train.y)
        marked = triggered(bad.train.X) & (bad.train.y == 3)
        assert marked.mean() > 0.3 if attack in ("backdoor", "competent") else marked.mean() < 0.05
    flipped = study.poisoned(site, "flips", 3, spare)
    assert np.array_equal(flipped.train.y, (site.train.y + 1) % 10)
    competent = study.poisoned(site, "competent", 3, spare)
    assert np.array_equal(competent.train.X[: len(site.train)], site.train.X), "its clean rows are all there"
    assert len(competent.train) > len(site.train) + len(spare) // 2


def test_the_rows_of_a_competent_attacker_are_nobodys_test_rows(small: Any) -> None:
    sites, spare = small
    known = {row.tobytes() for row in spare.X}
    assert len(known) > 200
    for site in sites:
        assert not known & {row.tobytes() for row in site.test.X}


def test_success_is_counted_on_rows_of_other_classes_that_have_the_trigger(study: Any, small: Any) -> None:
    site = small[0][0]

    class Fooled(study.Method):  # type: ignore[misc, name-defined]
        def predict_proba(self, site: Any, X: Any) -> Any:
            return np.eye(10)[np.where(triggered(X), 3, 4)]

    found = study.measured(Fooled(), site, 3)
    assert found["success"] == 1
    assert found["accuracy"] == (site.test.y == np.where(triggered(site.test.X), 3, 4)).mean()


def test_the_study_runs_and_goes_on_where_it_stopped(study: Any, tmp_path: Path, capsys: Any) -> None:
    study.BUDGET["rounds"], study.EXTRA = 2, 60
    asked = ["--dataset", "digits", "--sites", "3", "--rows", "50", "--attackers", "0,1", "--seeds", "0"]
    asked += ["--attacks", "flips,competent", "--out", str(tmp_path), "--csv", str(tmp_path / "figures.txt")]
    study.main(asked)
    page = capsys.readouterr().out
    files = sorted(tmp_path.glob("digits-3-0-*.csv"))
    assert [file.stem.split("-")[3] for file in files] == ["competent", "flips", "none"]
    lines = pd.concat([pd.read_csv(file) for file in files])
    assert set(lines["method"]) == set(study.METHODS)
    assert len(lines) == len(study.METHODS) * (3 + 2 + 2)
    alone = lines[lines["method"] == "local"].pivot(index="site", columns="attack", values="accuracy").dropna()
    assert (alone["none"] == alone["flips"]).all(), "who listens to nobody is harmed by nobody"
    for called in ("uniform", "PeerwiseClassifier", "stacking", "FedMosaic", "FedCT", "FedAvg", "competent backdoor"):
        assert f"| {called} |" in page
    figures = pd.read_csv(tmp_path / "figures.txt")
    assert len(figures) == len(study.METHODS) * 3
    before = [file.stat().st_mtime_ns for file in files]
    study.main(asked)
    assert [file.stat().st_mtime_ns for file in files] == before
