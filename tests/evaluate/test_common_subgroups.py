"""Subgroups where all sites are tested on the same rows: these are counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerwise import simulate
from peerwise.evaluate import assess


def test_rows_that_all_sites_are_tested_on_are_counted_once(tmp_path: Path) -> None:
    run = simulate(
        "heart_disease", models="logistic", folds=2, seeds=1, methods="local,global_ensemble", subgroup="sex",
        test="common", out=tmp_path,
    )  # fmt: skip
    found = assess(run)
    tested = found.sites["test_rows"].unique()
    assert len(tested) == 1
    assert found.sites["site"].nunique() == 4
    assert found.subgroups.groupby("method")["rows"].sum().to_dict() == {
        "local": tested[0],
        "global_ensemble": tested[0],
    }
    # the mean of the sites, with an interval that is no narrower for asking about the same rows again
    each = found.site_subgroups.groupby(["method", "subgroup"]).mean(numeric_only=True)
    together = found.subgroups.set_index(["method", "subgroup"])
    for place, line in together.iterrows():
        for name in ("accuracy", "accuracy_gain", "accuracy_gain_low", "accuracy_gain_high"):
            assert line[name] == pytest.approx(each.loc[place, name], nan_ok=True)
    assert together.loc["global_ensemble", "accuracy_gain_low"].notna().all()
