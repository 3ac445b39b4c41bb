"""What the paper's figures 2 d-f, 3 d-f, 4 d-f and 5 b-c show, as numbers: rank correlations and means over sites, each
within a seed, then the mean over seeds and ± its spread."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from stacking_tables import NAMES, markdown

Rows = list[dict[str, str]]


def relations(sites: pd.DataFrame, edges: pd.DataFrame) -> str:
    sites = sites.assign(
        gain=sites["held_out"] - sites["own_80"],
        imbalance=(sites["positive"] - 0.5).abs(),
        share=pd.to_numeric(sites["setting"], errors="coerce"),
    )
    others = edges[edges["site"] != edges["peer"]]
    others = others.assign(
        apart=(others["positive"] - others["peer_positive"]).abs(),
        peer_imbalance=(others["peer_positive"] - 0.5).abs(),
    )
    return (
        markdown("Rank correlations", [line for p in ("paper", "ours") for line in _correlations(sites, others, p)])
        + markdown("Importance of the own model", _self_importance(sites))
        + markdown("Importance of the own model where columns differ", _self_by_share(sites))
        + markdown("Importance given to others under label skew", _sides(others))
        + markdown("Natural sites", _natural(sites))
    )


def _correlations(sites: pd.DataFrame, others: pd.DataFrame, protocol: str) -> Rows:
    """A line a figure's plot: for each data set the rank correlation of its two quantities."""
    here = dict(iter(sites[sites["protocol"] == protocol].groupby("scenario")))
    given = others[(others["protocol"] == protocol) & (others["noise"] == 0)]
    between = dict(iter(given.groupby("scenario")))
    quiet = here["vertical"][here["vertical"]["noise"] == 0]
    plots = {
        "2 d: rows, gain": (here["quantity"], "rows", "gain"),
        "2 e: rows, importance": (here["quantity"], "rows", "importance"),
        "2 f: rows, self-importance": (here["quantity"], "rows", "self_held_out"),
        "3 d: imbalance, gain": (here["equal_label_skew"], "imbalance", "gain"),
        "3 e: imbalance, importance": (here["equal_label_skew"], "imbalance", "importance"),
        "3 f: other's imbalance, importance given": (between["equal_label_skew"], "peer_imbalance", "weight"),
        "3 f: difference of label balance, importance given": (between["equal_label_skew"], "apart", "weight"),
        "4 d: overlap of columns, importance given": (between["vertical"], "jaccard", "weight"),
        "4 e: share of columns, self-importance": (quiet, "share", "self_held_out"),
    }
    return [
        {"figure, protocol": f"{plot}; {protocol}"} | _by_dataset(part, lambda seed, x=x, y=y: _rank(seed, x, y))
        for plot, (part, x, y) in plots.items()
    ]


def _self_importance(sites: pd.DataFrame) -> Rows:
    lines = []
    for scenario, words in (("quantity", "quantity skew"), ("equal_label_skew", "label skew"), ("natural", "natural")):
        for protocol, variants in (("paper", ("held_out", "pooled")), ("ours", ("held_out", "cv", "pooled"))):
            part = sites[(sites["scenario"] == scenario) & (sites["protocol"] == protocol)]
            for variant in variants:
                found = _by_dataset(part, lambda seed, v=variant: seed[f"self_{v}"].mean())
                lines.append({"scenario": f"{words}, {protocol}, {variant.replace('_', '-')}"} | found)
    return lines


def _self_by_share(sites: pd.DataFrame) -> Rows:
    part = sites[sites["scenario"] == "vertical"]
    return [
        {"share of the columns, eps, protocol": f"{share}, {noise:g}, {protocol}"}
        | {
            f"{NAMES[name]}, {words}": _mean_over_seeds(
                group[group["dataset"] == name], lambda seed, v=variant: seed[f"self_{v}"].mean()
            )
            for name in NAMES
            for variant, words in (("held_out", "held-out"), ("pooled", "pooled"))
        }
        for (protocol, share, noise), group in part.groupby(["protocol", "share", "noise"], sort=False)
    ]


def _sides(others: pd.DataFrame) -> Rows:
    """Whether sites lean on others that are imbalanced to the same side, and less so than themselves."""
    part = others[(others["scenario"] == "equal_label_skew") & others["setting"].isin(["0.5", "1.0"])]
    same = (part["positive"] - 0.5) * (part["peer_positive"] - 0.5) > 0
    milder = part["peer_imbalance"] < (part["positive"] - 0.5).abs()
    kinds = {
        "other side": ~same,
        "same side, more extreme": same & ~milder,
        "same side, less extreme": same & milder,
    }
    return [
        {"the other's labels, protocol": f"{kind}; {protocol}"}
        | _by_dataset(part[chosen & (part["protocol"] == protocol)], lambda seed: seed["weight"].mean())
        for kind, chosen in kinds.items()
        for protocol in ("paper", "ours")
    ]


def _natural(sites: pd.DataFrame) -> Rows:
    part = sites[sites["scenario"] == "natural"]
    lines = []
    for (name, site), group in part.groupby(["dataset", "site"], sort=False):
        line = {"site": f"{NAMES[str(name)]}: {site}", "rows": f"{group['rows'].mean():.0f}"}
        for protocol in ("paper", "ours"):
            here = group[group["protocol"] == protocol]
            for variant, words in (("held_out", "held-out"), ("pooled", "pooled")):
                gain = _mean_over_seeds(
                    here, lambda s, v=variant: 100 * (s[v] - s["own_80"]).mean(), "{:+.1f} ± {:.1f}"
                )
                line[f"gain {words}, {protocol}"] = gain
            for variant, words in (("held_out", "held-out"), ("pooled", "pooled")):
                line[f"self {words}, {protocol}"] = _mean_over_seeds(here, lambda s, v=variant: s[f"self_{v}"].mean())
        lines.append(line)
    return lines


def _by_dataset(part: pd.DataFrame, value: Callable[[pd.DataFrame], float]) -> dict[str, str]:
    return {words: _mean_over_seeds(part[part["dataset"] == name], value) for name, words in NAMES.items()}


def _mean_over_seeds(part: pd.DataFrame, value: Callable[[pd.DataFrame], float], form: str = "{:.2f} ± {:.2f}") -> str:
    found = pd.Series([value(seed) for _, seed in part.groupby("seed")], dtype=float)
    return form.format(found.mean(), found.std(ddof=0)) if len(found) else "-"


def _rank(part: pd.DataFrame, x: str, y: str) -> float:
    return float(part[x].corr(part[y], method="spearman"))
