"""The simulator: the same numbers however it is run, and going on wherever it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.data import Dataset, Feature, load
from peerwise.errors import ConfigError, DataError, ModelError, PartitionError
from peerwise.methods import Local, method_names, registry
from peerwise.models import ZOO
from peerwise.run import Experiment, RunFolder, federation, read_experiments, simulate

DATA = os.environ.get("PEERWISE_DATA")
SMALL: dict[str, Any] = {"sites": 3, "rows": 240, "models": ["logistic"], "seeds": 1, "folds": 2}
COLUMNS = [
    "seed", "method", "site", "test_rows", "accuracy", "balanced_accuracy", "log_loss", "ensemble_size", "ess",
    "fallback", "oracle", "bytes_sent", "best_round", "seconds_train", "seconds_fit", "seconds_predict",
]  # fmt: skip


def numbers(results: pd.DataFrame) -> pd.DataFrame:
    """All that must not depend on the clock."""
    return results[[column for column in results.columns if not column.startswith("seconds_")]]


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(numbers(one), numbers(other), check_exact=True)


def files_of(folder: Path) -> dict[str, int]:
    """Everything that costs work, with its time of writing."""
    kept = [path for part in ("kept", "blobs", "sites") for path in (folder / part).rglob("*") if path.is_file()]
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


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Offer a method of the tests as an installed package would."""
    known = list(registry.entry_points(group=registry.GROUP))

    def add(name: str, where: str) -> None:
        known.append(EntryPoint(name, where, registry.GROUP))
        monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(known))
        method_names.cache_clear()

    yield add
    method_names.cache_clear()


def test_results_have_a_row_for_each_seed_method_and_site(tmp_path: Path) -> None:
    run = simulate("digits", out=tmp_path, **{**SMALL, "seeds": 2}, methods="local, best_single")
    assert set(COLUMNS) | {"seconds_outputs"} == set(run.results.columns)
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
            kept = RunFolder(tmp_path).load_predictions(name, f"local-s{seed}")
            assert kept["y"].tolist() == data.y[site["test"]].tolist()
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
    assert len(list((folder / "sites").iterdir())) == 3


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


def test_workers_never_change_the_numbers(tmp_path: Path) -> None:
    settings = {**SMALL, "models": ["mlp", "logistic"], "epochs": 2, "methods": "local,decision_mlp,centralised"}
    settings["method"] = {"decision_mlp": {"epochs": 3}}
    told: list[dict[str, Any]] = []
    one = simulate("digits", out=tmp_path / "one", workers=1, **settings)
    two = simulate("digits", out=tmp_path / "two", workers=2, on_event=told.append, **settings)
    same(one.results, two.results)
    for path in (tmp_path / "one" / "sites").rglob("predictions/*.json"):
        site, name = path.parent.parent.name, path.stem
        ours, theirs = (RunFolder(tmp_path / part).load_predictions(site, name) for part in ("one", "two"))
        assert np.array_equal(ours["probabilities"], theirs["probabilities"])
    assert Counter(event["event"] for event in told)["predicted"] == 9


KILLED = """
import os, signal, sys
from peerwise import simulate
seen = 0
def watch(event):
    global seen
    seen += event["event"] == sys.argv[2]
    if seen == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
simulate("digits", out=sys.argv[1], sites=3, rows=240, models=["mlp", "logistic"], seeds=2, folds=2, epochs=2,
         methods="local,best_single", on_event=watch)
"""


@pytest.mark.parametrize(("event", "count"), [("shared", 5), pytest.param("absorbed", 8, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_same_results(tmp_path: Path, event: str, count: int) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), event, str(count)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "results.parquet").exists()
    done = files_of(tmp_path / "killed")
    settings = {**SMALL, "seeds": 2, "models": ["mlp", "logistic"], "epochs": 2, "methods": "local,best_single"}
    simulate("digits", out=tmp_path / "killed", **settings)
    simulate("digits", out=tmp_path / "whole", **settings)
    same(*(pd.read_parquet(tmp_path / part / "results.parquet") for part in ("killed", "whole")))
    after = files_of(tmp_path / "killed")
    kept = {path for path in done if "/kept/" in path}
    assert kept
    assert all(after[path] == done[path] for path in kept), "what was trained before is not trained again"


class FailsAtOneSite(Local):
    """Fails at one site until it is mended."""

    def share(self, site: Any, round: int) -> Any:
        if site.name == "site-1" and not os.environ.get("MENDED"):
            raise {"model": ModelError("no such luck"), "other": ZeroDivisionError("by zero")}[os.environ["FAULT"]]
        return super().share(site, round)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [("model", ModelError, "no such luck"), ("other", RuntimeError, "ZeroDivisionError: by zero")],
)
def test_a_failing_site_is_named_and_the_folder_stays_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offer: Any, fault: str, kind: type[Exception], message: str
) -> None:
    offer("fails", f"{__name__}:FailsAtOneSite")
    monkeypatch.setenv("FAULT", fault)
    with pytest.raises(kind, match=rf"site 'site-1': {message}"):
        simulate("digits", out=tmp_path, **SMALL, methods="local,fails")
    monkeypatch.setenv("MENDED", "yes")
    run = simulate("digits", out=tmp_path, **SMALL, methods="local,fails")
    both = [numbers(part).drop(columns="method").reset_index(drop=True) for _, part in run.results.groupby("method")]
    pd.testing.assert_frame_equal(*both)


BROKEN_WORKER = """
import os, signal, sys
import peerwise.methods.registry as registry
from importlib.metadata import EntryPoint, EntryPoints
known = [*registry.entry_points(group=registry.GROUP), EntryPoint("dies", "worker_methods:Dies", registry.GROUP),
         EntryPoint("raises", "worker_methods:Raises", registry.GROUP)]
registry.entry_points = lambda group: EntryPoints(known)
from peerwise import simulate
from peerwise.errors import PeerwiseError
for name in ("raises", "dies"):
    try:
        simulate("digits", out=sys.argv[1], workers=2, sites=3, rows=240, models=["logistic"], seeds=1, folds=2,
                 methods=name)
    except (PeerwiseError, RuntimeError) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\\n")
run = simulate("digits", out=sys.argv[1], workers=1, sites=3, rows=240, models=["logistic"], seeds=1, folds=2,
               methods="local")
sys.stdout.write(f"{len(run.results)} rows\\n")
"""


@pytest.mark.slow
def test_a_worker_that_fails_or_dies_is_told_with_its_site(tmp_path: Path) -> None:
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", BROKEN_WORKER, str(tmp_path / "run")]
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": here}, check=True, capture_output=True, text=True, timeout=300
    ).stdout.splitlines()
    assert found[0] == "RuntimeError: site 'site-1': ValueError: not at site-1"
    assert found[1].startswith("PeerwiseError: a worker process was ended from outside")
    assert "site-1" in found[1]
    assert found[2] == "3 rows"


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
            assert state["turns"] == [1, 2, 3]
            own = load("digits")
            rows = json.loads((tmp_path / "split.json").read_text())["0"][name]["train"]
            level = float(np.asarray(own.X)[rows].mean())
            assert (state["mean"] == pytest.approx(-level)) if single else (state["mean"] > 0)
    assert Counter(event["event"] for event in told)["shared"] == 2 * 3 * 3


def test_different_columns_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"FedDES runs one site's models.*methods for different columns come with stac"):
        simulate("heart_disease", out=tmp_path / "run", partition="vertical", sites=3, methods="local,feddes", seeds=1)
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
    with pytest.raises(ConfigError, match=r"cannot be written .*choose another folder"):
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
