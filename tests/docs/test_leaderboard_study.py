"""The leaderboard does what it says, in small: cells that exist, one bar for all, ranks, evidence, and a page that says
the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.evaluate import recommend

ROOT = Path(__file__).parents[2]
NAMES = ("leaderboard", "leaderboard_tables", "leaderboard_evidence", "leaderboard_figure")
FEW = ("best_single", "fedavg", "global_ensemble", "lgfedavg", "local_rounds", "stacking")


@pytest.fixture(scope="module")
def study() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments"))
        for name in NAMES:
            patch.delitem(sys.modules, name, raising=False)
        import leaderboard

        patch.setattr(leaderboard, "method_names", lambda: FEW)
        yield leaderboard


@pytest.fixture(scope="module")
def finished(study: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("leaderboard")
    tiny = replace(study.FAST["table"], rows=240, public=30, seeds=2, folds=2, epochs=3, sites=3, rounds=2,
                   changes={"stacking": {"meta": "logistic"}})  # fmt: skip
    for kind in ("quantity", "vertical", "flipped"):
        study.run_cell("heart_disease", kind, tiny, out, 1)
    return out


def test_every_data_set_and_every_kind_is_in_the_grid(study: Any) -> None:
    names = {f"{dataset}_{kind}" for dataset, kind in study.cells()}
    assert len(names) == len(study.cells())
    assert {kind for _, kind in study.cells()} == set(study.KINDS)
    asked = {"heart_disease", "adult", "covertype", "digits", "fashion_mnist", "cifar10", "office_caltech10", "pacs"}
    assert {dataset for dataset, _ in study.cells()} == asked


def test_a_cell_leaves_its_sites_who_could_not_run_and_is_not_done_again(study: Any, finished: Path) -> None:
    lines = pd.read_csv(finished / "heart_disease_vertical" / "sites.csv")
    about = json.loads((finished / "heart_disease_vertical" / "about.json").read_text())
    assert set(lines["method"]) == {"lgfedavg", "local_rounds", "stacking"}
    assert set(about["cannot"]) == set(FEW) - set(lines["method"])
    assert all("different columns" in why for why in about["cannot"].values())
    assert about["facts"]["sites"] == 3
    assert about["fell_back"] == []
    honest = pd.read_csv(finished / "heart_disease_flipped" / "sites.csv")
    assert set(honest["site"]) == {"site-1", "site-2"}, "the site that misleads is not asked"
    before = (finished / "heart_disease_flipped" / "sites.csv").stat().st_mtime_ns
    study.run_cell("heart_disease", "flipped", study.FAST["table"], finished, 1)
    assert (finished / "heart_disease_flipped" / "sites.csv").stat().st_mtime_ns == before


def test_the_tables_hold_all_methods_to_their_bars(study: Any, finished: Path, tmp_path: Path) -> None:
    import leaderboard_tables as tables
    from leaderboard_figure import draw

    lines, abouts = tables.read(finished)
    key = ["dataset", "kind", "seed", "site"]
    own = lines[lines["method"] == "own"].set_index(key)["accuracy"]
    alone = lines[lines["method"] == "local_rounds"].set_index(key)["accuracy"]
    for method, bar in (("best_single", own), ("fedavg", alone)):
        part = lines[lines["method"] == method].set_index(key)
        np.testing.assert_allclose(part["accuracy"] - bar.reindex(part.index), part["accuracy_gain"], atol=2e-5)
    better = own.groupby(["dataset", "kind"]).mean() >= alone.groupby(["dataset", "kind"]).mean()
    for setting, part in lines.groupby(["dataset", "kind"]):
        bar = own if better[setting] else alone
        np.testing.assert_allclose(part["alone"], bar.reindex(pd.MultiIndex.from_frame(part[key])))
    found = tables.ranked(lines)
    assert found.blocks == 2
    assert set(found.ranks.index) == {*FEW, "own"}
    page = tables.leaderboard(lines, found.ranks)
    assert all(f"| {method} |" in page for method in (*FEW, "own"))
    assert "| 2 of 3 |" in page
    assert "| 3 of 3 |" in page
    assert "different columns: best_single, fedavg, global_ensemble" in tables.unable(abouts)
    assert "vertical (1)" in tables.by_kind(lines, list(found.ranks.index))
    assert "| flipped | heart_disease |" in tables.best_three(lines)
    draw(found, {}, tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")
    told = tables.evidence(lines, abouts)
    assert told["methods"]["fedavg"] == {"rounds": True, "needs": ["same columns", "neural nets"]}
    assert told["methods"]["stacking"] == {"rounds": False, "needs": []}
    assert told["cells"]["heart_disease_quantity"]["best_single"][1] == pytest.approx(
        tables.by_setting(lines, "over_alone").loc[("heart_disease", "quantity"), "best_single"], abs=1e-4
    )


def test_a_part_of_the_page_is_replaced_and_the_rest_stays(study: Any, tmp_path: Path) -> None:
    import leaderboard_tables as tables

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    for _ in range(2):
        tables.pages.put(page, {"a": "new\n"})
        assert page.read_text() == "before\n<!-- a -->\nnew\n<!-- end of a -->\nafter\n"
    with pytest.raises(SystemExit, match="has no <!-- b -->"):
        tables.pages.put(page, {"b": "new\n"})


def test_the_page_and_the_evidence_in_the_package_are_of_one_study(study: Any) -> None:
    import leaderboard_tables as tables

    page = (ROOT / "docs" / "results" / "leaderboard.md").read_text("utf-8")
    told = recommend.evidence()
    assert f"\n{len(told['settings'])} settings of {len(study.cells())}, {len(told['methods'])} methods, " in page
    assert tables.when(told) in page
    assert all(f"\n| {method} | " in page for method in told["methods"])
    assert all(commit in page for commit in told["about"]["commits"])
