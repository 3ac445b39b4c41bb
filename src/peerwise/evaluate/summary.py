"""One line a method: mean, spread and worst site, and wins against local, paired by seed and site."""

from __future__ import annotations

import numpy as np
import pandas as pd

REFERENCE = "local"
METRICS = ("accuracy", "balanced_accuracy")
AVERAGED = ("ensemble_size", "ess", "fallback", "oracle", "bytes_sent")


def summarise(results: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """A table indexed by method, in the order of the results.

    For accuracy and balanced accuracy: the mean over sites and seeds, ``_std`` over sites (mean over seeds),
    ``_seed_std`` over seeds (of the mean over sites), ``_worst`` site (mean over seeds); against ``reference``, paired
    by seed and site, the mean ``_gain`` and the shares of ``_wins`` (strictly better), ``_ties`` and ``_losses``.
    Seconds are those of all sites together, a seed. Sites without test rows do not count.
    """
    scored = results[results["test_rows"] > 0]
    lines = {str(name): _line(part) for name, part in scored.groupby("method", sort=False)}
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.index.name = "method"
    if reference in table.index:
        base = scored[scored["method"] == reference].set_index(["seed", "site"])
        for name in table.index:
            other = scored[scored["method"] == name].set_index(["seed", "site"])
            for key, value in _against(base, other).items():
                table.loc[name, key] = value
    return table


def _line(part: pd.DataFrame) -> dict[str, float]:
    line: dict[str, float] = {}
    for metric in METRICS:
        by_seed = part.groupby("seed")[metric]
        line[metric] = float(by_seed.mean().mean())
        line[f"{metric}_std"] = float(by_seed.std(ddof=0).mean())
        line[f"{metric}_seed_std"] = float(by_seed.mean().std(ddof=0))
        line[f"{metric}_worst"] = float(part.groupby("site")[metric].mean().min())
    for column in AVERAGED:
        line[column] = float(pd.to_numeric(part[column]).mean())
    seconds = [column for column in part.columns if column.startswith("seconds_")]
    for column in seconds:
        line[column] = float(part.groupby("seed")[column].sum().mean())
    return line


def _against(base: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    common = base.index.intersection(other.index)
    found: dict[str, float] = {}
    for metric in METRICS:
        gain = (other.loc[common, metric] - base.loc[common, metric]).to_numpy()
        tie = np.isclose(gain, 0.0, atol=1e-12)
        found[f"{metric}_gain"] = float(gain.mean())
        found[f"{metric}_wins"] = float(((gain > 0) & ~tie).mean())
        found[f"{metric}_ties"] = float(tie.mean())
        found[f"{metric}_losses"] = float(((gain < 0) & ~tie).mean())
    return found
