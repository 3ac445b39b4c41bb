"""Federations of the experiment keys: public rows with a name and a hash, sites with flipped labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from peerwise.data import digest, load
from peerwise.errors import ConfigError
from peerwise.evaluate import assess
from peerwise.report import print_assessment
from peerwise.run import Experiment, federation, simulate

SMALL: dict[str, Any] = {"sites": 3, "rows": 240, "models": ["logistic"], "seeds": 2, "folds": 2, "methods": "local"}


def test_the_split_file_names_the_public_rows_of_every_seed(tmp_path: Path) -> None:
    simulate("digits", out=tmp_path, **SMALL, public=40, public_alpha=0.3)
    splits, data = json.loads((tmp_path / "split.json").read_text()), load("digits")
    assert set(splits) == {"0", "1", "public"}
    for seed, public in splits["public"].items():
        assert public["name"] == "digits/public-40"
        assert public["sha256"] == digest(data.X[np.array(public["rows"])])
        at_sites = {row for site in splits[seed].values() for part in ("train", "val", "test") for row in site[part]}
        assert len(at_sites) == 200
        assert not at_sites & set(public["rows"])
        assert all(set(site) == {"train", "val", "test", "models"} for site in splits[seed].values())
    assert splits["public"]["0"]["rows"] != splits["public"]["1"]["rows"]
    simulate("digits", out=tmp_path, **SMALL, public=40, public_alpha=0.3)
    assert json.loads((tmp_path / "split.json").read_text()) == splits


def test_a_folder_with_other_public_rows_is_refused(tmp_path: Path) -> None:
    settings = {**SMALL, "seeds": 1}
    simulate("digits", out=tmp_path, **settings, public=40)
    with pytest.raises(ConfigError, match="holds a run with other data"):
        simulate("digits", out=tmp_path, **settings, public=40, public_alpha=0.3)
    path = tmp_path / "split.json"
    changed = json.loads(path.read_text())
    changed["public"]["0"]["sha256"] = "0" * 64
    path.write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match="holds a run with other data"):
        simulate("digits", out=tmp_path, **settings, public=40)


def test_flipped_sites_have_the_next_class_everywhere_and_the_others_do_not() -> None:
    data = load("digits")
    experiment = Experiment(dataset="digits", sites=3, flipped=2, models=("logistic",)).filled(data)
    sites = federation(experiment, data, 0)
    for place, site in enumerate(sites):
        for part in ("train", "val", "test"):
            truth = data.y[site.index[part]]
            expected = (truth + 1) % 10 if place < 2 else truth
            assert np.array_equal(getattr(site, part).y, expected)
            assert np.array_equal(getattr(site, part).X, data.X[site.index[part]])


def test_more_flipped_sites_than_there_are_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="flipped is 4: expected at most 3"):
        simulate("digits", out=tmp_path / "run", **SMALL, flipped=4)
    assert not (tmp_path / "run").exists()


def test_a_folder_is_of_so_many_flipped_sites(tmp_path: Path) -> None:
    simulate("digits", out=tmp_path, **{**SMALL, "seeds": 1}, flipped=1)
    with pytest.raises(ConfigError, match="holds a run with other data"):
        simulate("digits", out=tmp_path, **{**SMALL, "seeds": 1})


def test_a_common_test_set_is_counted_once_in_intervals_and_said_below_the_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = {"sites": 4, "rows": 600, "models": ["logistic"], "methods": ["local", "global_ensemble"], "seeds": 1}
    common = simulate("digits", **settings, test="common", fractions=[0.5, 0.2, 0.3])
    assert common.results["test_rows"].unique().tolist() == [180]
    line = assess(common).methods.loc["global_ensemble"]
    apart = replace(common, experiment=replace(common.experiment, test="site"))
    as_if_apart = assess(apart).methods.loc["global_ensemble"]
    width = line["accuracy_gain_high"] - line["accuracy_gain_low"]
    assert width > 1.7 * (as_if_apart["accuracy_gain_high"] - as_if_apart["accuracy_gain_low"])
    assert line["accuracy_gain"] == as_if_apart["accuracy_gain"]
    print_assessment(assess(common), Console(width=80))
    assert "tested on the same rows" in " ".join(capsys.readouterr().out.split())


def test_flipped_labels_leave_the_common_test_rows_alone() -> None:
    experiment = Experiment(dataset="digits", sites=3, rows=300, test="common", flipped=1)
    data = experiment.load_data()
    honest = federation(replace(experiment, flipped=0), data, 0)
    lying = federation(experiment, data, 0)
    assert np.array_equal(lying[0].train.y, (honest[0].train.y + 1) % 10)
    assert np.array_equal(lying[0].test.y, honest[0].test.y)
