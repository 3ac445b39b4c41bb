"""One line a method: means, spread and worst sites, and each site against its own model, paired by seed and site."""

from __future__ import annotations

import math

import pandas as pd

from peerwise.evaluate.transfer import transfer, worst_tenth

OWN, LOCAL, LOCAL_ROUNDS = "own", "local", "local_rounds"
REFERENCES = (LOCAL, LOCAL_ROUNDS)  # methods that others are held to
METRICS = ("accuracy", "balanced_accuracy")
OTHERS = ("auroc", "auprc", "sensitivity", "specificity", "ece", "log_loss", "brier", "open_auroc")
BEHAVIOUR = ("ensemble_size", "ess", "fallback", "oracle")
CHOICE = ("trust_on_wrong", "pool_wrong", "selected_wrong", "missed_right", "mismatch")


def summarise(results: pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """A table indexed by method, in the order of the results.

    For accuracy and balanced accuracy: the mean over sites and seeds, ``_std`` over sites, the ``_worst`` site and the
    mean of the ``_worst_tenth`` of the sites (all three within a seed, then the mean over seeds: a site of another seed
    is another site), ``_seed_std`` over seeds of the mean over sites. Against the ``bar``, paired by seed and site:
    ``_gain``, ``_wins``, ``_ties``, ``_losses``, ``_win_rate``, ``_negative_transfer`` and the rest of `transfer`. The
    bar is "own", the own models of the pool that a method chose from; where a method has no pool, "local", that method
    of the same results, or "local_rounds" of a method with rounds; or the method ``reference``. It is None where there
    is none.

    Other metrics and the ensemble's behaviour: the mean over the sites where they are defined, a metric's number of
    such sites (of all seeds) in ``_sites``. Sites without test rows do not count, except in what all sites cost: bytes
    a site, and seconds of all sites together, a seed.
    """
    lines = {str(name): _line(part) for name, part in results.groupby("method", sort=False)}
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.index.name = "method"
    scored = _scored(results)
    held_to = {metric: _held_to(results, scored, metric, reference) for metric in METRICS}
    known = set(results["method"])
    bars = {name: _bar(part, reference, known) for name, part in results.groupby("method")}
    table["bar"] = pd.Series(bars, dtype=object)
    for metric, values in held_to.items():
        if values is None:
            table["bar"] = None
            continue
        for name in table.index:
            here = scored["method"] == name
            for key, value in transfer(scored.loc[here, metric], values[here]).items():
                table.loc[name, f"{metric}_{key}"] = value
    return table


def reference_method(method: str, rounds: float, lr: float | None) -> str:
    """The method that one without a pool is held to: the same nets alone with the same budget if it has rounds or a
    learning rate, else the site's own models."""
    if method in REFERENCES:
        return method
    return LOCAL_ROUNDS if rounds > 1 or (lr is not None and not math.isnan(lr)) else LOCAL


def _references(results: pd.DataFrame) -> pd.Series[str]:
    lines = results.reindex(columns=["method", "rounds", "lr"])
    found = [reference_method(str(m), r, None if pd.isna(lr) else lr) for m, r, lr in lines.itertuples(index=False)]
    return pd.Series(found, index=results.index, dtype=object)


def _scored(results: pd.DataFrame) -> pd.DataFrame:
    return results[results["test_rows"] > 0]


def _bar(part: pd.DataFrame, reference: str | None, known: set[str]) -> str | None:
    """Of the results of one method; those of an assessment name it in their column "reference"."""
    if reference is not None:
        return reference
    if "reference" in part.columns:
        named = part["reference"].dropna()
        return str(named.iloc[0]) if len(named) else None
    if "own_accuracy" in part.columns and bool(part["own_accuracy"].notna().any()):
        return OWN
    found = str(_references(part).iloc[0])
    return found if found in known else None


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
        line[f"{metric}_worst_tenth"] = float(by_seed.agg(worst_tenth).mean())
    for column in (*OTHERS, *BEHAVIOUR, *CHOICE):
        if column in scored.columns:
            line[column] = float(pd.to_numeric(scored[column]).mean())
        if column in OTHERS and column in scored.columns:
            line[f"{column}_sites"] = int(scored[column].notna().sum())
    for column in ("bytes_sent", "bytes_received", "rounds"):
        if column in part.columns:
            line[column] = float(part[column].mean())
    for column in [column for column in part.columns if column.startswith("seconds_")]:
        # A phase that a method does not have is no phase of zero seconds.
        line[column] = float(part.groupby("seed")[column].sum(min_count=1).mean())
    return line


def _held_to(
    results: pd.DataFrame, scored: pd.DataFrame, metric: str, reference: str | None
) -> pd.Series[float] | None:
    """For each scored row the value that it has to beat; None if no row has one."""
    own = f"own_{metric}"
    has_own = reference is None and own in results.columns and bool(results[own].notna().any())
    names = _references(results) if reference is None else pd.Series(reference, index=results.index)
    if not has_own and not names.isin(set(results["method"])).any():
        return None
    base = scored.set_index(["seed", "site", "method"])[metric]
    places = pd.MultiIndex.from_arrays([scored["seed"], scored["site"], names[scored.index]])
    values = pd.Series(base.reindex(places).to_numpy(dtype=float), index=scored.index)
    return pd.to_numeric(scored[own]).fillna(values) if has_own else values
