"""One line a method: mean, spread and worst site, and wins against local, paired by seed and site."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

REFERENCE = "local"
METRICS = ("accuracy", "balanced_accuracy")
BEHAVIOUR = ("ensemble_size", "ess", "fallback", "oracle")


def summarise(results: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """A table indexed by method, in the order of the results.

    For accuracy and balanced accuracy: the mean over sites and seeds, ``_std`` over sites and the ``_worst`` site (both
    within a seed, then the mean over seeds: a site of another seed is another site), ``_seed_std`` over seeds of the
    mean over sites; against ``reference``, paired by seed and site, the mean ``_gain`` and the shares of ``_wins``
    (strictly better), ``_ties`` and ``_losses``. Sites without test rows do not count, except in what all sites cost:
    bytes a site, and seconds of all sites together, a seed.
    """
    lines = {str(name): _line(part) for name, part in results.groupby("method", sort=False)}
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.index.name = "method"
    if reference in table.index:
        scored = _scored(results)
        base = scored[scored["method"] == reference].set_index(["seed", "site"])
        for name in table.index:
            other = scored[scored["method"] == name].set_index(["seed", "site"])
            for key, value in _against(base, other).items():
                table.loc[name, key] = value
    return table


def _scored(results: pd.DataFrame) -> pd.DataFrame:
    return results[results["test_rows"] > 0]


def _line(part: pd.DataFrame) -> dict[str, float]:
    line: dict[str, float] = {}
    scored = _scored(part)
    for metric in METRICS:
        by_seed = scored.groupby("seed")[metric]
        line[metric] = float(by_seed.mean().mean())
        line[f"{metric}_std"] = float(by_seed.std(ddof=0).mean())
        # One seed says nothing about the spread over seeds, least of all that it is zero.
        line[f"{metric}_seed_std"] = float(by_seed.mean().std(ddof=0)) if by_seed.ngroups > 1 else math.nan
        line[f"{metric}_worst"] = float(by_seed.min().mean())
    for column in BEHAVIOUR:
        line[column] = float(pd.to_numeric(scored[column]).mean())
    line["bytes_sent"] = float(part["bytes_sent"].mean())
    for column in [column for column in part.columns if column.startswith("seconds_")]:
        # A phase that a method does not have is no phase of zero seconds.
        line[column] = float(part.groupby("seed")[column].sum(min_count=1).mean())
    return line


def _against(base: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    common = base.index.intersection(other.index)
    found: dict[str, float] = {}
    for metric in METRICS:
        gain = (other.loc[common, metric] - base.loc[common, metric]).astype(float)
        tie = pd.Series(np.isclose(gain, 0.0, atol=1e-12), index=gain.index)
        found[f"{metric}_gain"] = float(gain.mean())
        found[f"{metric}_wins"] = float(((gain > 0) & ~tie).mean())
        found[f"{metric}_ties"] = float(tie.mean())
        found[f"{metric}_losses"] = float(((gain < 0) & ~tie).mean())
    return found
