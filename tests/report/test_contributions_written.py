"""Graphs of who owes how much to whom, beside the results of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.cli import main
from peerwise.evaluate.contribution_files import load_graph
from peerwise.report import write_contributions
from peerwise.run import Experiment, Run

TINY = ["simulate", "digits", "--rows", "240", "--models", "logistic", "--folds", "2", "-q"]


def test_a_run_leaves_a_graph_for_every_seed_and_method_with_trust(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "run"
    methods = "local,best_single,stacking:plain"
    command = [*TINY, "--sites", "3", "--seeds", "2", "--methods", methods, "--out", str(out)]
    assert main([*command, "--set", "stacking:plain.meta=logistic"]) == 0
    assert f"contribution graphs: {out}/contributions" in capsys.readouterr().out.replace("\n", "")
    stems = [f"{method}-s{seed}" for method in ("best_single", "stacking+plain") for seed in (0, 1)]
    written = sorted(path.name for path in (out / "contributions").iterdir())
    assert written == sorted(f"{stem}.{ending}" for stem in stems for ending in ("graphml", "json", "svg"))
    for stem in stems:
        graph = load_graph(out / "contributions" / f"{stem}.json")
        assert set(graph) == {"site-0", "site-1", "site-2"}
        for site, about in graph.nodes.items():
            owed = sum(edge["weight"] for edge in graph[site].values())
            assert about["self_weight"] + owed == pytest.approx(1)


def test_a_run_without_trust_or_with_one_site_leaves_none(tmp_path: Path, capsys: Any) -> None:
    for sites, methods in (("3", "local"), ("1", "local,best_single")):
        out = tmp_path / sites
        assert main([*TINY, "--sites", sites, "--seeds", "1", "--methods", methods, "--out", str(out)]) == 0
        assert "who owes" not in capsys.readouterr().out
        assert not (out / "contributions").exists()


def test_a_disk_that_takes_no_graphs_costs_no_results(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "run"
    command = [*TINY, "--sites", "3", "--seeds", "1", "--methods", "local,best_single", "--out", str(out)]
    out.mkdir()
    (out / "contributions").write_text("a file in the folder's place")
    assert main(command) != 0
    told = capsys.readouterr()
    assert "results:" in told.out
    assert "contributions cannot be made" in told.err.replace("\n", " ")
    assert main([*command, "--format", "json"]) != 0
    assert json.loads(capsys.readouterr().out)["summary"]


def test_a_method_that_owes_nothing_to_anybody_has_no_graph_and_the_others_have_theirs(tmp_path: Path) -> None:
    nothing = {"impurity": None, "permutation": {"b": -0.1}, "self": {"impurity": None, "permutation": 0.0}}
    trust = {"trust": np.array([[0.5, 0.5]]), "models": ["m@a", "m@b"]}
    said = {
        (0, "stacking", "a"): {"contribution": nothing, **trust},
        (0, "stacking", "b"): {},
        (0, "best_single", "a"): trust,
        (0, "best_single", "b"): {},
    }
    run = Run(Experiment(dataset="digits"), pd.DataFrame(), tmp_path, {k: {"details": v} for k, v in said.items()})
    assert write_contributions(run, tmp_path) == tmp_path / "contributions"
    assert {path.stem for path in (tmp_path / "contributions").iterdir()} == {"best_single-s0"}
    silent = {key: tree for key, tree in run.predictions.items() if key[1] == "stacking"}
    assert write_contributions(Run(run.experiment, pd.DataFrame(), tmp_path, silent), tmp_path / "other") is None
    assert not (tmp_path / "other").exists()
