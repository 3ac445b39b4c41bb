"""The study of a thousand peers, in small: rows are shared out once, rankings say what they should, nobody looks at the
test rows before the end."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    for name in ("scale", "scale_peers", "scale_figures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import scale

    return scale


@pytest.fixture
def toy(study: Any) -> tuple[Any, Any]:
    """A site with rows of classes 0 and 1. Peers: one that knows both, one that has only class 0, one that has other
    classes and many rows, and one that takes 0 for 1 and 1 for 0."""
    y = np.arange(250) % 2
    says = np.stack([np.zeros(250, int), y, np.zeros(250, int), np.full(250, 2), 1 - y], axis=1)
    outputs = (0.9 * np.eye(3)[says] + 0.1 / 3).astype(np.float32)
    counts = np.array([[40, 40, 0], [20, 0, 0], [0, 0, 400], [10, 10, 0]])
    probes = np.array([0, 1, 0, 1, 2])
    answers = np.array([probes, np.zeros(5, int), np.full(5, 2), [1, 0, 1, 0, 2]])
    cards = study.Cards(counts, np.array([0.9, 1.0, 1.0, 0.9]), answers)
    return cards, study.Asking(np.zeros((250, 2)), y, outputs, probes)


def test_every_row_has_one_site_and_every_site_a_few_classes(study: Any) -> None:
    from scale_peers import CLASSES_OF_A_SITE, share_out

    y = np.random.default_rng(1).integers(0, 10, 1000)
    parts = share_out(y, np.full(40, 30), np.random.default_rng(0))
    given = np.concatenate(parts)
    assert len(np.unique(given)) == len(given) > 800
    assert all(1 <= len(np.unique(y[rows])) <= CLASSES_OF_A_SITE[1] for rows in parts)


@pytest.mark.parametrize(
    ("how", "first", "last"),
    [
        ("card", 0, 2),
        ("histogram", 0, 2),
        ("rows", 2, None),
        ("sketch, like own", 0, None),
        ("own rows (fetches all)", 0, None),
    ],
)
def test_a_ranking_finds_whom_it_should(study: Any, toy: Any, how: str, first: int, last: int | None) -> None:
    order = study.ranked(how, *toy, "learn", [0]) - 1
    assert sorted(order) == [0, 1, 2, 3]
    assert order[0] == first
    assert last is None or order[-1] == last


def test_a_sketch_counts_the_probes_of_the_sites_own_classes(study: Any, toy: Any) -> None:
    answers = [[0, 1, 0, 1, 2, 2], [0, 1, 0, 1, 0, 0], [0, 1, 0, 0, 2, 2], [1, 0, 1, 0, 2, 2], [0, 1, 0, 1, 1, 2]]
    cards = study.Cards(np.ones((5, 3)), np.ones(5), np.array(answers))
    assert study.by_consensus(cards, toy[1], "learn", None).tolist() == [1, 1, 0.75, 0, 1]


def test_claims_and_cards_do_not_tell_the_twisted_model_but_own_rows_do(study: Any, toy: Any) -> None:
    kept = study.kept(toy[1].outputs[:100], toy[1].y[:100], 4)
    assert kept[0] == 1
    assert kept.index(4) > kept.index(2)
    assert study.by_card(*toy, "learn", None)[3] > study.by_card(*toy, "learn", None)[2]


def test_few_have_a_say(study: Any) -> None:
    trust, says = np.array([[0.4, 0.3, 0.3], [0.2, 0.2, 0.6]]), np.array([[0, 1, 1], [1, 1, 0]])
    assert study.said_by(trust, says, 1).tolist() == [0, 0]
    assert study.said_by(trust, says, 3).tolist() == [1, 0]


@pytest.fixture
def small(study: Any) -> Any:
    return study.federation(10, 2, 0, "digits")


def test_nothing_is_chosen_on_the_test_rows(study: Any, small: Any) -> None:
    cards, (site, _) = small
    test = site.rows("test")
    y, outputs = site.y.copy(), site.outputs.copy()
    y[test], outputs[test] = 0, outputs[test][::-1]
    other = replace(site, y=y, outputs=outputs)
    for how in study.RANKINGS:
        assert np.array_equal(
            study.ranked(how, cards, site, "learn", [0]), study.ranked(how, cards, other, "learn", [0])
        )
    answers = [
        study.Judge(each, "test").fitted([1, 2, 3]).trust_outputs(site.outputs[:9, :4], site.X[:9])
        for each in (site, other)
    ]
    assert np.array_equal(*answers)


def test_the_own_model_is_out_of_fold_where_it_was_trained(study: Any, small: Any) -> None:
    site = small[1][0]
    from scale_peers import TRAIN, logistic, said

    seen = said(logistic(site.X[:TRAIN], site.y[:TRAIN]), site.X, 10)
    assert not np.allclose(site.outputs[:TRAIN, 0], seen[:TRAIN])
    assert np.allclose(site.outputs[TRAIN:, 0], seen[TRAIN:])


def test_the_study_runs_and_goes_on_where_it_stopped(study: Any, tmp_path: Path, capsys: Any) -> None:
    study.FETCHED, study.ASKED, study.KEPT_OF = (1, 4), (1, 4), 8
    asked = ["--dataset", "digits", "--peers", "10", "--asking", "2", "--seeds", "0", "--out", str(tmp_path)]
    study.main([*asked, "--plot", str(tmp_path / "scale.png")])
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
    files = sorted(tmp_path.glob("*.csv"))
    assert len(files) == 2
    lines = pd.concat([pd.read_csv(file) for file in files])
    assert set(lines["how"]) >= {*study.RANKINGS, "own model", "all", "kept of 8", "kept of 10", "cascade"}
    assert lines["right"].between(0, 1).all()
    page = capsys.readouterr().out
    assert all(how in page for how in study.RANKINGS)
    before = [file.stat().st_mtime_ns for file in files]
    study.main(asked)
    assert [file.stat().st_mtime_ns for file in files] == before
