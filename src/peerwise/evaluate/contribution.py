"""Who owes how much to whom: a weighted directed graph of sites, from stacking's importances or from trust.

An edge i -> j carries the share of site i's answers that it owes to the models of site j. What a site owes to itself is
no edge but the node's ``self_weight``; this and the edges that leave a site sum to one. A node without ``self_weight``
said nothing: its method failed there, it has no test rows, or no score of its is above zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import networkx as nx
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from peerwise.errors import ConfigError, DataError, choices
from peerwise.run import Run

Importance = Literal["impurity", "permutation"]
NAN = float("nan")


def contribution_graph(run: Run, method: str, seed: int | None = None, by: Importance = "impurity") -> nx.DiGraph:
    """The graph of a method in a finished run; without ``seed`` the mean over all seeds, which makes sense where a name
    is the same site in each of them (natural sites).

    From the contribution scores of a method that has them (stacking; ``by`` impurity or permutation, the other one
    where a site's meta-model has none of this kind), else from the mean trust in each site's models over the test rows.
    """
    known = {label for _, label, _ in run.predictions}
    if method not in known:
        raise ConfigError(f"method: {choices(method, known, 'method')}")
    trees = {(s, site): tree for (s, label, site), tree in run.predictions.items() if label == method}
    seeds = sorted({s for s, _ in trees})
    if seed is not None and seed not in seeds:
        raise ConfigError(f"seed is {seed}: expected one of {', '.join(map(str, seeds))}, or none for the mean.")
    chosen = seeds if seed is None else [seed]
    graphs = [_of_seed({site: t for (s, site), t in trees.items() if s == one}, by) for one in chosen]
    if not any(_spoke(graph) for graph in graphs):
        raise DataError(
            f"method {method!r} says at no site to whom it owes its answers: expected contribution scores or trust, as "
            f"stacking and peerwise have them. Name such a method."
        )
    found = mean_graph(graphs)
    found.graph.update(method=method, seeds=", ".join(map(str, chosen)))
    return found


def graph_from_scores(scores: Mapping[str, Mapping[str, float]], sites: Iterable[str] = ()) -> nx.DiGraph:
    """A graph from scores by site and peer, a site's score of itself included: each site's row is normalised to one,
    scores below zero (noise of a permutation) count as zero. ``sites`` without a row, or without a score above zero,
    said nothing.

    >>> graph = graph_from_scores({"a": {"a": 1, "b": 3}, "b": {"a": 2, "b": 0}}, ["c"])
    >>> graph.edges["a", "b"]["weight"], graph.nodes["a"]["self_weight"], dict(graph.nodes["c"])
    (0.75, 0.25, {})
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(dict.fromkeys([*sites, *scores, *(peer for row in scores.values() for peer in row)]))
    for site, row in scores.items():
        values = {peer: float(value) for peer, value in row.items()}
        for peer, value in values.items():
            if not np.isfinite(value):
                raise DataError(f"site {site!r} scores {peer!r} with {value}: expected a finite number.")
        kept = {peer: max(value, 0.0) for peer, value in values.items()}
        total = sum(kept.values())
        if not total:
            continue
        graph.nodes[site]["self_weight"] = kept.get(site, 0.0) / total
        for peer, value in kept.items():
            if peer != site and value > 0:
                graph.add_edge(site, peer, weight=value / total)
    return graph


def mean_graph(graphs: Iterable[nx.DiGraph]) -> nx.DiGraph:
    """The mean of each site's row over the graphs in which the site spoke."""
    rows: dict[str, list[dict[str, float]]] = {}
    sites: dict[str, None] = {}
    for graph in graphs:
        sites |= dict.fromkeys(graph)
        for site in _spoke(graph):
            row = {peer: float(edge["weight"]) for peer, edge in graph[site].items()}
            rows.setdefault(site, []).append({**row, site: float(graph.nodes[site]["self_weight"])})
    return graph_from_scores({site: _mean_row(each) for site, each in rows.items()}, sites)


def in_strength(graph: nx.DiGraph) -> dict[str, float]:
    """A site's share of all that sites owe to others: the sum of what the others give it, normalised to one (the
    stacking paper's importance of a client). All zero where nobody owes anything to another."""
    given = {site: float(value) for site, value in graph.in_degree(weight="weight")}
    total = sum(given.values())
    return {site: value / total if total else 0.0 for site, value in given.items()}


def page_rank(graph: nx.DiGraph) -> dict[str, float]:
    """PageRank (damping 0.85): what is given by a site to which much is owed counts more. Sums to one."""
    return {site: float(value) for site, value in nx.pagerank(graph, weight="weight").items()} if len(graph) else {}


def standing(graph: nx.DiGraph) -> pd.DataFrame:
    """A line a site: ``in_strength``, ``page_rank``, ``self_weight`` (NaN: it said nothing), ``owed_by`` (how many
    others owe it anything)."""
    strengths, ranks = in_strength(graph), page_rank(graph)
    return pd.DataFrame(
        {
            "in_strength": [strengths[site] for site in graph],
            "page_rank": [ranks[site] for site in graph],
            "self_weight": [graph.nodes[site].get("self_weight", NAN) for site in graph],
            "owed_by": [graph.in_degree(site) for site in graph],
        },
        index=pd.Index(list(graph), name="site"),
    )


def agreement(first: nx.DiGraph, second: nx.DiGraph) -> dict[str, float]:
    """How alike two graphs of the same sites are, as Spearman's rank correlation: ``weights`` of who owes how much to
    whom (pairs of different sites, the first of which spoke in both), ``in_strength`` and ``self_weight`` of sites. NaN
    where either side never varies or fewer than two can be compared. ``pairs`` and ``sites`` are how many could be."""
    both = [site for site in first if site in second]
    spoke = [site for site in both if "self_weight" in first.nodes[site] and "self_weight" in second.nodes[site]]
    pairs = [(site, peer) for site in spoke for peer in both if site != peer]
    strengths = [in_strength(graph) for graph in (first, second)]
    weights = [[graph.get_edge_data(*pair, {"weight": 0.0})["weight"] for pair in pairs] for graph in (first, second)]
    return {
        "weights": _ranks(*weights),
        "in_strength": _ranks(*([each[site] for site in both] for each in strengths)),
        "self_weight": _ranks(*([graph.nodes[site]["self_weight"] for site in spoke] for graph in (first, second))),
        "pairs": len(pairs),
        "sites": len(both),
    }


def _of_seed(trees: Mapping[str, Mapping[str, Any]], by: Importance) -> nx.DiGraph:
    rows = {site: _row(site, tree["details"], by) for site, tree in trees.items()}
    return graph_from_scores({site: row for site, row in rows.items() if row}, trees)


def _row(site: str, details: Mapping[str, Any], by: Importance) -> dict[str, float]:
    """What a site's answers owe to each site; empty where nothing is known."""
    if "contribution" in details:
        said = details["contribution"]
        other: Importance = "permutation" if by == "impurity" else "impurity"
        kind = by if said[by] is not None else other
        return {} if said[kind] is None else {**said[kind], site: said["self"][kind] or 0.0}
    if "trust" not in details or not len(details["trust"]):
        return {}
    row: dict[str, float] = {}
    for model, trust in zip(details["models"], details["trust"].mean(axis=0), strict=True):
        home = model.split("@", 1)[1]
        row[home] = row.get(home, 0.0) + float(trust)
    return row


def _mean_row(rows: list[dict[str, float]]) -> dict[str, float]:
    peers = dict.fromkeys(peer for row in rows for peer in row)
    return {peer: sum(row.get(peer, 0.0) for row in rows) / len(rows) for peer in peers}


def _spoke(graph: nx.DiGraph) -> list[str]:
    return [site for site, about in graph.nodes.items() if "self_weight" in about]


def _ranks(first: list[float], second: list[float]) -> float:
    a, b = np.round(first, 12), np.round(second, 12)
    if len(a) < 2 or len(np.unique(a)) < 2 or len(np.unique(b)) < 2:
        return NAN
    return float(spearmanr(a, b).statistic)
