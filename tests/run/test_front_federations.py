"""Federations of the experiment keys: public rows with a name and a hash, sites with flipped labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerwise.data import digest, load
from peerwise.errors import ConfigError
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
