"""How a method chooses among the models of a pool: trust against what was right, and against where models come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr

from peerwise.errors import DataError
from peerwise.metrics import Labels

NAN = float("nan")


def mismatch(y: Labels, trust: NDArray[np.floating], says: Labels) -> dict[str, float]:
    """The chosen models (trust above zero) of each row against its oracle set, the models that are right there; means
    over rows, in numbers of models unless said otherwise.

    * ``selected_wrong``: models chosen though they are wrong; ``missed_right``: models that are right but not chosen
    * ``mismatch``: the mean of these two. Where both sets are equally large it is the selection mismatch size of
      FedSOV, which assumes that they always are.
    * ``trust_on_wrong``: share of trust that lies on wrong models; ``pool_wrong``: what it would be if all models
      were trusted alike

    ``trust`` (n, models), ``says`` (n, models): class codes. NaN without rows.
    """
    if not trust.shape == says.shape == (len(y), *trust.shape[1:]):
        raise DataError(f"trust {trust.shape}, says {says.shape}: expected ({len(y)}, models) both, a row for each y.")
    names = ("selected_wrong", "missed_right", "mismatch", "trust_on_wrong", "pool_wrong")
    if len(y) == 0:
        return dict.fromkeys(names, NAN)
    right, chosen = says == y[:, None], trust > 0
    wrong, missed = float((chosen & ~right).sum(axis=1).mean()), float((right & ~chosen).sum(axis=1).mean())
    on_wrong = float(np.where(right, 0.0, trust).sum(axis=1).mean())
    return dict(zip(names, (wrong, missed, (wrong + missed) / 2, on_wrong, float((~right).mean())), strict=True))


def gap_closed(ours: ArrayLike, own: ArrayLike, oracle: ArrayLike) -> float:
    """How far a method goes from the own model (0) to a perfect choice among the pool's models (1), below 0 where it
    loses: (mean ours - mean own) / (mean oracle - mean own), each an accuracy a site. NaN without a gap.

    >>> gap_closed([0.85], [0.8], [0.9]).__round__(3)
    0.5
    """
    values = np.stack([np.asarray(each, dtype=np.float64).ravel() for each in (ours, own, oracle)])
    known = values[:, ~np.isnan(values).any(axis=0)]
    if not known.size:
        return NAN
    mean_ours, mean_own, mean_oracle = known.mean(axis=1)
    return float((mean_ours - mean_own) / (mean_oracle - mean_own)) if mean_oracle - mean_own > 1e-12 else NAN


def home_frequency(trees: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Trust against origin: a line for each model and class, from the predictions of one method at all sites of one
    seed (simulation only: nobody else knows the sites' label counts).

    ``trust``: mean trust in the model over all test rows of the class, at all sites; ``peer_trust``: the same without
    the rows of the model's home site; ``frequency``: share of the class among its home site's train rows. Classes
    without test rows have no line.
    """
    parts: list[dict[str, Any]] = []
    for site, tree in trees.items():
        details, y = tree["details"], tree["y"]
        if "trust" not in details:
            continue
        for code in np.unique(y):
            trusted = details["trust"][y == code]
            for model, total in zip(details["models"], trusted.sum(axis=0), strict=True):
                home = model.split("@", 1)[1]
                if home in trees:
                    parts.append({"model": model, "home": home, "class": int(code), "total": float(total),
                                  "rows": len(trusted), "peer": home != site})  # fmt: skip
    if not parts:
        return pd.DataFrame(columns=["model", "home", "class", "trust", "peer_trust", "frequency"])
    found = pd.DataFrame(parts)
    keys = ["model", "home", "class"]
    sums = found.groupby(keys, sort=False)[["total", "rows"]].sum()
    peers = found[found["peer"]].groupby(keys, sort=False)[["total", "rows"]].sum()
    lines = pd.DataFrame({"trust": sums["total"] / sums["rows"], "peer_trust": peers["total"] / peers["rows"]})
    lines = lines.loc[sums.index].reset_index()
    shares = {site: tree["label_counts"] / max(tree["label_counts"].sum(), 1) for site, tree in trees.items()}
    return lines.assign(frequency=[float(shares[home][code]) for home, code in lines[["home", "class"]].to_numpy()])


def home_correlation(lines: pd.DataFrame) -> dict[str, float]:
    """Spearman's rank correlation of trust with home class frequency over the lines of `home_frequency`: of all rows
    (``home_spearman``; the FedDES paper's figure 2) and of peers' rows only (``home_spearman_peers``), which a mere
    preference for own models does not raise. NaN where either side never varies."""
    return {"home_spearman": _ranks(lines, "trust"), "home_spearman_peers": _ranks(lines, "peer_trust")}


def _ranks(lines: pd.DataFrame, column: str) -> float:
    known = lines[[column, "frequency"]].dropna().astype(np.float64).round(12)
    if len(known) < 2 or (known.nunique() < 2).any():
        return NAN
    return float(spearmanr(known[column], known["frequency"]).statistic)
