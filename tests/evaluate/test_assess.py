"""A whole run assessed: small predictions made by hand, and a real federation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise import simulate
from peerwise.errors import ConfigError, DataError
from peerwise.evaluate import Assessment, assess, compare, holm, summarise
from peerwise.evaluate.site_table import COMPARED, COUNTS
from peerwise.run import Experiment, Run
from peerwise.run.score import site_row

Trees = dict[tuple[int, str, str], dict[str, Any]]


def tree(y: list[int], answers: list[int], own: list[int] | None = None, **changes: Any) -> dict[str, Any]:
    """A site's predictions; ``own`` given: it has a pool of its own model and a peer that always says 1."""
    labels, hard = np.array(y, dtype=np.int64), np.eye(2) * 0.8 + 0.1
    details: dict[str, Any] = {}
    if own is not None and y:
        says = np.column_stack([own, np.ones(len(y), dtype=np.int64)])
        trust = np.where(says == np.array(answers)[:, None], 1.0, 0.0)
        trust = np.where(trust.any(axis=1, keepdims=True), trust, 1.0)
        details = {"trust": trust / trust.sum(axis=1, keepdims=True), "fallback": np.zeros(len(y), dtype=bool)}
        details |= {"says": says, "own": hard[own], "models": ["net@a", "net@b"]}
    shown = hard[np.array(answers, dtype=np.int64)] if y else np.zeros((0, 2))
    return {
        "y": labels, "probabilities": shown, "details": details, "subgroup": None, "sent": 10, "best_round": None,
        "seconds": {"train": 1.0}, "label_counts": np.array([5, 5]), "fell_back": None,
        "peers_left_out": {}, "received": 20, "rounds": 1, "took_part": [0], "lr": None, "curves": {}, "privacy": None,
        **changes,
    }  # fmt: skip


def run_of(trees: Trees) -> Run:
    lines = [{"seed": s, "method": m, "site": site, **site_row(each)} for (s, m, site), each in trees.items()]
    return Run(Experiment(), pd.DataFrame(lines), None, trees)


def test_a_method_with_a_pool_is_held_to_its_own_models_and_another_to_local() -> None:
    y, own, local = [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]
    found = assess(
        run_of(
            {
                (0, "local", "a"): tree(y, local),
                (0, "pool", "a"): tree(y, [0, 0, 1, 1], own),
                (0, "plain", "a"): tree(y, [0, 0, 1, 1]),
            }
        )
    )
    sites = found.sites.set_index("method")
    assert sites["reference"].tolist() == ["local", "own", "local"]
    assert sites.loc["pool", ["own_accuracy", "only_ours", "only_own"]].tolist() == [0.75, 1, 0]
    assert sites.loc["plain", ["own_accuracy", "only_ours", "only_own"]].tolist() == [0.5, 2, 0]
    assert np.isnan(sites.loc["local", "mcnemar_p"])
    assert found.methods["tests"].tolist() == [0, 1, 1]
    assert found.methods.loc["pool", "oracle_gap_closed"] == pytest.approx(1)


def test_holm_runs_over_all_seeds_and_sites_of_a_method() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 40)
    trees: Trees = {}
    for seed in (0, 1):
        for site, errors in (("a", 20), ("b", 8), ("c", 1)):
            own = y.copy()
            own[:errors] = 1 - own[:errors]
            trees[seed, "pool", site] = tree(y.tolist(), y.tolist(), own.tolist())
            trees[seed, "worse", site] = tree(y.tolist(), own.tolist(), y.tolist())
    found = assess(run_of(trees))
    for method, better in (("pool", (4, 0)), ("worse", (0, 4))):
        part = found.sites[found.sites["method"] == method]
        assert part["holm_p"].tolist() == pytest.approx(holm(part["mcnemar_p"]).tolist())
        line = found.methods.loc[method]
        assert (line["tests"], line["significantly_better"], line["significantly_worse"]) == (6, *better)


def test_more_seeds_of_the_same_rows_do_not_narrow_the_interval() -> None:
    y, answers, own = [0, 1] * 10, [0, 1] * 10, [0, 0] * 10
    one = assess(run_of({(0, "pool", s): tree(y, answers, own) for s in "ab"})).methods.loc["pool"]
    three = assess(run_of({(k, "pool", s): tree(y, answers, own) for k in range(3) for s in "ab"})).methods.loc["pool"]
    for end in ("low", "high"):
        assert three[f"accuracy_gain_{end}"] == pytest.approx(one[f"accuracy_gain_{end}"])
    alone = compare(y, answers, own)
    assert alone.low < one["accuracy_gain_low"] < 0.5 < one["accuracy_gain_high"] < alone.high


def test_no_test_rows_and_one_class_are_told_and_break_nothing() -> None:
    trees = {
        (0, method, site): tree(y, y, y if method == "pool" else None)
        for method in ("local", "pool")
        for site, y in (("empty", []), ("healthy", [0, 0, 0]), ("both", [0, 1, 1]))
    }
    found = assess(run_of(trees), classes=("well", "ill"))
    sites = found.sites[found.sites["method"] == "pool"].set_index("site")
    assert sites.loc["empty", "undefined"]["accuracy"] == "no test rows"
    assert sites.loc["healthy", "undefined"] == {
        "auroc": "all 3 test rows are of class 'well'",
        "auprc": "all 3 test rows are of class 'well'",
        "sensitivity": "no test row is of class 'ill'",
    }
    assert sites.loc["both", "undefined"] == {}
    assert found.methods.loc["pool", "auroc_sites"] == 1
    assert found.methods.loc["pool", "tests"] == 2


def test_nothing_but_empty_sites() -> None:
    found = assess(run_of({(0, method, "a"): tree([], []) for method in ("local", "pool")}))
    assert found.methods["accuracy"].isna().all()
    assert found.methods["tests"].tolist() == [0, 0]


def test_the_columns_do_not_depend_on_the_methods() -> None:
    alone = assess(run_of({(0, "local", "a"): tree([0, 1], [0, 1])}))
    both = assess(run_of({(0, m, "a"): tree([0, 1], [0, 1], [0, 0] if m == "pool" else None) for m in ("pool", "x")}))
    assert set(alone.sites.columns) == set(both.sites.columns)
    assert {*COUNTS, *COMPARED, "mismatch", "holm_p", "undefined"} <= set(alone.sites.columns)


def test_who_fell_back_is_told() -> None:
    why = {"to": "the most frequent class", "why": "one class"}
    found = assess(run_of({(0, "local", "a"): tree([0, 1], [0, 0], fell_back=why)}))
    assert found.fell_back == [{"seed": 0, "method": "local", "site": "a", **why}]
    assert found.peers_left_out == []


def test_whose_models_were_left_out_is_told_a_line_a_model() -> None:
    found = assess(
        run_of({(1, "pool", "a"): tree([0, 1], [0, 0], peers_left_out={"net@b": "NaN", "*@c": "no classes"})})
    )
    common = {"seed": 1, "method": "pool", "site": "a"}
    assert found.peers_left_out == [
        {**common, "model": "net@b", "why": "NaN"},
        {**common, "model": "*@c", "why": "no classes"},
    ]
    assert found.fell_back == []


def test_subgroups_are_of_all_sites_together_and_of_each() -> None:
    groups = {"a": ["young", "old", "old"], "b": ["old", "missing", "young"]}
    trees = {
        (seed, "pool", site): tree([0, 1, 1], [0, 1, seed], [0, 0, 0], subgroup=groups[site])
        for seed in (0, 1)
        for site in "ab"
    }
    found = assess(run_of(trees))
    pooled = found.subgroups.set_index("subgroup")
    assert pooled.index.tolist() == ["old", "young", "missing"]
    assert pooled["rows"].tolist() == [3, 2, 1]
    assert pooled.loc["old", "accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert pooled.loc["old", "own_accuracy"] == pytest.approx(1 / 3)
    assert pooled.loc["old", "accuracy_gain"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert len(found.site_subgroups) == 2 * (2 + 3)
    assert assess(run_of({(0, "local", "a"): tree([0], [0])})).subgroups.empty


def test_cut_numbers_keep_their_order() -> None:
    groups = ["above 60", "missing", "9 to 54", "up to 9", "54 to 60"]
    found = assess(run_of({(0, "local", "a"): tree([0] * 5, [0] * 5, subgroup=groups)}))
    assert found.subgroups["subgroup"].tolist() == ["up to 9", "9 to 54", "54 to 60", "above 60", "missing"]


def test_what_cannot_be_assessed_is_refused() -> None:
    run = run_of({(0, "local", "a"): tree([0, 1], [0, 1])})
    with pytest.raises(ConfigError, match=r"unknown class 'il'.*did you mean 'ill'"):
        assess(run, classes=("well", "ill"), positive="il")
    for threshold in (0, -0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError, match=r"threshold is .*: expected a probability"):
            assess(run, threshold=threshold)
    with pytest.raises(DataError, match="no predictions"):
        assess(Run(run.experiment, run.results, None))


def test_the_positive_class_and_the_threshold_reach_the_metrics() -> None:
    run = run_of({(0, "local", "a"): tree([0, 0, 1], [0, 1, 1])})
    found = assess(run, classes=("well", "ill"), positive="well", threshold=0.95)
    assert (found.settings["positive"], found.settings["threshold"]) == ("well", 0.95)
    assert found.methods.loc["local", ["sensitivity", "specificity"]].tolist() == [0, 1]
    assert assess(run).settings["positive"] == "1"


@pytest.fixture(scope="module")
def real() -> tuple[Run, Assessment]:
    methods = ["local", "neighbourhood", "global_ensemble", "centralised"]
    skew = {"partition": "exdir", "partition_settings": {"classes_per_site": 5, "alpha": 1.0}}
    run = simulate("digits", sites=5, rows=600, models=["logistic"], methods=methods, seeds=2, folds=2, **skew)
    return run, assess(run)


def test_the_own_model_of_the_pool_is_what_local_answers(real: tuple[Run, Assessment]) -> None:
    run, found = real
    for (seed, method, site), each in run.predictions.items():
        if "own" in each["details"]:
            local = run.predictions[seed, "local", site]["probabilities"]
            np.testing.assert_allclose(each["details"]["own"], local, atol=1e-6)
            assert method not in ("local", "centralised")
    wide = found.sites.pivot(index=["seed", "site"], columns="method", values="own_accuracy")
    assert wide.nunique(axis=1).eq(1).all()


def test_models_that_know_a_class_from_home_are_trusted_with_it(real: tuple[Run, Assessment]) -> None:
    """Sites of few classes: a sensible choice follows them, an equal vote cannot."""
    methods = real[1].methods
    assert methods.loc["neighbourhood", "home_spearman"] > 0.3
    assert np.isnan(methods.loc["global_ensemble", "home_spearman"])
    assert methods.loc["neighbourhood", "trust_on_wrong"] < methods.loc["neighbourhood", "pool_wrong"]
    alike = methods.loc["global_ensemble"]
    assert alike["trust_on_wrong"] == pytest.approx(alike["pool_wrong"])
    assert alike["missed_right"] == 0


def test_the_assessment_agrees_with_the_summary_of_the_results(real: tuple[Run, Assessment]) -> None:
    run, found = real
    plain = summarise(run.results)
    shared = [column for column in plain.columns if column in found.methods.columns]
    assert len(shared) > 40
    pd.testing.assert_frame_equal(plain[shared], found.methods[shared])
