"""Recommendations follow from what was measured: which settings count, who is recommended, and what is said with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.errors import ConfigError
from peerwise.evaluate.recommend import LEVELS, Situation, class_share, comparable, evidence, recommend, skew_of
from peerwise.evaluate.situation import situation_at
from peerwise.methods import method_names
from peerwise.run import simulate

COLUMNS = ["accuracy", "gain", "spread", "wins", "losses", "worst", "bytes", "seconds"]


def setting(kind: str, data: str, share: float, rows: int = 100) -> dict[str, Any]:
    return {"dataset": "x", "kind": kind, "data": data, "classes": 10, "sites": 5, "rows": rows, "class_share": share,
            "public": 50, "seeds": 4}  # fmt: skip


def cell(gain: float, spread: float = 0.01) -> list[float]:
    return [0.8, gain, spread, 0.5, 0.2, gain - 0.05, 1000, 2.0]


@pytest.fixture
def measured() -> dict[str, Any]:
    """Small, with known answers: ``good`` gains under strong skew, ``public_one`` more, ``averaged`` under mild."""
    settings = {
        "t_strong": setting("strong", "table", 0.3),
        "i_strong": setting("strong", "image", 0.3, rows=1000),
        "i_few": setting("few", "image", 0.2, rows=100),
        "t_mild": setting("mild", "table", 0.7),
        "t_even": setting("quantity", "table", 0.95),
        "t_natural": setting("natural", "table", 0.66),
        "t_vertical": setting("vertical", "table", 0.9),
        "t_strangers": setting("strangers", "table", 0.2),
        "t_flipped": setting("flipped", "table", 0.7),
    }
    gains = {"good": {"strong": 0.05, "few": 0.03, "mild": 0.001, "strangers": 0.2},
             "public_one": {"strong": 0.09, "few": 0.09},
             "averaged": {"strong": -0.3, "few": -0.4, "mild": 0.02, "natural": 0.04, "quantity": 0.03}}  # fmt: skip
    cells: dict[str, dict[str, list[float]]] = {}
    for name, about in settings.items():
        cells[name] = {method: cell(of.get(about["kind"], 0.0)) for method, of in gains.items()}
        cells[name]["local"] = cell(0.0)
    del cells["t_vertical"]["averaged"], cells["t_vertical"]["public_one"]
    cells["t_vertical"]["good"] = cell(0.06)
    return {
        "about": {"commits": ["abc"], "dates": ["2026-01-01"], "command": "it"},
        "columns": COLUMNS,
        "settings": settings,
        "cells": cells,
        "methods": {
            "good": {"rounds": False, "needs": []},
            "public_one": {"rounds": False, "needs": ["public rows", "same columns"]},
            "averaged": {"rounds": True, "needs": ["same columns"]},
            "local": {"rounds": True, "needs": []},
        },
    }


def used(found: dict[str, Any]) -> list[str]:
    return [line["method"] for line in found["use"]]


def test_the_settings_that_count_follow_from_what_is_said(measured: dict[str, Any]) -> None:
    def names(**said: Any) -> set[str]:
        return set(comparable(Situation(**said), measured)[0])

    assert names(kind="image", skew="strong") == {"i_strong", "i_few"}
    assert names(kind="table", skew="mild") == {"t_mild", "t_natural"}, "natural sites count where their labels are"
    assert names(kind="table", skew="none") == {"t_even"}
    assert names(kind="table") == {"t_strong", "t_mild", "t_even", "t_natural"}
    assert names(kind="table", own_columns=True) == {"t_vertical"}
    assert names(kind="table", strangers=True) == {"t_strangers"}
    assert names(kind="table", wrong_labels=True) == {"t_flipped"}


def test_rows_that_nobody_measured_get_other_kinds_of_rows_and_a_word(measured: dict[str, Any]) -> None:
    names, notes = comparable(Situation("sequence", skew="strong"), measured)
    assert set(names) == {"t_strong", "i_strong", "i_few"}
    assert "no such setting has sequence rows" in notes[0]


def test_a_gain_beyond_chance_is_recommended_and_a_loss_warned_of(measured: dict[str, Any]) -> None:
    found = recommend(Situation("image", skew="strong", public=100), measured)
    assert used(found) == ["public_one", "good"]
    line = found["use"][1]
    assert line["gain"] == pytest.approx(0.04)
    assert (line["lowest"], line["highest"]) == (0.03, 0.05)
    assert line["error"] == pytest.approx(np.sqrt(2 * 0.01**2 / 4) / 2)
    assert [each["method"] for each in found["avoid"]] == ["averaged"]
    assert "measured in 2 settings only." in found["notes"]


def test_what_the_situation_rules_out_is_named_and_not_recommended(measured: dict[str, Any]) -> None:
    found = recommend(Situation("image", skew="strong", one_shot=True), measured)
    assert used(found) == ["good"]
    assert found["left_out"] == {"public_one": "needs public rows", "averaged": "has rounds", "local": "has rounds"}
    found = recommend(Situation("table", own_columns=True), measured)
    assert used(found) == ["good"]
    assert found["left_out"]["averaged"] == "needs the same columns everywhere"


def test_of_forty_methods_that_gain_nothing_hardly_ever_one_is_recommended(measured: dict[str, Any]) -> None:
    rng, blamed = np.random.default_rng(0), 0
    names = [f"method {number}" for number in range(40)]
    measured["methods"] = {name: {"rounds": False, "needs": []} for name in names}
    for _ in range(200):
        draws = rng.normal(scale=0.01, size=(len(names), 4))
        cells = [cell(float(four.mean()), float(four.std(ddof=1))) for four in draws]
        measured["cells"]["t_flipped"] = dict(zip(names, cells, strict=True))
        found = recommend(Situation("table", wrong_labels=True), measured)
        blamed += bool(found["use"] or found["avoid"])
    assert blamed <= 22  # 5 % of 200, and what chance may add


def test_where_nothing_gains_beyond_chance_nothing_is_recommended(measured: dict[str, Any]) -> None:
    for cells in measured["cells"].values():
        cells["averaged"] = cell(0.004, spread=0.02)
    found = recommend(Situation("table", skew="none"), measured)
    assert found["use"] == []
    assert found["avoid"] == []


def test_the_answer_says_how_far_the_situation_is_from_what_was_measured(measured: dict[str, Any]) -> None:
    near = recommend(Situation("image", skew="strong", rows=900), measured)
    assert near["nearest"]["setting"] == "i_strong"
    assert not [note for note in near["notes"] if "far" in note]
    far = recommend(Situation("image", skew="strong", rows=90_000, sites=6), measured)
    assert "90000 rows, measured with 1000: far from this situation." in far["notes"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "sound"}, "sound"),
        ({"kind": "image", "own_columns": True}, "only tables have columns"),
        ({"kind": "table", "strangers": True, "skew": "none"}, "meets no strangers"),
        ({"kind": "table", "strangers": True, "own_columns": True}, "one of them at a time"),
        ({"kind": "table", "rows": 0}, "rows is 0: expected at least 1"),
        ({"kind": "table", "classes": 1}, "classes is 1: expected at least 2"),
        ({"kind": "table", "skew": "weak"}, "weak"),
    ],
)
def test_a_situation_that_cannot_be_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Situation(**said)


# ---- what is shipped ------------------------------------------------------------------------------------------------


def test_the_shipped_evidence_covers_every_method_and_says_where_it_is_from() -> None:
    found = evidence()
    # Measured when these two went by the names of the models of the pool.
    assert set(found["methods"]) == set(method_names()) - {"local_rounds", "centralised_rounds"}
    assert {"local", "peerwise", "stacking", "fedavg", "fedmosaic", "fedsov"} <= set(found["methods"])
    assert found["columns"] == COLUMNS
    assert found["about"]["commits"]
    assert found["about"]["dates"]
    assert set(found["cells"]) == set(found["settings"])
    for cells in found["cells"].values():
        for values in cells.values():
            assert len(values) == len(COLUMNS)
            assert np.isfinite(values).all()
    assert all(about["seeds"] >= 3 for about in found["settings"].values())


def test_skew_grows_with_fewer_classes_a_site() -> None:
    order = [skew_of(share) for share in (0.15, 0.3, 0.7, 1.0)]
    assert order[0] == "strong"
    assert order[-1] == "none"
    assert [list(LEVELS).index(level) for level in order] == sorted(list(LEVELS).index(level) for level in order)


# ---- situations from what is on disk --------------------------------------------------------------------------------


def test_a_run_tells_its_average_site(tmp_path: Path) -> None:
    simulate("digits", sites=3, rows=300, models=["logistic"], methods=["local"], seeds=1, folds=2, public=30,
             partition="disjoint", out=tmp_path / "run")  # fmt: skip
    found = situation_at(tmp_path / "run")
    assert found["kind"] == "table"
    assert found["sites"] == 3
    assert found["classes"] == 10
    assert found["public"] == 30
    assert found["rows"] == pytest.approx(54, abs=3)
    assert found["skew"] == "strong"
    assert recommend(Situation(**found))["comparable"]


def test_a_file_of_rows_tells_its_classes_and_nothing_of_those_that_others_have(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame({"age": range(100), "sick": ["yes", "no"] * 50}).to_csv(path, index=False)
    assert situation_at(path, "sick") == {"kind": "table", "rows": 60, "classes": 2}
    with pytest.raises(ConfigError, match="name the column to be predicted"):
        situation_at(path)
    with pytest.raises(ConfigError, match="no site's folder"):
        situation_at(tmp_path / "nowhere")
    assert class_share([50, 50]) == 1.0
