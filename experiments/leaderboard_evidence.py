"""What `peerwise recommend` answers from: one small file, with where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from peerwise.data import Site, load, make_sites
from peerwise.errors import PeerwiseError
from peerwise.methods import make_method
from peerwise.methods.registry import has_budget, method_class

FORMAT = 1
COLUMNS = ("accuracy", "gain", "spread", "wins", "losses", "worst", "bytes", "seconds")
SETTING = ["dataset", "kind"]


def evidence(lines: pd.DataFrame, abouts: list[dict[str, Any]]) -> dict[str, Any]:
    """Settings with their facts, methods with their needs, and for each setting and method `COLUMNS`: gains are over
    what the site has alone; worst is the site that gains least; bytes and CPU seconds of a site."""
    commits = sorted({about["commit"] for about in abouts})
    dates = sorted({about["provenance"]["sessions"][-1]["ended"][:10] for about in abouts})
    found: dict[str, dict[str, list[float]]] = {}
    for (dataset, kind, method), part in lines.groupby([*SETTING, "method"]):
        found.setdefault(f"{dataset}_{kind}", {})[str(method)] = _cell(part)
    methods = sorted(set(lines["method"]) - {"own"})
    return {
        "format": FORMAT,
        "about": {"commits": commits, "dates": dates, "command": "python experiments/leaderboard.py --fast"},
        "columns": list(COLUMNS),
        "settings": {
            f"{about['dataset']}_{about['kind']}": {
                "dataset": about["dataset"],
                "kind": about["kind"],
                **about["facts"],
            }
            for about in abouts
        },
        "methods": {name: {"rounds": has_budget(name), "needs": needs(name)} for name in methods},
        "cells": found,
    }


def _cell(part: pd.DataFrame) -> list[float]:
    by_seed = part.groupby("seed")["over_alone"].mean()
    values = (
        part.groupby("seed")["accuracy"].mean().mean(),
        by_seed.mean(),
        by_seed.std(ddof=1),
        (part["over_alone"] > 1e-9).mean(),
        (part["over_alone"] < -1e-9).mean(),
        part.groupby("seed")["over_alone"].min().mean(),
        round(part["bytes_sent"].mean()),
        part["cpu"].mean() if part["cpu"].notna().any() else 0.0,
    )
    return [round(float(value), 4) for value in values]


def needs(name: str) -> list[str]:
    """What the method refuses to do without, found by trying."""
    sites = _sites(120)
    if getattr(method_class(name), "simulation_only", False):
        return ["everybody's rows in one place"]
    found = []
    if not _runs(name, [site.replace(public=None, public_set=None) for site in sites]):
        found.append("public rows")
    if not _runs(name, [site.replace(features=site.features[place:]) for place, site in enumerate(sites)]):
        found.append("same columns")
    if not _runs(name, [site.replace(recipes=("logistic",)) for site in sites]):
        found.append("neural nets")
    return found


def _sites(rows: int) -> list[Site]:
    data = load("digits")
    return make_sites(data.take(range(rows)), "quantity", 2, seed=0, recipes=["mlp"], public=30)


def _runs(name: str, sites: Sequence[Site]) -> bool:
    try:
        make_method(name, {}, folds=2, epochs=1, sites=len(sites)).check_sites(sites)
    except PeerwiseError:
        return False
    return True
