"""The summary against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.evaluate import summarise

# seed, site -> accuracy; balanced accuracy is half of it
SCORES = {
    "local": {(0, "a"): 0.5, (0, "b"): 0.7, (1, "a"): 0.9, (1, "b"): 0.3},
    "better": {(0, "a"): 0.6, (0, "b"): 0.7, (1, "a"): 0.8, (1, "b"): 0.9},
}


def results(scores: dict[str, dict[tuple[int, str], float]], **changes: Any) -> pd.DataFrame:
    rows = [
        {
            "seed": seed,
            "method": method,
            "site": site,
            "test_rows": 10,
            "accuracy": score,
            "balanced_accuracy": score / 2,
            "ensemble_size": None if method == "local" else 3.0,
            "ess": None if method == "local" else 2.0,
            "fallback": None if method == "local" else 0.5,
            "oracle": None if method == "local" else 1.0,
            "bytes_sent": 0 if method == "local" else 1000 * (1 + seed),
            "seconds_train": 1.5,
            "seconds_outputs": np.nan if method == "local" else 2.0,
            **changes,
        }
        for method, each in scores.items()
        for (seed, site), score in each.items()
    ]
    return pd.DataFrame(rows)


def test_mean_spread_and_worst_site() -> None:
    line = summarise(results(SCORES)).loc["better"]
    assert line["accuracy"] == pytest.approx((0.65 + 0.85) / 2)
    assert line["accuracy_std"] == pytest.approx((0.05 + 0.05) / 2)  # over the sites of a seed
    assert line["accuracy_seed_std"] == pytest.approx(0.1)  # of 0.65 and 0.85
    assert line["accuracy_worst"] == pytest.approx((0.6 + 0.8) / 2)  # a site of another seed is another site
    assert line["balanced_accuracy"] == pytest.approx(0.375)
    assert line["balanced_accuracy_worst"] == pytest.approx(0.35)


def test_wins_ties_and_losses_are_paired_by_seed_and_site() -> None:
    table = summarise(results(SCORES).sample(frac=1, random_state=0))
    line = table.loc["better"]
    assert line["accuracy_gain"] == pytest.approx((0.1 + 0.0 - 0.1 + 0.6) / 4)
    assert [line[f"accuracy_{key}"] for key in ("wins", "ties", "losses")] == [0.5, 0.25, 0.25]
    own = table.loc["local"]
    assert [own[f"accuracy_{key}"] for key in ("gain", "wins", "ties", "losses")] == [0.0, 0.0, 1.0, 0.0]


def test_a_gain_that_is_only_rounding_is_a_tie() -> None:
    scores = {"local": {(0, "a"): 0.3}, "same": {(0, "a"): 0.1 + 0.2}}
    assert summarise(results(scores)).loc["same", "accuracy_ties"] == 1.0


def test_costs_and_behaviour() -> None:
    table = summarise(results(SCORES))
    assert table.loc["better", ["ensemble_size", "ess", "fallback", "oracle"]].tolist() == [3.0, 2.0, 0.5, 1.0]
    assert table.loc["local", ["ensemble_size", "ess", "fallback", "oracle"]].isna().all()
    assert table.loc["better", "bytes_sent"] == 1500
    assert table.loc["better", "seconds_train"] == 3.0
    assert table.loc["better", "seconds_outputs"] == 4.0
    assert np.isnan(table.loc["local", "seconds_outputs"])  # local has no such phase: not zero seconds


def test_a_site_without_test_rows_counts_for_costs_only() -> None:
    frame = results(SCORES)
    empty = (frame["seed"] == 0) & (frame["site"] == "a")
    frame.loc[empty, ["accuracy", "balanced_accuracy"]] = np.nan
    frame.loc[empty, "test_rows"] = 0
    line = summarise(frame).loc["better"]
    assert line["accuracy"] == pytest.approx((0.7 + 0.85) / 2)
    assert line["accuracy_std"] == pytest.approx((0.0 + 0.05) / 2)
    assert line["accuracy_gain"] == pytest.approx((0.0 - 0.1 + 0.6) / 3)
    assert line["accuracy_wins"] == pytest.approx(1 / 3)
    assert line["bytes_sent"] == 1500
    assert line["seconds_train"] == 3.0


def test_no_test_rows_at_all_leaves_the_methods_without_scores() -> None:
    table = summarise(results(SCORES, test_rows=0, accuracy=np.nan, balanced_accuracy=np.nan))
    assert list(table.index) == ["local", "better"]
    assert table[["accuracy", "accuracy_worst", "accuracy_gain", "accuracy_wins"]].isna().all(axis=None)
    assert (table["seconds_train"] == 3.0).all()


def test_without_local_there_is_nothing_to_gain_over() -> None:
    table = summarise(results({"better": SCORES["better"]}))
    assert not [column for column in table.columns if column.endswith(("_gain", "_wins", "_ties", "_losses"))]
    assert table.loc["better", "accuracy"] == pytest.approx(0.75)


def test_the_own_model_of_the_same_pool_comes_before_local() -> None:
    frame = results(SCORES)
    pool = frame["method"] == "better"
    frame["own_accuracy"] = np.where(pool, 0.6, np.nan)
    frame["own_balanced_accuracy"] = np.where(pool, 0.3, np.nan)
    line = summarise(frame).loc["better"]
    assert line["accuracy_gain"] == pytest.approx((0.0 + 0.1 + 0.2 + 0.3) / 4)
    assert line["accuracy_ties"] == 0.25
    assert summarise(frame).loc["local", "accuracy_ties"] == 1.0  # local has no pool, and is held to itself
    assert summarise(frame, reference="local").loc["better", "accuracy_gain"] == pytest.approx(0.15)
    alone = summarise(frame[pool])
    assert alone.loc["better", "accuracy_gain"] == pytest.approx(0.15)


def test_the_worst_tenth_is_taken_within_a_seed() -> None:
    scores = {(seed, str(site)): (site + 10 * seed) / 100 for seed in (0, 1) for site in range(20)}
    line = summarise(results({"local": scores})).loc["local"]
    assert line["accuracy_worst_tenth"] == pytest.approx((0.005 + 0.105) / 2)
    assert line["accuracy_worst"] == pytest.approx((0.0 + 0.1) / 2)


def test_a_metric_that_some_sites_lack_is_the_mean_of_the_others() -> None:
    frame = results(SCORES, auroc=0.8)
    frame.loc[(frame["seed"] == 0) & (frame["site"] == "a"), "auroc"] = np.nan
    line = summarise(frame).loc["better"]
    assert line["auroc"] == pytest.approx(0.8)
    assert line["auroc_sites"] == 3


def test_another_reference_can_be_asked_for() -> None:
    table = summarise(results(SCORES), reference="better")
    assert [table.loc["local", f"accuracy_{key}"] for key in ("wins", "ties", "losses")] == [0.25, 0.25, 0.5]


def test_methods_stay_in_the_order_of_the_run() -> None:
    assert list(summarise(results({"z": SCORES["local"], "a": SCORES["better"]})).index) == ["z", "a"]
