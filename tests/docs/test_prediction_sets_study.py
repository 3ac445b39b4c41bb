"""The study of prediction sets, in small: on real data they hold the truth as often as they promise, and say how much
that costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from peerwise import simulate

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    monkeypatch.delitem(sys.modules, "prediction_sets", raising=False)
    import prediction_sets

    return prediction_sets


def test_hospitals_are_promised_no_more_than_they_get(study: Any) -> None:
    run = simulate("heart_disease", models=["logistic"], methods=["peerwise"], seeds=3)
    found = study.table(pd.DataFrame(study.halved(run)).assign(dataset="heart_disease")).loc["heart_disease"]
    marginal, by_class = found.loc["marginal"], found.loc["by-class"]
    for kind in (marginal, by_class):
        assert list(kind.index) == list(study.LEVELS)
        for level, line in kind.iterrows():
            assert line["covered"] >= level - 0.02  # three seeds of four hospitals: chance is within a point
        assert kind["sure"].is_monotonic_decreasing
        told = abs(kind["stated_right_if_sure"] - kind["right_if_sure"])
        assert told.loc[:0.9].max() < 0.03, "what a ward is told holds"
    assert (marginal["right_if_sure"] >= marginal["right"] - 0.01).all()
    assert by_class["worst_class"].loc[0.9] > marginal["worst_class"].loc[0.9] + 0.02
    assert by_class["classes"].loc[0.9] > marginal["classes"].loc[0.9], "that has its price"
