"""Personalised stacking on Adult, Covertype and credit default, with the paper's protocol or ours.

python experiments/stacking.py --fast --protocol paper --out runs/stacking
python experiments/stacking.py --fast --protocol ours --out runs/stacking

Without ``--fast`` sizes are the paper's. One file for each federation and number of sites, rows, trees and repeats is
left in the folder; running again makes those that are not there. Tables and figures are made of all that a folder
holds: give each study a folder of its own.

paper: a public model has all rows of its site, also those that others test on where sites have the same rows; each site
    splits its rows anew five times (``--fast``: once).
ours: one split, and no test row is in any model. Sites with the same rows split them alike, and their public models
    have train rows only: otherwise peers' models would have learned the rows that the meta-model judges them by. Adds
    "cv": a private model of the train and the meta rows, and a meta-model of its out-of-fold answers to all of them.
    The package's variant of that name has another rule: its private model learns from train rows only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from stacking_data import DATASETS, FAST, FULL, SCENARIOS, Federation, Member, Sizes, federation, settings_of

from peerwise.run.provenance import commit

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Parts = tuple[Rows, Rows, Rows]
Scores = dict[str, float]
Columns = dict[str, tuple[Floats, Rows]]
NOISE = (0.0, 16.0)  # of the default values, in standard deviations; matters only where columns differ
FOLDS = 3


def forest(seed: int, trees: int) -> RandomForestClassifier:
    return RandomForestClassifier(trees, random_state=seed)


def split(y: NDArray[np.int64], rows: Rows, seed: int) -> Parts:
    """60 % to train on, 20 % for the meta-model, 20 % to test on."""
    rest, test = train_test_split(rows, test_size=0.2, stratify=y[rows], random_state=seed)
    train, meta = train_test_split(rest, test_size=0.25, stratify=y[rest], random_state=seed)
    return train, meta, test


def defaults(seen: NDArray[np.float32], is_number: NDArray[np.bool_], noise: float, seed: int) -> Floats:
    """What a site says of its columns: the median with noise of a number, the commoner of 0 and 1 else."""
    rng = np.random.default_rng(seed)
    numbers = np.median(seen, axis=0) + noise * seen.std(axis=0) * rng.normal(size=seen.shape[1])
    return np.where(is_number, numbers, seen.mean(axis=0) > 0.5)


def answers(fed: Federation, public: list[Any], shown: list[Rows], place: int, noise: float, seed: int) -> Floats:
    """P(class 1) of every public model on this site's rows, (all rows, sites); the own column stays empty."""
    member = fed.members[place]
    found = np.full((len(fed.y), len(fed.members)), np.nan)
    for other, peer in enumerate(fed.members):
        if other == place:
            continue
        X = fed.X[np.ix_(member.rows, peer.columns)]
        unknown = ~np.isin(peer.columns, member.columns)
        if unknown.any():
            said = fed.X[np.ix_(shown[other], peer.columns)]
            X[:, unknown] = defaults(said, fed.is_number[peer.columns], noise, seed * 1000 + other)[unknown]
        found[member.rows, other] = public[other].predict_proba(X)[:, 1]
    return found


def private(
    fed: Federation, member: Member, parts: Parts, grow: Callable[[], Any], seed: int, *, out_of_fold: bool
) -> tuple[Scores, Columns]:
    """Balanced accuracy of the private model on 80 % and on 60 % of the rows; and for each variant the column of its
    answers and the rows that the meta-model learns from."""
    train, meta, test = parts
    seen, both = fed.X[:, member.columns], np.concatenate([train, meta])
    scores, says = {}, {}
    for name, rows in (("own_80", both), ("own_60", train)):
        model = grow().fit(seen[rows], fed.y[rows])
        says[name] = np.full(len(fed.y), np.nan)
        says[name][member.rows] = model.predict_proba(seen[member.rows])[:, 1]
        scores[name] = float(balanced_accuracy_score(fed.y[test], model.predict(seen[test])))
    columns = {"held_out": (says["own_60"], meta), "pooled": (says["own_80"], both)}
    if out_of_fold:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        held = says["own_80"].copy()
        held[both] = cross_val_predict(grow(), seen[both], fed.y[both], cv=folds, method="predict_proba")[:, 1]
        columns["cv"] = held, both
    return scores, columns


def run(fed: Federation, protocol: str, seed: int, sizes: Sizes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A line a site and noise, and a line a site, noise, peer and variant: means over the repeats."""
    ours, y, grow = protocol == "ours", fed.y, partial(forest, seed, sizes.trees)
    same_rows = all(np.array_equal(member.rows, fed.members[0].rows) for member in fed.members)
    splits = [
        [split(y, m.rows, seed * 100 + r + (0 if same_rows else 7 * place)) for r in range(sizes.repeats)]
        for place, m in enumerate(fed.members)
    ]
    shown = [_shown(m.rows, s[0], protocol, same_rows) for m, s in zip(fed.members, splits, strict=True)]
    public = [grow().fit(fed.X[np.ix_(rows, m.columns)], y[rows]) for m, rows in zip(fed.members, shown, strict=True)]
    columns_differ = len({tuple(member.columns) for member in fed.members}) > 1
    lines, edges = [], []
    for place, member in enumerate(fed.members):
        own = [private(fed, member, parts, grow, seed, out_of_fold=ours) for parts in splits[place]]
        for noise in NOISE if columns_differ else NOISE[:1]:
            said = answers(fed, public, shown, place, noise, seed)
            for (scores, columns), (_, _, test) in zip(own, splits[place], strict=True):
                line = {"noise": noise, "site": member.name, "test_rows": len(test), **facts(fed, member), **scores}
                for variant, (column, learn) in columns.items():
                    said[:, place] = column
                    meta = grow().fit(said[learn], y[learn])
                    line[variant] = float(balanced_accuracy_score(y[test], meta.predict(said[test])))
                    weights = zip(fed.members, meta.feature_importances_, strict=True)
                    edges += [
                        {"noise": noise, "site": member.name, "variant": variant, "peer": peer.name,
                         "jaccard": jaccard(member, peer), "weight": weight}
                        for peer, weight in weights
                    ]  # fmt: skip
                lines.append(line)
    return (
        pd.DataFrame(lines).groupby(["noise", "site"], sort=False).mean().reset_index(),
        pd.DataFrame(edges).groupby(["noise", "site", "variant", "peer"], sort=False).mean().reset_index(),
    )


def _shown(rows: Rows, parts: Parts, protocol: str, same_rows: bool) -> Rows:
    """The rows that a public model learns from."""
    train, meta, _ = parts
    if protocol == "paper":
        return rows
    return train if same_rows else np.sort(np.concatenate([train, meta]))


def facts(fed: Federation, member: Member) -> dict[str, float]:
    rows = len(member.rows)
    return {"rows": rows, "positive": float(fed.y[member.rows].mean()), "columns": len(member.columns)}


def jaccard(first: Member, second: Member) -> float:
    """How much two sites' columns overlap."""
    return len(np.intersect1d(first.columns, second.columns)) / len(np.union1d(first.columns, second.columns))


def about_run(protocol: str, dataset: str, scenario: str, setting: str, seed: int, sizes: Sizes) -> dict[str, Any]:
    """All that decides a federation's numbers, as columns of its lines."""
    about = {"protocol": protocol, "dataset": dataset, "scenario": scenario, "setting": setting, "seed": seed}
    return {
        **about,
        "sites": sizes.sites,
        "most_rows": sizes.rows.get(scenario, "all"),
        "trees": sizes.trees,
        "repeats": sizes.repeats,
    }


def stem_of(about: dict[str, Any]) -> str:
    *first, sites, rows, trees, repeats = about.values()
    return "-".join([*map(str, first), f"{sites}sites", f"{rows}rows", f"{trees}trees", f"{repeats}x"])


def wanted_sizes(wanted: argparse.Namespace) -> Sizes:
    sizes = FAST if wanted.fast else FULL
    if wanted.rows:
        sizes = replace(sizes, rows=dict.fromkeys(SCENARIOS, wanted.rows))
    return replace(sizes, repeats=1) if wanted.protocol == "ours" else sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=("ours", "paper"), default="ours")
    parser.add_argument("--fast", action="store_true", help="fewer sites, rows, trees and splits, for two cores")
    parser.add_argument("--datasets", default=",".join(DATASETS), help="by comma")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="by comma")
    parser.add_argument("--settings", help="by comma, e.g. 0.75 (default: all of a scenario)")
    parser.add_argument("--seeds", help="by comma (default: ten, with --fast three)")
    parser.add_argument("--rows", type=int, help="of all sites together, at most (default: by scenario)")
    parser.add_argument("--out", type=Path, default=Path("runs/stacking"))
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    sizes, made_by = wanted_sizes(wanted), commit()
    seeds = map(int, wanted.seeds.split(",")) if wanted.seeds else range(3 if wanted.fast else 10)
    for seed, scenario in product(seeds, wanted.scenarios.split(",")):
        for (label, setting), name in product(settings_of(scenario), wanted.datasets.split(",")):
            if wanted.settings and label not in wanted.settings.split(","):
                continue
            about = about_run(wanted.protocol, name, scenario, label, seed, sizes)
            stem = stem_of(about)
            if (wanted.out / f"{stem}-sites.csv").exists():
                continue
            started = time.perf_counter()
            sites, edges = run(federation(name, scenario, setting, seed, sizes), wanted.protocol, seed, sizes)
            spent = time.perf_counter() - started
            sites = sites.assign(commit=made_by, seconds=spent)
            for table, what in ((edges, "edges"), (sites, "sites")):  # the one looked for last, so it is never alone
                table.assign(**about).to_csv(wanted.out / f"{stem}-{what}.csv", index=False, float_format="%.6g")
            gain = (sites["held_out"] - sites["own_80"]).mean()
            sys.stdout.write(f"{stem}   held-out {gain:+.3f}   {spent:.0f} s\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
