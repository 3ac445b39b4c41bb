"""The stacking study measures what it says: labels that nobody can know are known only where test rows have leaked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch: Any) -> Any:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    for name in ("stacking", "stacking_data"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import stacking

    return stacking


def registers_of_the_same_persons(study: Any) -> Any:
    """Three sites, each with five of six columns, and labels thrown by a coin."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 6)).astype(np.float32), rng.integers(0, 2, 300)
    rows = np.arange(300)
    members = [study.Member(f"s{place}", rows, np.delete(np.arange(6), place)) for place in range(3)]
    return study.Federation(X, y, np.ones(6, dtype=bool), members)


def test_a_coin_is_foreseen_with_the_papers_protocol_and_not_with_ours(study: Any) -> None:
    fed = registers_of_the_same_persons(study)
    leaky, _ = study.run(fed, "paper", seed=0, sizes=study.FAST)
    clean, edges = study.run(fed, "ours", seed=0, sizes=study.FAST)
    assert leaky["own_80"].mean() == pytest.approx(0.5, abs=0.12)
    assert leaky["held_out"].mean() > 0.75  # the peers' public models have learned the test rows by heart
    assert clean["held_out"].mean() == pytest.approx(0.5, abs=0.12)
    sums = edges.groupby(["noise", "site", "variant"])["weight"].sum()
    assert sums.to_numpy() == pytest.approx(np.ones(len(sums)))


def test_a_missing_column_is_the_publishers_median_or_commoner_value(study: Any) -> None:
    seen = np.array([[1, 0], [2, 1], [9, 1]], dtype=np.float32)
    is_number = np.array([True, False])
    assert study.defaults(seen, is_number, 0.0, 0).tolist() == [2.0, 1.0]
    noisy = study.defaults(seen, is_number, 16.0, 0)
    assert abs(noisy[0] - 2.0) > 1.0
    assert noisy[1] == 1.0


def test_a_split_has_no_row_twice_and_keeps_the_classes(study: Any) -> None:
    y = np.repeat([0, 1], [80, 20])
    train, meta, test = study.split(y, np.arange(100), 0)
    assert [len(train), len(meta), len(test)] == [60, 20, 20]
    assert len(np.unique(np.concatenate([train, meta, test]))) == 100
    assert [int(y[part].sum()) for part in (train, meta, test)] == [12, 4, 4]


def test_what_was_made_of_fewer_rows_trees_or_repeats_is_not_taken_for_more(study: Any) -> None:
    few = study.Sizes(6, 20, {"quantity": 500}, 1, 200)
    others = [replace(few, trees=40), replace(few, rows={}), replace(few, repeats=5)]
    made = [study.stem_of(study.about_run("paper", "adult", "quantity", "0.25", 0, sizes)) for sizes in (few, *others)]
    assert len(set(made)) == 4
    assert made[0] == "paper-adult-quantity-0.25-0-6sites-500rows-20trees-1x"


def test_full_sizes_are_the_papers(study: Any) -> None:
    assert (study.FULL.trees, study.FULL.repeats, study.FULL.rows) == (100, 5, {"vertical": 50_000})
