"""A line for each method: the summary of its sites, with intervals, tests and how it chose."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.evaluate.own import own_answers
from peerwise.evaluate.paired import LEVEL, counts_by_class, mean_interval
from peerwise.evaluate.selection import gap_closed, home_correlation, home_frequency
from peerwise.evaluate.summary import METRICS, summarise
from peerwise.run import Run
from peerwise.run.score import answers_of

COUNTS = ("tests", "significantly_better", "significantly_worse")


def method_table(run: Run, sites: pd.DataFrame) -> pd.DataFrame:
    """From the lines of `site_table`: the columns that `Assessment` describes."""
    table = summarise(sites)
    lines = {name: _line(run, str(name), sites) for name in table.index}
    more = pd.DataFrame.from_dict(lines, orient="index")
    return table.join(more.astype(dict.fromkeys(COUNTS, int)))


def gain_intervals(run: Run, method: str, sites: pd.DataFrame) -> dict[str, float]:
    """Of a method's mean gains over these lines: the sites of a seed have different rows, so they add up, unless they
    are all tested on the same ones; seeds draw from the same rows, so more of them make it no narrower: their ends are
    averaged."""
    names = [f"{metric}_gain_{end}" for metric in METRICS for end in ("low", "high")]
    ends, weights = [], []
    for seed, group in sites[sites["accuracy_gain"].notna()].groupby("seed"):
        tables = [_counts(run, int(str(seed)), method, site) for site in group["site"]]
        if run.experiment.test == "common":
            tables = [table / len(tables) for table in tables]
        each = np.stack([table.sum(axis=0) for table in tables])
        shares = np.concatenate([np.full(len(table), 1 / len(table)) for table in tables])
        classes = np.concatenate(tables)
        balanced = mean_interval(classes[:, 0], classes[:, 1], classes[:, 2], shares)
        ends.append([*mean_interval(each[:, 0], each[:, 1], each[:, 2])[1:], *balanced[1:]])
        weights.append(len(group))
    found = np.average(ends, axis=0, weights=weights) if ends else np.full(len(names), np.nan)
    return dict(zip(names, found.tolist(), strict=True))


def _counts(run: Run, seed: int, method: str, site: str) -> NDArray[np.float64]:
    tree, own = run.predictions[seed, method, site], own_answers(run, seed, method, site)[1]
    assert own is not None, "a line with a gain has an own model"
    return counts_by_class(tree["y"], answers_of(tree), own).astype(np.float64)


def _line(run: Run, method: str, sites: pd.DataFrame) -> dict[str, float]:
    part = sites[(sites["method"] == method) & (sites["test_rows"] > 0)]
    line = gain_intervals(run, method, part)
    sure = part[part["holm_p"] < 1 - LEVEL]
    tests = (part["holm_p"].notna(), sure["accuracy_gain"] > 0, sure["accuracy_gain"] < 0)
    line |= {name: int(each.sum()) for name, each in zip(COUNTS, tests, strict=True)}
    line |= _home(run, method)
    line["oracle_gap_closed"] = gap_closed(*(part[column] for column in ("accuracy", "own_accuracy", "oracle")))
    return line


def _home(run: Run, method: str) -> dict[str, float]:
    found = []
    for seed in sorted({seed for seed, _, _ in run.predictions}):
        trees = {site: tree for (s, m, site), tree in run.predictions.items() if (s, m) == (seed, method)}
        found.append(home_correlation(home_frequency(trees)))
    return {str(key): float(value) for key, value in pd.DataFrame(found).mean().items()}
