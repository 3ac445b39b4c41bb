"""The simulator: the same numbers however it is run, and going on wherever it stopped."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.data import Dataset, Feature, load
from peerwise.errors import ConfigError, DataError, PartitionError, StorageError
from peerwise.models import ZOO
from peerwise.run import Experiment, RunFolder, federation, read_experiments, simulate

DATA = os.environ.get("PEERWISE_DATA")
SMALL: dict[str, Any] = {"sites": 3, "rows": 240, "models": ["logistic"], "seeds": 1, "folds": 2}
COLUMNS = [
    "seed", "method", "site", "test_rows", "accuracy", "balanced_accuracy", "log_loss", "ensemble_size", "ess",
    "fallback", "oracle", "bytes_sent", "best_round", "seconds_train", "seconds_fit", "seconds_predict",
    "fell_back_to", "fell_back_why", "peers_left_out",
]  # fmt: skip


def numbers(results: pd.DataFrame) -> pd.DataFrame:
    """All that must not depend on the clock."""
    return results[[column for column in results.columns if not column.startswith("seconds_")]]


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(numbers(one), numbers(other), check_exact=True)


def files_of(folder: Path) -> dict[str, int]:
    """Everything that costs work, with its time of writing."""
    kept = [
        path
        for part in ("kept", "blobs", "states", "predictions")
        for path in (folder / part).rglob("*")
        if path.is_file()
    ]
    return {str(path): path.stat().st_mtime_ns for path in kept}


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted: Counter[str] = Counter()
    recipe = ZOO["logistic"]

    def fit(*rows: Any, **settings: Any) -> Any:
        counted["logistic"] += 1
        return recipe.fit(*rows, **settings)

    monkeypatch.setitem(ZOO, "logistic", replace(recipe, fit=fit))
    return counted


def test_results_have_a_row_for_each_seed_method_and_site(tmp_path: Path) -> None:
    run = simulate("digits", out=tmp_path, **{**SMALL, "seeds": 2}, methods="local, best_single")
    assert set(COLUMNS) | {"seconds_outputs"} <= set(run.results.columns)
    assert len(run.results) == 2 * 2 * 3
    kept = pd.read_parquet(tmp_path / "results.parquet")
    pd.testing.assert_frame_equal(kept, run.results, check_dtype=False)
    local = run.results[run.results["method"] == "local"]
    assert (local["bytes_sent"] == 0).all()
    assert local["ess"].isna().all()
    single = run.results[run.results["method"] == "best_single"]
    assert (single["bytes_sent"] > 1000).all()
    assert (single["ess"] == 1).all()
    assert (single["oracle"] >= single["accuracy"]).all()
    assert run.folder == tmp_path


def test_the_split_file_names_every_row_of_the_data_set_once(tmp_path: Path) -> None:
    run = simulate("digits", out=tmp_path, **{**SMALL, "seeds": 2}, methods="local")
    data = load("digits")
    splits = json.loads((tmp_path / "split.json").read_text())
    assert set(splits) == {"0", "1"}
    drawn = []
    for seed, split in splits.items():
        rows = [row for site in split.values() for part in ("train", "val", "test") for row in site[part]]
        assert len(rows) == len(set(rows)) == 240
        assert max(rows) > 240, "row numbers are those of the whole data set"
        drawn.append(set(rows))
        for name, site in split.items():
            assert site["models"] == ["logistic"]
            kept = RunFolder(tmp_path).load_predictions(f"local-s{seed}")
            assert kept is not None
            assert kept[name]["y"].tolist() == data.y[site["test"]].tolist()
    assert drawn[0] != drawn[1]
    sites = federation(run.experiment, data, 1)
    assert np.array_equal(np.asarray(sites[0].train.X), np.asarray(data.X)[sites[0].index["train"]])


def test_the_settings_can_be_read_back_as_an_experiment(tmp_path: Path) -> None:
    run = simulate("digits", out=tmp_path, **SMALL, partition="dirichlet", partition_settings={"alpha": np.float64(1)},
                   methods=["local", "neighbourhood"], method={"neighbourhood": {"k": np.int64(3)}})  # fmt: skip
    read = read_experiments(tmp_path / "config.toml")
    assert read == {"config": run.experiment}
    assert read["config"].pool_key == run.experiment.pool_key
    label = run.experiment.label("neighbourhood")
    assert label.startswith("neighbourhood~")
    assert set(run.results["method"]) == {"local", label}
    again = simulate(read["config"], out=tmp_path)
    same(again.results, run.results)


def test_running_again_does_no_work(tmp_path: Path, trainings: Counter[str]) -> None:
    first = simulate("digits", out=tmp_path, **SMALL, methods="local,best_single")
    before, worked = files_of(tmp_path), trainings["logistic"]
    assert worked == 3 * (1 + 2)
    told: list[dict[str, Any]] = []
    second = simulate("digits", out=tmp_path, **SMALL, methods="local,best_single", on_event=told.append)
    assert files_of(tmp_path) == before
    assert trainings["logistic"] == worked
    assert {event["event"] for event in told} == {"start", "method", "end"}
    pd.testing.assert_frame_equal(second.results, first.results)


def test_another_method_or_seed_trains_nothing_that_was_trained(tmp_path: Path, trainings: Counter[str]) -> None:
    simulate("digits", out=tmp_path, **SMALL, methods="best_single")
    assert trainings["logistic"] == 9
    more = simulate("digits", out=tmp_path, **SMALL, methods="best_single,local,neighbourhood,global_ensemble")
    assert trainings["logistic"] == 9
    assert more.results["method"].nunique() == 4
    seeds = simulate("digits", out=tmp_path, **{**SMALL, "seeds": 2}, methods="best_single")
    assert trainings["logistic"] == 18
    first_seed = seeds.results[seeds.results["seed"] == 0].reset_index(drop=True)
    same(first_seed, more.results[more.results["method"] == "best_single"].reset_index(drop=True))


@pytest.mark.parametrize(
    "other",
    [{"sites": 4}, {"rows": 200}, {"models": ["forest"]}, {"folds": 3}, {"public": 5},
     {"partition": "quantity"}],
    ids=str,
)  # fmt: skip
def test_a_folder_of_another_federation_is_refused(
    tmp_path_factory: pytest.TempPathFactory, other: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "one-federation"
    simulate("digits", out=folder, **SMALL, methods="local")
    before = (folder / "config.toml").read_text()
    with pytest.raises(ConfigError, match="holds a run with other data, sites, models or training"):
        simulate("digits", out=folder, **{**SMALL, **other}, methods="local")
    assert (folder / "config.toml").read_text() == before


def at_hand(seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = np.arange(90) % 3
    X = (rng.normal(size=(90, 4)) + 2 * y[:, None]).astype(np.float32)
    site = np.array(["north/1", "..", "Zürich"])[np.arange(90) // 30]
    return Dataset("mine", "table", X, y, ("a", "b", "c"), tuple(Feature(f"f{i}") for i in range(4)), site=site)


def test_a_data_set_at_hand_works_with_sites_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    run = simulate(at_hand(), out=folder, models="logistic", seeds=1, folds=2, methods="local,best_single")
    assert set(run.results["site"]) == {"north/1", "..", "Zürich"}
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(folder)]
    assert outside == []
    again = simulate(at_hand(), out=folder, models="logistic", seeds=1, folds=2, methods="local,best_single")
    same(again.results, run.results)


def test_a_folder_belongs_to_its_rows_their_names_and_their_sites(tmp_path: Path) -> None:
    simulate(at_hand(), out=tmp_path, models="logistic", seeds=1, methods="local")
    data = at_hand()
    renamed = replace(data, classes=("x", "y", "z"))
    moved = replace(data, site=np.roll(np.asarray(data.site), 1))
    for other in (at_hand(1), renamed, moved):
        with pytest.raises(ConfigError, match="holds a run with other data"):
            simulate(other, out=tmp_path, models="logistic", seeds=1, methods="local")
    simulate(at_hand(), out=tmp_path, models="logistic", seeds=1, methods="local")


def test_without_a_folder_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = simulate("digits", **SMALL, methods="local")
    assert run.folder is None
    assert len(run.results) == 3
    assert list(tmp_path.iterdir()) == []


def test_public_rows_belong_to_no_site(tmp_path: Path) -> None:
    run = simulate("digits", out=tmp_path, **SMALL, methods="local", public=40)
    sites = federation(run.experiment, load("digits"), 0)
    assert all(site.public is not None and len(site.public) == 40 for site in sites)
    split = json.loads((tmp_path / "split.json").read_text())["0"]
    assert sum(len(site[part]) for site in split.values() for part in ("train", "val", "test")) == 200


@pytest.mark.slow
def test_workers_never_change_the_numbers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"models": ["mlp", "logistic", "forest"], "folds": 2, "epochs": 3, "seeds": 1}
    settings |= {
        "methods": "local,peerwise,feddes,centralised",
        "method": {"feddes": {"epochs": 3, "hidden": 8}},
    }
    one = simulate("heart_disease", out=tmp_path / "1", **settings)
    for workers in (2, 3):
        told: list[dict[str, Any]] = []
        more = simulate("heart_disease", out=tmp_path / str(workers), workers=workers, on_event=told.append, **settings)
        same(one.results, more.results)
        for key, tree in one.predictions.items():
            assert np.array_equal(tree["probabilities"], more.predictions[key]["probabilities"])
        assert Counter(event["event"] for event in told)["predicted"] == 4 * 4


def test_a_round_based_method_comes_out_as_in_one_process(tmp_path: Path, offer: Any) -> None:
    offer("mean", "toy_methods:Mean")
    told: list[dict[str, Any]] = []
    for single in (False, True):
        settings = {"methods": "mean", "method": {"mean": {"rounds": 3, "single": single}}}
        run = simulate("digits", out=tmp_path, **SMALL, **settings, on_event=told.append)
        label = run.experiment.label("mean")
        for name in run.results["site"]:
            state = RunFolder(tmp_path).load_state(name, f"{label}-s0")
            assert state is not None
            assert state["turns"] == [1, 2, 3][: state["run"]["best_round"] + 1]
            assert run.predictions[0, label, name]["took_part"] == [0, 1, 2]
            own = load("digits")
            rows = json.loads((tmp_path / "split.json").read_text())["0"][name]["train"]
            level = float(np.asarray(own.X)[rows].mean())
            assert (state["mean"] == pytest.approx(-level)) if single else (state["mean"] > 0)
    assert Counter(event["event"] for event in told)["round"] == 2 * 3


def test_different_columns_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"PeerwiseClassifier runs one site's models.*Use method 'stacking', which matches"
    ):
        simulate(
            "heart_disease", out=tmp_path / "run", partition="vertical", sites=3, methods="local,peerwise", seeds=1
        )
    assert not (tmp_path / "run").exists()
    run = simulate("heart_disease", partition="vertical", sites=3, models="logistic", methods="local", seeds=1)
    assert len(run.results) == 3


def test_a_partition_that_cannot_be_made_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(PartitionError):
        simulate("digits", out=tmp_path / "run", **{**SMALL, "sites": 200}, methods="local")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers is 0: expected at least 1"),
        ({"workers": "two"}, "workers is 'two': expected a whole number"),
        ({"device": "abacus"}, "device is 'abacus'"),
        ({"sitess": 3}, "unknown experiment key 'sitess': did you mean 'sites'"),
        ({"models": ["small_cnn"]}, r"models: 'small_cnn' takes image rows, data set 'digits' has table rows"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {**SMALL, **settings}
    for dataset in ("digits", Experiment(dataset="digits")):
        with pytest.raises(ConfigError, match=message):
            simulate(dataset, out=tmp_path / "run", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is a file: expected a folder"):
        simulate("digits", out=tmp_path / "file", **SMALL, methods="local")
    with pytest.raises(StorageError, match=r"cannot be written .*choose another folder"):
        simulate("digits", out=tmp_path / "file" / "below", **SMALL, methods="local")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not DATA, reason="set PEERWISE_DATA to the folder of the data sets")
def test_images_of_a_split_file_with_one_model_a_site_in_turn(tmp_path: Path) -> None:
    whole = Path(str(DATA)).parent / "splits" / "fmnist_n2000_C3_a1_s0.npz"
    if not whole.is_file():
        pytest.skip(f"{whole} is not there")
    with np.load(whole) as arrays:
        few = arrays["client"] < 5
        np.savez(
            tmp_path / "few.npz", meta=arrays["meta"], **{k: arrays[k][few] for k in ("x", "y", "client", "split")}
        )
    split, out = tmp_path / "few.npz", tmp_path / "run"
    run = simulate(split, out=out, epochs=1, folds=2, seeds=1, models="small_cnn,lenet", methods="local,best_single")
    data = load(split)
    assert run.experiment.assign == "cycle"
    assert run.experiment.partition == "natural"
    found = json.loads((out / "split.json").read_text())["0"]
    assert [site["models"] for site in found.values()] == [[("small_cnn", "lenet")[i % 2]] for i in range(len(found))]
    assert data.natural_split is not None
    for part, code in (("train", 0), ("val", 1), ("test", 2)):
        rows = sorted(row for site in found.values() for row in site[part])
        assert rows == np.flatnonzero(data.natural_split == code).tolist()
    assert len(run.results) == 2 * len(found)
