"""The scripts that make the tables of the results pages count what they say."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise import simulate
from peerwise.run import read_experiments

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def script(monkeypatch: Any) -> Any:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


def test_a_table_of_fedmosaic_has_the_accuracies_of_its_run(script: Any, tmp_path: Path) -> None:
    tables = script("fedmosaic_tables")
    settings = {"public": 40, "sites": 3, "models": ["mlp"], "seeds": 2, "training": {"rounds": 2}}
    methods = ["local_rounds", "fedmosaic"]
    run = simulate("digits", partition="dirichlet", methods=methods, out=tmp_path / "run", **settings)
    head, own, ours = tables.table(run, "run")
    means = 100 * run.results.groupby("method")["accuracy"].mean()
    assert [float(line[1]) for line in (own, ours)] == pytest.approx(means[methods].tolist(), abs=0.051)
    assert float(ours[4]) == pytest.approx(means["fedmosaic"] - means["local_rounds"], abs=0.051)
    assert sum(map(int, ours[6].split("/"))) == 6, "three sites, two seeds"
    assert len(head) == len(own) == len(ours)
    trust = tables.trust(run)
    assert [line[0] for line in trust] == ["method", "fedmosaic"]
    assert 0 <= float(trust[1][1]) <= 2.72


def test_published_figures_stand_beside_methods_that_are_run(script: Any) -> None:
    tables = script("fedmosaic_tables")
    for name, figures in tables.PUBLISHED.items():
        assert len(figures) == len(tables.ORDER), name
        methods = read_experiments(EXPERIMENTS / f"{name.split('-')[0]}.toml")[name].methods
        assert set(methods) <= set(tables.ORDER)


def test_relations_are_those_of_the_sites(script: Any) -> None:
    relations = script("stacking_relations")
    rows = np.arange(1, 7)
    seeds = [pd.DataFrame({"seed": seed, "dataset": "adult", "rows": rows, "gain": -(rows**3)}) for seed in range(3)]
    part = pd.concat(seeds)
    part.loc[part["seed"] == 2, "gain"] *= -1
    found = relations._by_dataset(part, lambda seed: relations._rank(seed, "rows", "gain"))
    assert found == {"Adult": "-0.33 ± 0.94", "Covertype": "-", "credit default": "-"}
