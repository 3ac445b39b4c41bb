"""A site whose training, learning or answering fails: the run goes on, and says what answered there and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failing_methods import SITE

from peerwise import Run, load, simulate
from peerwise.data import Dataset, Feature
from peerwise.errors import ConfigError, ModelError
from peerwise.models import ZOO, OnnxModel
from peerwise.run import RunFolder

SMALL: dict[str, Any] = {"sites": 3, "rows": 240, "models": ["logistic"], "seeds": 1, "folds": 2}
FAILING = {
    "to_share": "FailsToShare",
    "to_learn": "FailsToLearn",
    "to_answer": "FailsToAnswer",
    "last": "FailsInTheEnd",
}


@pytest.fixture(autouse=True)
def offered(offer: Any) -> None:
    for name, kind in FAILING.items():
        offer(name, f"failing_methods:{kind}")


def fell_back(run: Run, method: str) -> dict[str, tuple[str, str]]:
    """What the results say, site by site; the predictions say the same."""
    found = {}
    for row in run.results[run.results["method"] == method].itertuples():
        kept = run.predictions[row.seed, method, row.site]["fell_back"]
        assert (kept is None) == (row.fell_back_to == "") == (row.fell_back_why == "")
        if kept:
            assert (kept["to"], kept["why"]) == (row.fell_back_to, row.fell_back_why)
            found[row.site] = (row.fell_back_to, row.fell_back_why)
    return found


def answers(run: Run, method: str, site: str = SITE) -> Any:
    return run.predictions[0, method, site]["probabilities"]


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [event for event in found if event["event"] == name]


def test_where_learning_fails_the_own_models_answer(tmp_path: Path) -> None:
    run = simulate("digits", out=tmp_path, **SMALL, methods="local,to_learn,best_single")
    assert fell_back(run, "to_learn") == {SITE: ("own models", "absorb: RuntimeError: no convergence")}
    assert np.array_equal(answers(run, "to_learn"), answers(run, "local"))
    for other in ("site-0", "site-2"):
        assert np.array_equal(answers(run, "to_learn", other), answers(run, "best_single", other))
    (told,) = events(tmp_path, "failed")
    assert (told["site"], told["step"], told["why"]) == (SITE, "absorb", "RuntimeError: no convergence")
    assert 'raise RuntimeError("no convergence")' in told["trace"]


def test_a_site_that_fell_back_to_its_own_models_still_counts_as_a_tie() -> None:
    run = simulate("digits", **SMALL, methods="to_learn")
    (row,) = [row for row in run.results.itertuples() if row.site == SITE]
    assert row.fell_back_to == "own models"
    assert row.own_accuracy == row.accuracy


def test_where_answering_fails_the_own_models_or_the_labels_answer() -> None:
    run = simulate("digits", **SMALL, methods="to_answer,local")
    found = fell_back(run, "to_answer")
    assert found[SITE][0] == "own models"
    assert "predict: BadOutputs" in found[SITE][1]
    assert "non-finite" in found[SITE][1]
    assert set(found) == {SITE}
    assert np.array_equal(answers(run, "to_answer"), answers(run, "local"))


class Unlucky:
    """A recipe that fails at the site with so many train rows, and works elsewhere."""

    def __init__(self, name: str, rows: int) -> None:
        self.fit, self.rows = ZOO[name].fit, rows

    def __call__(self, train: Any, *rest: Any, **settings: Any) -> Any:
        if len(train) == self.rows:
            raise FloatingPointError("overflow")
        return self.fit(train, *rest, **settings)


def unlucky(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    counts = simulate("digits", **SMALL, methods="local").predictions[0, "local", SITE]["label_counts"]
    for name in names:
        monkeypatch.setitem(ZOO, name, replace(ZOO[name], fit=Unlucky(name, int(counts.sum()))))


def test_a_site_that_trains_nothing_shares_nothing_and_asks_its_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlucky(monkeypatch, "logistic")
    run = simulate("digits", out=tmp_path, **SMALL, methods="local,best_single")
    why = "share: FloatingPointError: overflow"
    assert fell_back(run, "local") == {SITE: ("label frequencies", why)}
    assert fell_back(run, "best_single") == {SITE: ("peers' models", why)}
    sent = run.results.set_index(["method", "site"])["bytes_sent"]
    assert sent["best_single", SITE] == 0
    assert sent["best_single", "site-0"] > 0
    parcels = RunFolder(tmp_path).load_states("best_single-s0").parcels
    assert sorted(parcels) == ["site-0", "site-2"]
    others = run.predictions[0, "best_single", "site-0"]["details"]
    assert others["models"] == ["logistic@site-0", "logistic@site-2"]
    rows = json.loads((tmp_path / "split.json").read_text())["0"][SITE]["test"]
    X = load("digits").X[rows]
    mean = np.mean([OnnxModel(parcel["models"]["logistic"]).predict_proba(X) for parcel in parcels.values()], axis=0)
    assert np.allclose(answers(run, "best_single"), mean, atol=1e-6)
    counts = run.predictions[0, "local", SITE]["label_counts"] + 1
    assert np.allclose(answers(run, "local"), counts / counts.sum())
    assert {(event["run"], event["site"]) for event in events(tmp_path, "failed")} == {
        ("local-s0", SITE),
        ("best_single-s0", SITE),
    }


def test_a_site_with_one_bad_recipe_goes_on_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    unlucky(monkeypatch, "forest")
    run = simulate("digits", **{**SMALL, "models": ["logistic", "forest"]}, methods="local,best_single,peerwise")
    for method in ("local", "best_single", run.experiment.label("peerwise")):
        assert fell_back(run, method) == {SITE: ("other own models", "forest: FloatingPointError: overflow")}
    models = run.predictions[0, "best_single", "site-0"]["details"]["models"]
    assert models == ["forest@site-0", "logistic@site-0", "logistic@site-1", "forest@site-2", "logistic@site-2"]


def hospitals(**spoiled: Any) -> Dataset:
    """Three sites of 40 rows, 24 to train on, 8 to validate and 8 to test; ``spoiled``: what a site's train rows are
    given instead, or how many of them there are."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = (rng.normal(size=(120, 3)) + 2 * y[:, None]).astype(np.float32)
    site = np.repeat(["a", "b", "c"], 40)
    split = np.tile(np.repeat([0, 1, 2], [24, 8, 8]), 3).astype(np.int8)
    train_b = (site == "b") & (split == 0)
    if "value" in spoiled:
        X[np.flatnonzero(train_b)[:3], 1] = spoiled["value"]
    if "label" in spoiled:
        y[(site == "b") & (split != 2)] = spoiled["label"]
    keep = np.ones(120, bool)
    if "rows" in spoiled:
        keep[np.flatnonzero((site == "b") & (split != 2))[spoiled["rows"] :]] = False
    features = tuple(Feature(name) for name in ("age", "dose", "bmi"))
    return Dataset("hospitals", "table", X[keep], y[keep].astype(np.int64), ("no", "yes"), features, site[keep],
                   natural_split=split[keep])  # fmt: skip


def test_a_loss_that_becomes_nan_leaves_the_site_to_its_peers() -> None:
    run = simulate(hospitals(value=np.inf), models="mlp", epochs=60, folds=2, seeds=1, methods="local,best_single")
    to, why = fell_back(run, "best_single")["b"]
    assert to == "peers' models"
    assert why.startswith("share: ModelError: training loss became nan")
    assert fell_back(run, "local")["b"][0] == "label frequencies"
    assert set(fell_back(run, "best_single")) == {"b"}
    assert run.results.set_index(["method", "site"])["accuracy"]["best_single", "b"] > 0.7


def test_a_site_with_nothing_to_train_on_asks_its_peers() -> None:
    run = simulate(hospitals(rows=0), models="mlp,logistic", epochs=2, folds=2, seeds=1, methods="local,best_single")
    assert fell_back(run, "best_single")["b"][0] == "peers' models"
    assert np.allclose(answers(run, "local", "b"), 0.5)


@pytest.mark.parametrize("spoiled", [{"label": 1}, {"rows": 2}, {"rows": 1}], ids=str)
def test_one_class_two_rows_or_one_row_are_no_failure(spoiled: dict[str, int]) -> None:
    run = simulate(
        hospitals(**spoiled), models="mlp,logistic", epochs=2, folds=2, seeds=1, methods="local,best_single,peerwise"
    )
    assert all(fell_back(run, method) == {} for method in run.results["method"].unique())
    assert len(run.results) == 9
    assert run.results["accuracy"].notna().all()


@pytest.mark.parametrize("step", ["share", "absorb"])
def test_a_site_that_fails_in_a_late_round_keeps_its_best_one_and_the_others_go_on(tmp_path: Path, step: str) -> None:
    run = simulate("digits", out=tmp_path, **SMALL, methods="last", method={"last": {"step": step}})
    label = run.experiment.label("last")
    found = fell_back(run, label)
    assert set(found) == {SITE}
    assert found[SITE][1] == f"{step}: ArithmeticError: diverged"
    best = run.predictions[0, label, SITE]["best_round"]
    assert found[SITE][0] == f"round {best} of the same method"
    heard = run.predictions[0, label, "site-0"]["curves"]["heard"]
    assert heard == [[0, 3], [1, 3], [2, 3], [3, 2 if step == "share" else 3]]


def test_where_everybody_fails_the_run_stops_with_the_reason_and_goes_on_once_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"methods": "local,to_share", "method": {"to_share": {"where": "everywhere", "mistake": "a bug"}}}
    with pytest.raises(
        ModelError, match=r"to_share.*share failed at every site still at work.*'site-0': ValueError: a bug"
    ) as caught:
        simulate("digits", out=tmp_path, **SMALL, **settings)
    assert "in share\n" in "".join(caught.value.__notes__)
    monkeypatch.setenv("MENDED", "yes")
    run = simulate("digits", out=tmp_path, **SMALL, **settings)
    assert fell_back(run, run.experiment.label("to_share")) == {}


def test_what_is_the_users_mistake_stops_the_run_even_at_one_site(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="site 'site-1': wrong key"):
        simulate("digits", out=tmp_path, **SMALL, methods="to_share", method={"to_share": {"mistake": "config"}})


def test_running_again_gives_the_same_answers_and_tries_nothing_again(tmp_path: Path) -> None:
    first = simulate("digits", out=tmp_path, **SMALL, methods="to_share,to_learn,to_answer")
    failures = events(tmp_path, "failed")
    again = simulate("digits", out=tmp_path, **SMALL, methods="to_share,to_learn,to_answer")
    assert first.results.equals(again.results)
    assert events(tmp_path, "failed") == failures
    assert len(failures) == 3
