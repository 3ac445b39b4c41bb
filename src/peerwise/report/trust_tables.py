"""Who trusts whom, and what for: the tables behind the pictures of trust."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd

from peerwise.errors import DataError
from peerwise.evaluate.contribution import contribution_graph
from peerwise.evaluate.selection import home_correlation, home_frequency
from peerwise.metrics import effective_size
from peerwise.report.cells import figure, number, shares, whole, words
from peerwise.report.first_tables import same_sites
from peerwise.report.sheets import Column, Sheet
from peerwise.report.tables import METHOD
from peerwise.run import Run

TRUST = "With {}: percent of a site's answers (row) that rests on the models of each site (column), from {}{}"
HOME = (
    "With {}: mean trust in a model over all test rows of a class, against how frequent the class is among the train "
    "rows of the model's home; without: without the rows of its home. Spearman's rho {} (without: {}), the "
    "mean over seeds"
)
ENSEMBLE = "Models with a say in an answer, and their effective number (ESS), over all test rows"
QUANTILES = {"10 %": 0.1, "median": 0.5, "90 %": 0.9}


def speaker(run: Run, first: str | None = None) -> str | None:
    """The method whose trust is shown: ``first`` if it has any, else the first that has; None if none has."""
    having = dict.fromkeys(label for _, label, _ in run.predictions if _speaks(run, label))
    return first if first in having else next(iter(having), None)


def _speaks(run: Run, method: str) -> bool:
    details = [tree["details"] for (_, label, _), tree in run.predictions.items() if label == method]
    return any("trust" in each or "contribution" in each for each in details)


def trust_graph(run: Run, method: str) -> tuple[nx.DiGraph, int | None] | None:
    """Who owes how much to whom: the mean over seeds where names stand for the same sites, else the first seed's."""
    seed = None if same_sites(run) else min(seed for seed, _, _ in run.predictions)
    try:
        return contribution_graph(run, method, seed), seed
    except DataError:
        return None


def trust_table(run: Run, method: str) -> Sheet | None:
    """A line a site: in percent, to whom it owes its answers."""
    found = trust_graph(run, method)
    if found is None:
        return None
    graph, seed = found
    columns = (Column("site", "site"), *(Column(str(peer), str(peer), "%") for peer in graph))
    rows = []
    asked = {site for _, _, site in run.predictions}
    for site, about in graph.nodes.items():
        if site not in asked:  # a peer of a real site, which knows its own answers alone
            continue
        spoke = "self_weight" in about
        row = {peer: graph.get_edge_data(site, peer, {"weight": 0.0})["weight"] for peer in graph} if spoke else {}
        row |= {site: about["self_weight"]} if spoke else {}
        rows.append((words(site), *(shares(row.get(peer)) for peer in graph)))
    details = [tree["details"] for (_, label, _), tree in run.predictions.items() if label == method]
    source = "contribution scores" if any("contribution" in each for each in details) else "mean trust on test rows"
    when = f"; seed {seed} (another seed has other sites)" if seed is not None else ""
    return Sheet("trust", "Who trusts whom", TRUST.format(method, source, when), columns, tuple(rows))


def home_table(run: Run, method: str) -> Sheet | None:
    """The FedDES paper's figure 2 as numbers: a line a seed, model and class."""
    parts, found = [], []
    for seed in sorted({seed for seed, _, _ in run.predictions}):
        trees = {site: tree for (s, label, site), tree in run.predictions.items() if (s, label) == (seed, method)}
        lines = home_frequency(trees)
        found.append(home_correlation(lines))
        parts.append(lines.assign(seed=seed))
    lines = pd.concat(parts)
    if not len(lines):
        return None
    rho = [float(pd.DataFrame(found)[key].mean()) for key in ("home_spearman", "home_spearman_peers")]
    columns = (Column("model", "model"), Column("seed", "seed"), Column("class", "class"),
               Column("frequency\nat home", "frequency", "%"), Column("trust", "trust", "%"),
               Column("trust\nwithout", "peer_trust", "%"))  # fmt: skip
    rows = [
        (words(line["model"]), whole(line["seed"]), words(_class(run, line["class"])),
         *(shares(line[key]) for key in ("frequency", "trust", "peer_trust")))
        for _, line in lines.iterrows()
    ]  # fmt: skip
    about = HOME.format(method, *(f"{value:.2f}" if np.isfinite(value) else "not defined" for value in rho))
    return Sheet("home", "Trust against home class frequency", about, columns, tuple(rows))


def ensemble_table(run: Run) -> Sheet | None:
    """A line a method that chooses: how many models have a say."""
    columns = [METHOD, Column("rows", "rows")]
    for name, key in (("models", "size"), ("ESS", "ess")):
        kinds = {"mean": "mean", **{label: f"q{label.split()[0]}" for label in QUANTILES}}
        columns += [Column(f"{name}\n{label}", f"{key}_{kind}", "models") for label, kind in kinds.items()]
    rows = []
    for method in dict.fromkeys(label for _, label, _ in run.predictions):
        trees = [tree for (_, label, _), tree in run.predictions.items() if label == method]
        trusts = [tree["details"]["trust"] for tree in trees if len(tree["details"].get("trust", ()))]
        if not trusts:
            continue
        sizes = np.concatenate([(trust > 0).sum(axis=1) for trust in trusts])
        effective = np.concatenate([effective_size(trust) for trust in trusts])
        values = [v for each in (sizes, effective) for v in (each.mean(), *np.quantile(each, list(QUANTILES.values())))]
        rows.append((words(method), whole(len(sizes)), *(figure(value, number) for value in values)))
    return Sheet("ensemble", "How many models have a say", ENSEMBLE, tuple(columns), tuple(rows)) if rows else None


def _class(run: Run, code: int) -> str:
    return run.classes[int(code)] if run.classes else str(int(code))
