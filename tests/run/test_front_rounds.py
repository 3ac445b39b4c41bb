"""Methods with rounds in an experiment: variants, budgets, tuning, absent sites; nothing shares files by accident."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from peerwise.data import Site
from peerwise.errors import ConfigError, DataError, ModelError
from peerwise.evaluate import assess
from peerwise.methods import Method
from peerwise.methods.by_rounds import Budget
from peerwise.report import print_assessment
from peerwise.report.headline import headline
from peerwise.run import Run, simulate
from peerwise.run.contenders import learning_rates

NETS: dict[str, Any] = {
    "sites": 3, "rows": 240, "models": ["mlp"], "seeds": 1, "partition": "quantity",
    "partition_settings": {"exponent": 0.0}, "training": {"rounds": 3, "lr": 0.1},
}  # fmt: skip


class Steep(Method):
    """Fails everywhere with a learning rate above 0.05; else it is right as often as the rate is near 0.01."""

    def __init__(self, **budget: Unpack[Budget]) -> None:
        self.lr, self.rounds = budget["lr"], budget["rounds"]

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        if self.lr > 0.05:
            raise ValueError("the loss was NaN")
        site.state["done"] = True

    def predict_proba(self, site: Site, X: Any) -> Any:
        """The majority class of the validation rows, unless the rate is another than 0.01."""
        found = np.full((len(X), len(site.classes)), 1e-3)
        place = np.bincount(site.val.y).argmax() if self.lr == 0.01 else np.setdiff1d(range(10), site.val.y)[0]
        found[:, place] = 1
        return found / found.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One federation that the tests add methods to."""
    return tmp_path_factory.mktemp("nets") / "run"


def best_validation(run: Run, method: str) -> float:
    """Mean over the sites of the highest validation accuracy of any round."""
    curves = run.curves.query("name == 'validation accuracy' and method == @method")
    return float(curves.groupby("site")["value"].max().mean())


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("predictions/*")}


def test_two_variants_of_a_method_stand_side_by_side(folder: Path) -> None:
    methods = ["fedavg", "fedavg:slow_1"]
    run = simulate("digits", out=folder, **NETS, methods=methods, method={"fedavg:slow_1": {"lr": 1e-6}})
    assert list(run.results["method"].unique()) == methods
    lr = run.results.groupby("method")["lr"].unique()
    assert (lr["fedavg"].tolist(), lr["fedavg:slow_1"].tolist()) == ([0.1], [1e-6])
    assert not any(":" in path.name for path in folder.rglob("*"))
    probabilities = {m: run.predictions[0, m, "site-0"]["probabilities"] for m in methods}
    assert not np.allclose(probabilities["fedavg"], probabilities["fedavg:slow_1"])
    again = simulate("digits", out=folder, **NETS, methods=methods[1:], method={"fedavg:slow_1": {"lr": 0.1}})
    found = again.predictions[0, "fedavg:slow_1", "site-0"]["probabilities"]
    assert np.array_equal(found, probabilities["fedavg"]), "what a tag stood for before is not taken for it"


def test_two_budgets_never_share_files_and_the_same_one_does_no_work(folder: Path) -> None:
    first = simulate("digits", out=folder, **NETS, methods="fedavg,local_rounds")
    told: list[dict[str, Any]] = []
    again = simulate("digits", out=folder, **NETS, methods="fedavg,local_rounds", on_event=told.append)
    assert {event["event"] for event in told} == {"start", "method", "end"}
    pd.testing.assert_frame_equal(first.results, again.results)
    before = files(folder)
    for training in ({"rounds": 2, "lr": 0.1}, {"rounds": 3, "lr": 0.2}, {"rounds": 3, "lr": 0.1, "batch_size": 16}):
        other = simulate("digits", out=folder, **{**NETS, "training": training}, methods="fedavg,local_rounds")
        assert set(other.results["method"]) == {"fedavg", "local_rounds"}
        assert set(other.results["rounds"]) == {training["rounds"]}
        one, two = (
            np.concatenate([run.predictions[0, "local_rounds", f"site-{i}"]["probabilities"] for i in range(3)])
            for run in (first, other)
        )
        assert not np.array_equal(one, two)
        assert len(files(folder) - before) == 2
        before = files(folder)


def test_a_budget_that_is_spelt_out_is_the_same_budget(folder: Path) -> None:
    simulate("digits", out=folder, **NETS, methods="fedavg")
    before = files(folder)
    spelt = {"rounds": 3, "lr": 0.1, "optimizer": "sgd", "local_epochs": 1, "batch_size": 32}
    simulate("digits", out=folder, **{**NETS, "training": spelt}, methods="fedavg")
    assert files(folder) == before


def test_methods_with_rounds_are_held_to_local_rounds_and_local_is_always_of_the_pool(folder: Path) -> None:
    run = simulate("digits", out=folder, **NETS, methods="local,local_rounds,fedavg,centralised_rounds,best_single")
    right = {name: lines.set_index("site") for name, lines in run.results.groupby("method")}
    assert (right["local_rounds"]["rounds"] == 3).all()
    assert (right["local_rounds"]["bytes_sent"] == 0).all()
    assert right["local"]["lr"].isna().all()
    found = assess(run)
    bars = {"fedavg": "local_rounds", "centralised_rounds": "local_rounds", "best_single": "own"}
    assert found.methods["bar"][list(bars)].to_dict() == bars
    held = found.sites[found.sites["method"] == "fedavg"]
    assert np.allclose(held["own_accuracy"], right["local_rounds"].loc[held["site"], "accuracy"])
    without = simulate("digits", out=folder, **NETS, methods="local,fedavg")
    assert assess(without).methods["bar"]["fedavg"] is None
    assert "(add local_rounds)" in headline(without, assess(without))
    for site in ("site-0", "site-1", "site-2"):
        one, other = (each.predictions[0, "local", site]["probabilities"] for each in (run, without))
        assert np.array_equal(one, other), "whatever stands beside it"


def test_local_with_a_setting_of_its_own_is_still_what_others_are_held_to(folder: Path) -> None:
    run = simulate("digits", out=folder, **NETS, methods="local_rounds,fedavg", method={"local_rounds": {"lr": 0.3}})
    assert set(run.results["method"]) == {"local_rounds", "fedavg"}
    assert set(run.results.groupby("method")["lr"].first()) == {0.1, 0.3}
    assert assess(run).methods["accuracy_gain"].notna().any()


def test_tuning_takes_the_learning_rate_that_does_best_on_validation_rows(folder: Path, tmp_path: Path) -> None:
    tried = learning_rates(0.001, 3)
    told: list[dict[str, Any]] = []
    base = {**NETS, "training": {"rounds": 3, "lr": 0.001}}
    run = simulate("digits", out=folder, **base, methods="fedavg,local_rounds", tune=3, on_event=told.append)
    assert Counter(event["event"] for event in told)["tuned"] == 2
    alone = {}
    for lr in tried:
        one = {**NETS, "training": {"rounds": 3, "lr": lr}, "methods": "fedavg,local_rounds"}
        alone[lr] = simulate("digits", out=tmp_path, **one)
    for method in ("fedavg", "local_rounds"):
        scores = {lr: best_validation(each, method) for lr, each in alone.items()}
        best = max(tried, key=lambda lr: scores[lr])
        assert set(run.results.loc[run.results["method"] == method, "lr"]) == {best}
        for site in ("site-0", "site-1", "site-2"):
            chosen = run.predictions[0, method, site]["probabilities"]
            assert np.array_equal(chosen, alone[best].predictions[0, method, site]["probabilities"])
    assert {line["method"]: line["tried"] for line in assess(run).tuned} == {"fedavg": tried, "local_rounds": tried}
    again = simulate("digits", out=folder, **base, methods="fedavg,local_rounds", tune=3)
    pd.testing.assert_frame_equal(again.results, run.results)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_learning_rate_that_fails_everywhere_is_not_chosen(tmp_path: Path, offer: Any, rounds: int) -> None:
    offer("steep", "test_front_rounds:Steep")
    settings = {**NETS, "methods": "steep", "training": {"rounds": rounds, "lr": 0.1}}
    run = simulate("digits", out=tmp_path, **settings, tune=5)
    assert set(run.results["lr"]) == {0.01}, "of 0.1, 0.033, 0.3, 0.01, 1"
    assert (run.results["fell_back_to"] == "").all()
    with pytest.raises(ModelError, match="the loss was NaN"):
        simulate("digits", out=tmp_path / "other", **{**settings, "training": {"rounds": rounds, "lr": 9.0}}, tune=2)


def test_equal_scores_take_the_earlier_learning_rate(tmp_path: Path, offer: Any) -> None:
    offer("steep", "test_front_rounds:Steep")
    run = simulate("digits", out=tmp_path, **{**NETS, "training": {"rounds": 2, "lr": 0.02}}, methods="steep", tune=2)
    assert set(run.results["lr"]) == {0.02}


def test_who_was_absent_is_in_the_results_and_changes_the_numbers(folder: Path) -> None:
    whole = simulate("digits", out=folder, **NETS, methods="fedavg")
    run = simulate("digits", out=folder, **NETS, methods="fedavg", absent={"site-1": [0, 2]})
    assert run.results.set_index("site")["took_part"].to_dict() == {"site-0": 3, "site-1": 1, "site-2": 3}
    assert (whole.results["took_part"] == 3).all()
    assert run.predictions[0, "fedavg", "site-1"]["took_part"] == [1]
    assert assess(run).missed_rounds == [
        {"seed": 0, "method": "fedavg", "site": "site-1", "rounds": 3, "took_part": [1]}
    ]
    one, other = (each.predictions[0, "fedavg", "site-0"]["probabilities"] for each in (whole, run))
    assert not np.array_equal(one, other)


def test_with_join_a_part_of_the_sites_shares_in_each_round(folder: Path) -> None:
    run = simulate("digits", out=folder, **NETS, methods="fedavg", join=0.34)
    rounds = Counter(round for tree in run.predictions.values() for round in tree["took_part"])
    assert rounds == {0: 1, 1: 1, 2: 1}


def test_an_absent_site_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent: unknown site 'site-9': .*Choices: site-0, site-1, site-2"):
        simulate("digits", out=tmp_path / "run", **NETS, methods="fedavg", absent={"site-9": [0]})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"methods": "local,best_single", "training": {}, "join": 0.5},
         "join is 0.5, but local, best_single have one round only.*e.g. fedavg"),
        ({"methods": "local,best_single", "training": {}, "absent": {"site-0": [0]}},
         r"absent is {'site-0': \[0\]}, but local, best_single have one round only"),
        ({"methods": "fedavg,local_rounds", "training": {"rounds": 1}, "join": 0.5},
         "join is 0.5, but fedavg, local_rounds have one round only, in which all sites take part"),
        ({"methods": "fedavg", "absent": {"site-1": [2, 3, 7]}},
         "absent.site-1 has 3, 7: expected rounds from 0 to 2, as no method has more"),
    ],
)  # fmt: skip
def test_rounds_that_nobody_can_miss_are_refused_before_any_work(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        simulate("digits", out=tmp_path / "run", **{**NETS, **settings})
    assert not (tmp_path / "run").exists()
    simulate("digits", out=tmp_path / "run", **{**NETS, "methods": "local", "training": {}, "absent": {"site-0": []}})


def test_methods_that_had_all_sites_while_others_had_not_are_named(folder: Path) -> None:
    run = simulate("digits", out=folder, **NETS, methods="local_rounds,fedavg,centralised_rounds", join=0.67)
    found = assess(run)
    assert found.had_all_sites == ["centralised_rounds"]
    console = Console(file=io.StringIO(), width=80)
    print_assessment(found, console)
    assert "centralised_rounds: one round only, with all sites" in console.file.getvalue()  # type: ignore[attr-defined]
    present = simulate("digits", out=folder, **NETS, methods="local_rounds,fedavg,centralised_rounds")
    assert assess(present).had_all_sites == []


def test_a_site_that_never_took_part_nor_heard_says_that_its_model_is_untrained(folder: Path) -> None:
    run = simulate("digits", out=folder, **NETS, methods="fedavg,local_rounds", absent={"site-1": [0, 1, 2]})
    told = run.results.set_index(["method", "site"])[["fell_back_to", "fell_back_why"]]
    untrained = ["an untrained model", "took part in no round and received nothing"]
    for method in ("fedavg", "local_rounds"):
        assert told.loc[method, "site-1"].tolist() == untrained
        assert told.loc[method, "site-0"].tolist() == ["", ""]
    heard = simulate("digits", out=folder, **NETS, methods="fedavg", join=0.34)
    silent = heard.results["took_part"] == 0
    assert silent.any()
    assert (heard.results["fell_back_to"] == "").all(), "who only heard has the others' model"


def test_bytes_are_counted_both_ways_and_curves_are_kept(folder: Path) -> None:
    run = simulate("digits", out=folder, **NETS, methods="fedavg")
    assert (run.results["bytes_sent"] > 1000).all()
    assert (run.results["bytes_received"] > 1000).all()
    kept = pd.read_parquet(folder / "curves.parquet")
    pd.testing.assert_frame_equal(kept, run.curves, check_dtype=False)
    accuracy = kept[kept["name"] == "validation accuracy"]
    assert accuracy.groupby("site")["round"].apply(list).to_dict() == {f"site-{i}": [0, 1, 2] for i in range(3)}


def test_models_that_are_no_nets_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no neural network among its models \(logistic, forest, boosting\)"):
        simulate("digits", out=tmp_path / "run", **{**NETS, "models": []}, methods="local,fedavg")
    assert not (tmp_path / "run").exists()
