"""Graphs of who owes how much to whom, beside the results of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peerwise.cli import main
from peerwise.evaluate.contribution_files import load_graph

TINY = ["simulate", "digits", "--rows", "240", "--models", "logistic", "--folds", "2", "-q"]


def test_a_run_leaves_a_graph_for_every_seed_and_method_with_trust(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "run"
    methods = "local,best_single,stacking:plain"
    command = [*TINY, "--sites", "3", "--seeds", "2", "--methods", methods, "--out", str(out)]
    assert main([*command, "--set", "stacking:plain.meta=logistic"]) == 0
    assert f"who owes how much to whom: {out}/contributions" in capsys.readouterr().out.replace("\n", "")
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
