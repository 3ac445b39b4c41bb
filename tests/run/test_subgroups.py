"""Test rows by a named column: what each value is called, and that no work depends on it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise import Dataset, load, simulate
from peerwise.data import Feature
from peerwise.errors import ConfigError
from peerwise.run import federation
from peerwise.run.subgroups import subgroups

HEART: dict[str, Any] = {"models": "logistic", "folds": 2, "seeds": 1}


def one_column(values: list[float]) -> Dataset:
    X = np.array(values, dtype=np.float32)[:, None]
    return Dataset("one", "table", X, np.arange(len(values)) % 2, ("no", "yes"), (Feature("x"),))


def test_every_test_row_has_its_own_subgroup_and_another_one_needs_no_work(tmp_path: Path) -> None:
    data = load("heart_disease")
    first = simulate("heart_disease", out=tmp_path, **HEART, methods="local", subgroup="sex")
    told: list[str] = []
    second = simulate("heart_disease", out=tmp_path, **HEART, methods="local", subgroup="age",
                      on_event=lambda event: told.append(event["event"]))  # fmt: skip
    assert set(told) == {"start", "method", "end"}
    sexes, ages = subgroups(data, "sex"), subgroups(data, "age")
    for site in federation(first.experiment, data, 0):
        key = (0, "local", site.name)
        assert first.predictions[key]["subgroup"] == sexes[site.index["test"]].tolist()
        assert second.predictions[key]["subgroup"] == ages[site.index["test"]].tolist()
        counts = np.bincount(site.train.y, minlength=2)
        assert first.predictions[key]["label_counts"].tolist() == counts.tolist()


def test_categories_sites_and_kept_columns_stand_for_themselves() -> None:
    data = load("heart_disease")
    assert Counter(subgroups(data, "sex").tolist()) == {"male": 726, "female": 194}
    assert set(subgroups(data, "site").tolist()) == {"cleveland", "hungarian", "long_beach", "switzerland"}
    assert set(subgroups(data, "severity").tolist()) == {"0", "1", "2", "3", "4"}


def test_a_number_is_cut_at_its_quartiles() -> None:
    found = subgroups(one_column([*range(1, 41), np.nan]), "x")
    names = ["up to 10.75", "10.75 to 20.5", "20.5 to 30.25", "above 30.25"]
    assert found.tolist() == [name for name in names for _ in range(10)] + ["missing"]
    mostly_zero = subgroups(one_column([0.0] * 60 + list(range(1, 16))), "x")
    assert Counter(mostly_zero.tolist()) == {"up to 0": 60, "above 0": 15}
    assert subgroups(one_column([1, 2, 2, np.nan]), "x").tolist() == ["1", "2", "2", "missing"]
    assert subgroups(one_column([0.0, -0.0, 1]), "x").tolist() == ["0", "0", "1"]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=30, max_size=60))
def test_numbers_keep_their_order_and_equal_ones_stay_together(values: list[float]) -> None:
    found = subgroups(one_column(values), "x")
    order = np.argsort(np.asarray(values, dtype=np.float32), kind="stable")
    in_order = found[order].tolist()
    assert len(list(dict.fromkeys(in_order))) == 1 + sum(a != b for a, b in pairwise(in_order))
    for value in set(values):
        assert len({name for name, other in zip(found.tolist(), values, strict=True) if other == value}) == 1


def test_a_column_that_is_not_there_is_refused_before_any_work_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"subgroup: unknown column 'agee': did you mean 'age'\? Choices: .*sex, site"
    ):
        simulate("heart_disease", out=tmp_path / "run", **HEART, methods="local", subgroup="agee")
    bare = Dataset("bare", "table", np.zeros((4, 1), np.float32), np.arange(4) % 2, ("no", "yes"))
    with pytest.raises(ConfigError, match="subgroup is 'x': data set 'bare' has no named columns"):
        subgroups(bare, "x")
    assert list(tmp_path.iterdir()) == []
