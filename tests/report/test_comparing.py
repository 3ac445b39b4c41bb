"""Two runs held against each other: only the same rows are compared, and chance is told as such."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import heart

from peerwise.errors import ConfigError
from peerwise.evaluate import compare, holm
from peerwise.evaluate.versus import versus
from peerwise.report.comparing import compared
from peerwise.report.written import as_plain
from peerwise.run import Run, simulate


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    folder = tmp_path_factory.mktemp("runs")
    first = heart(folder / "a")
    second = heart(folder / "b", models=["logistic", "forest"], method={"peerwise": {"features": "decision"}}, seeds=1)
    return first, second


def test_the_same_rows_are_matched_and_tested(runs: tuple[Run, Run]) -> None:
    a, b = runs
    found = compared(a, b, ("runs/a", "runs/b"))
    sheets = {sheet.key: as_plain(sheet)["rows"] for sheet in found.sheets}
    label = b.experiment.label("peerwise")
    assert [row["method"] for row in sheets["compared"]] == ["local", "global_ensemble", f"{label} (A: peerwise)"]
    assert "of 4 of 8 sites x seeds" in found.headline
    row = sheets["compared"][2]
    assert row["better"] + row["tied"] + row["worse"] == 4
    assert row["low"] <= row["gain"] <= row["high"]
    assert row["sent_ratio"] > 1, "two models weigh more than one"
    lines = [line for line in sheets["places"] if line["method"].startswith(label)]
    for line in lines:
        trees = a.predictions[0, "peerwise", line["site"]], b.predictions[0, label, line["site"]]
        one = compare(trees[0]["y"], *(tree["probabilities"].argmax(axis=1) for tree in reversed(trees)))
        assert (line["only_b"], line["only_a"]) == (one.only_ours, one.only_own)
        assert line["gain"] == pytest.approx(one.gain)
    assert row["gain"] == pytest.approx(np.mean([line["gain"] for line in lines]))
    differs = {line["what"]: (line["a"], line["b"]) for line in sheets["differs"]}
    assert differs["folder"] == ("runs/a", "runs/b")
    assert differs["seeds"] == ("2", "1")
    assert differs["method.peerwise.features"] == (None, "decision")
    assert "dataset" not in differs


def test_a_run_against_itself_is_as_good_everywhere(runs: tuple[Run, Run]) -> None:
    found = compared(runs[0], runs[0])
    assert "of 8 of 8 sites x seeds" in found.headline
    assert found.headline.endswith(": as good at every site: local, global_ensemble, peerwise.")
    assert found.sheets[-1].about.endswith("nothing else")


def test_other_rows_are_not_compared(runs: tuple[Run, Run], tmp_path: Path) -> None:
    other = simulate("digits", sites=2, rows=200, models=["logistic"], methods=["local"], seeds=1, out=tmp_path / "c")
    with pytest.raises(ConfigError, match=r"none of the 10 sites x seeds of A .* has the same test rows"):
        compared(runs[0], other)
    # the same labels in the same places, of other data: what they are of is known from the digest
    forged = replace(runs[0], provenance={**runs[0].provenance, "data": {"sha256": "0" * 64}})
    with pytest.raises(ConfigError, match="same test rows"):
        compared(runs[0], forged)


def test_runs_without_a_common_method_are_told_so(runs: tuple[Run, Run]) -> None:
    def only(run: Run, method: str) -> Run:
        return replace(run, predictions={key: tree for key, tree in run.predictions.items() if key[1] == method})

    with pytest.raises(ConfigError, match="A has the methods local, B global_ensemble: expected at least one in both"):
        compared(only(runs[0], "local"), only(runs[1], "global_ensemble"))


def pairs(*parts: tuple[int, int, int]) -> dict[tuple[int, str], Any]:
    """Sites of so many rows, of which only ours, and only theirs, are right on so many."""
    found = {}
    for place, (rows, ours, theirs) in enumerate(parts):
        y = np.zeros(rows, np.int64)
        mine, other = y.copy(), y.copy()
        other[:ours] = 1
        mine[ours : ours + theirs] = 1
        found[0, f"s{place}"] = (y, mine, other)
    return found


def test_clear_gains_are_sure_and_small_ones_are_not() -> None:
    clear = versus(pairs((100, 40, 2), (100, 35, 1)))
    assert (clear.better, clear.surely_better, clear.surely_worse) == (2, 2, 0)
    assert not clear.may_be_chance
    assert clear.gain == pytest.approx((0.38 + 0.34) / 2)
    small = versus(pairs((100, 5, 3), (100, 3, 3), (100, 1, 4)))
    assert (small.better, small.tied, small.worse, small.surely_better) == (1, 1, 1, 0)
    assert small.may_be_chance
    assert small.lines["holm_p"].tolist() == holm(small.lines["p"].to_numpy(dtype=float)).tolist()


def test_rows_that_all_sites_have_count_once() -> None:
    apart, common = (versus(pairs(*[(100, 12, 4)] * 5), common=common) for common in (False, True))
    assert apart.gain == common.gain
    assert common.high - common.low > 1.8 * (apart.high - apart.low)


def test_nothing_to_compare_is_not_known() -> None:
    found = versus({})
    assert np.isnan(found.gain)
    assert found.may_be_chance
