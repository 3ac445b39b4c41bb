"""The contribution graph: worked out by hand, against the plain matrix, and from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from peerwise import NeighbourhoodAccuracy, OneShot
from peerwise.data import Dataset, Feature, make_sites
from peerwise.errors import BrokenFile, ConfigError, DataError
from peerwise.evaluate.contribution import (
    agreement,
    contribution_graph,
    graph_from_scores,
    in_strength,
    mean_graph,
    page_rank,
    standing,
)
from peerwise.evaluate.contribution_files import load_graph, save_graph
from peerwise.methods.stacking import Stacking
from peerwise.run import Experiment, Run, run_method, simulate

BY_HAND = {
    "a": {"a": 0.5, "b": 0.3, "c": 0.2},
    "b": {"a": 0.1, "b": 0.9, "c": 0.0},
    "c": {"a": 0.4, "b": 0.4, "c": 0.2},
}


def scores(sites: int, seed: int) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    values = rng.gamma(0.5, size=(sites, sites)) * (rng.random((sites, sites)) > 0.2)
    names = [f"s{place}" for place in range(sites)]
    return {name: dict(zip(names, map(float, row), strict=True)) for name, row in zip(names, values, strict=True)}


def test_importance_is_what_others_give_and_not_what_a_site_gives_itself() -> None:
    found = in_strength(graph_from_scores(BY_HAND))
    assert found == pytest.approx({"a": 0.5 / 1.4, "b": 0.7 / 1.4, "c": 0.2 / 1.4})


@given(st.integers(1, 8), st.integers(0, 500))
def test_rows_sum_to_one_with_the_self_weight_and_no_site_points_at_itself(sites: int, seed: int) -> None:
    given_scores = scores(sites, seed)
    graph = graph_from_scores(given_scores)
    matrix = np.array([list(row.values()) for row in given_scores.values()])
    for site, row in zip(given_scores, matrix, strict=True):
        assert not graph.has_edge(site, site)
        assert ("self_weight" in graph.nodes[site]) == bool(row.sum())
        out = graph.nodes[site].get("self_weight", 0.0) + graph.out_degree(site, weight="weight")
        assert out == pytest.approx(1.0 if row.sum() else 0.0)
    rows = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-300)
    np.fill_diagonal(rows, 0.0)
    expected = rows.sum(axis=0) / max(rows.sum(), 1e-300)
    assert list(in_strength(graph).values()) == pytest.approx(expected.tolist())


@given(st.integers(2, 7), st.integers(0, 300))
def test_page_rank_is_the_long_run_of_a_walk_along_the_edges(sites: int, seed: int) -> None:
    graph = graph_from_scores(scores(sites, seed))
    walk = nx.to_numpy_array(graph, weight="weight")
    totals = walk.sum(axis=1, keepdims=True)
    walk = np.where(totals > 0, walk / np.where(totals > 0, totals, 1), 1 / sites)
    step = 0.85 * walk + 0.15 / sites
    there = np.full(sites, 1 / sites)
    for _ in range(500):
        there = there @ step
    assert list(page_rank(graph).values()) == pytest.approx(there.tolist(), abs=1e-4)


def test_one_site_alone_owes_nothing_to_others() -> None:
    graph = graph_from_scores({"only": {"only": 1.0}})
    assert in_strength(graph) == {"only": 0.0}
    assert page_rank(graph) == {"only": pytest.approx(1.0)}
    assert agreement(graph, graph)["pairs"] == 0
    assert np.isnan(agreement(graph, graph)["weights"])


def test_a_site_that_failed_may_still_be_owed_something() -> None:
    table = standing(graph_from_scores({"a": {"a": 1, "b": 1}}, sites=["a", "b", "c"]))
    assert table["in_strength"].to_dict() == {"a": 0.0, "b": 1.0, "c": 0.0}
    assert table["self_weight"].isna().tolist() == [False, True, True]
    assert table["owed_by"].to_dict() == {"a": 0, "b": 1, "c": 0}


def test_zero_and_negative_scores_make_no_edges_and_a_site_that_has_no_others_said_nothing() -> None:
    graph = graph_from_scores({"a": {"a": -0.01, "b": 0.0}, "b": {"a": -0.1, "b": 0.2}})
    assert graph.number_of_edges() == 0
    assert dict(graph.nodes["a"]) == {}
    assert graph.nodes["b"] == {"self_weight": 1.0}
    assert standing(graph)["self_weight"].isna().to_dict() == {"a": True, "b": False}
    assert set(in_strength(graph).values()) == {0.0}


def test_a_score_that_is_no_number_is_named() -> None:
    with pytest.raises(DataError, match="site 'a' scores 'b' with nan"):
        graph_from_scores({"a": {"b": float("nan")}})


def test_the_mean_is_over_the_graphs_in_which_a_site_spoke() -> None:
    first = graph_from_scores({"a": {"a": 1, "b": 1}, "b": {"a": 1, "b": 0}})
    second = graph_from_scores({"a": {"a": 0, "b": 1}}, sites=["b"])
    found = mean_graph([first, second])
    assert found.edges["a", "b"]["weight"] == pytest.approx(0.75)
    assert found.edges["b", "a"]["weight"] == pytest.approx(1.0)


@given(st.integers(3, 7), st.integers(0, 300))
def test_two_graphs_are_compared_by_ranks(sites: int, seed: int) -> None:
    first, second = graph_from_scores(scores(sites, seed)), graph_from_scores(scores(sites, seed + 1000))
    spoke = ["self_weight" in first.nodes[site] and "self_weight" in second.nodes[site] for site in first]
    off = ~np.eye(sites, dtype=bool) & np.array(spoke)[:, None]
    a, b = (nx.to_numpy_array(graph, weight="weight")[off].round(12) for graph in (first, second))
    found = agreement(first, second)
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert found["weights"] == pytest.approx(spearmanr(a, b).statistic)
    if len(set(a)) > 1:
        assert agreement(first, first)["weights"] == pytest.approx(1.0)
    assert found["pairs"] == sum(spoke) * (sites - 1)


@given(
    st.dictionaries(
        st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"], exclude_characters="￾￿")),
        st.floats(0, 1e6),
        min_size=1,
        max_size=5,
    )
)
@pytest.mark.parametrize("form", ["json", "graphml"])
def test_a_graph_comes_back_from_its_file(tmp_path_factory: Any, form: str, row: dict[str, float]) -> None:
    graph = graph_from_scores({next(iter(row)): row})
    graph.graph["method"] = "stacking"
    path = tmp_path_factory.mktemp("graph") / f"graph.{form}"
    save_graph(graph, path)
    again = load_graph(path)
    assert dict(again.nodes(data=True)) == dict(graph.nodes(data=True))
    assert {(a, b): w for a, b, w in again.edges(data="weight")} == {
        (a, b): w for a, b, w in graph.edges(data="weight")
    }
    assert again.graph["method"] == "stacking"


UNDIRECTED = '{"directed": false, "multigraph": false, "graph": {}, "nodes": [], "edges": []}'
NUMBERED = '{"directed": true, "multigraph": false, "graph": {}, "nodes": [{"id": 1}], "edges": []}'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("graph.json", "{", "cannot be read"),
        ("graph.json", "[]", "cannot be read"),
        ("graph.json", UNDIRECTED, "expected a directed"),
        ("graph.json", NUMBERED, "named sites"),
        ("graph.graphml", "<graphml>", "cannot be read"),
        ("graph.graphml", "<html></html>", "cannot be read"),
    ],
)
def test_a_file_that_holds_no_such_graph_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BrokenFile, match=words):
        load_graph(tmp_path / name)


def test_a_weight_above_one_and_an_unknown_ending_are_refused(tmp_path: Path) -> None:
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight=3.0)
    save_graph(graph, tmp_path / "graph.json")
    with pytest.raises(BrokenFile, match="weights from 0 to 1"):
        load_graph(tmp_path / "graph.json")
    with pytest.raises(ConfigError, match=r"expected .json or .graphml"):
        save_graph(graph, tmp_path / "graph.gml")
    with pytest.raises(BrokenFile, match="cannot be read"):
        load_graph(tmp_path / "nothing.json")


def made_run(trees: dict[tuple[int, str, str], dict[str, Any]]) -> Run:
    whole = {key: {"details": details} for key, details in trees.items()}
    return Run(Experiment(dataset="digits"), pd.DataFrame(), None, whole)


def test_stacking_scores_and_peerwise_trust_give_the_same_kind_of_graph() -> None:
    said = {"impurity": {"b": 0.6}, "permutation": {"b": 0.3}, "self": {"impurity": 0.4, "permutation": 0.0}}
    trust = {"trust": np.array([[0.2, 0.5, 0.3], [0.0, 0.5, 0.5]]), "models": ["m@a", "m@b@west", "n@b@west"]}
    run = made_run(
        {(0, "stacking", "a"): {"contribution": said}, (0, "stacking", "b"): {}, (0, "peerwise", "a"): trust}
    )
    by_impurity = contribution_graph(run, "stacking", 0)
    assert by_impurity.edges["a", "b"]["weight"] == pytest.approx(0.6)
    assert "self_weight" not in by_impurity.nodes["b"]
    assert contribution_graph(run, "stacking", 0, by="permutation").edges["a", "b"]["weight"] == pytest.approx(1.0)
    by_trust = contribution_graph(run, "peerwise", 0)
    assert by_trust.nodes["a"]["self_weight"] == pytest.approx(0.1)
    assert by_trust.edges["a", "b@west"]["weight"] == pytest.approx(0.9)


def test_a_meta_model_without_impurity_is_judged_by_permutation() -> None:
    said = {"impurity": None, "permutation": {"b": 0.1}, "self": {"impurity": None, "permutation": 0.3}}
    graph = contribution_graph(made_run({(0, "stacking", "a"): {"contribution": said}}), "stacking")
    assert graph.edges["a", "b"]["weight"] == pytest.approx(0.25)


def test_what_a_run_cannot_say_is_refused() -> None:
    run = made_run({(0, "fedavg", "a"): {}})
    with pytest.raises(DataError, match="'fedavg' says at no site"):
        contribution_graph(run, "fedavg")
    with pytest.raises(ConfigError, match="did you mean 'fedavg'"):
        contribution_graph(run, "fedavgg")
    with pytest.raises(ConfigError, match="seed is 3: expected one of 0"):
        contribution_graph(run, "fedavg", 3)


def test_a_real_run_has_a_graph_of_trust_for_each_seed_and_for_both() -> None:
    run = simulate("digits", sites=3, rows=200, models=["logistic"], methods=["local", "global_ensemble"], seeds=2)
    graph = contribution_graph(run, "global_ensemble")
    assert graph.graph == {"method": "global_ensemble", "seeds": "0, 1"}
    weights = [weight for *_, weight in graph.edges(data="weight")]
    assert weights == pytest.approx([1 / 3] * 6)  # all are trusted alike
    with pytest.raises(DataError, match="'local' says at no site"):
        contribution_graph(run, "local", 0)


def test_a_site_with_random_labels_is_owed_least_by_stacking_and_by_trust() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    home = np.array(["a", "b", "noise"])[np.arange(600) % 3]
    y = np.where(home == "noise", rng.integers(0, 2, 600), X[:, 0] + X[:, 1] > 0).astype(np.int64)
    features = tuple(Feature(name) for name in "uvwx")
    data = Dataset("made", "table", X, y, ("no", "yes"), features, site=home)
    found = {}
    for label, method in {"stacking": Stacking(variant="held_out"), "trust": OneShot(NeighbourhoodAccuracy())}.items():
        sites = make_sites(data, "natural", seed=0, recipes=["logistic"])
        run_method(method, sites)
        run = made_run({(0, label, site.name): method.predict_with_details(site, site.test.X)[1] for site in sites})
        found[label] = contribution_graph(run, label)
        for site in found[label]:
            given_away = found[label].out_degree(site, weight="weight")
            assert found[label].nodes[site]["self_weight"] + given_away == pytest.approx(1.0)
    for graph in found.values():
        assert graph.edges["a", "b"]["weight"] > graph.edges["a", "noise"]["weight"]
        assert graph.edges["b", "a"]["weight"] > graph.edges["b", "noise"]["weight"]
    assert agreement(found["stacking"], found["trust"])["pairs"] == 6
