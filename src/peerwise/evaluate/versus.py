"""Two sets of answers to the same test rows at many sites: by how much one is better, and could it be chance?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerwise.evaluate.paired import LEVEL, compare, holm, mean_interval
from peerwise.evaluate.transfer import transfer
from peerwise.metrics import Labels

# (seed, site) -> truth, our answers, the others' answers
Pairs = Mapping[tuple[int, str], tuple[Labels, Labels, Labels]]


@dataclass(frozen=True)
class Versus:
    """``gain``: mean over sites of the difference of accuracies, from ``low`` to ``high`` (as wide as one seed's);
    ``better``, ``tied``, ``worse``: sites x seeds; those of them ``surely`` (exact McNemar, Holm over all, 5 %).
    ``lines``: a line a seed and site."""

    gain: float
    low: float
    high: float
    better: int
    tied: int
    worse: int
    surely_better: int
    surely_worse: int
    lines: pd.DataFrame

    @property
    def may_be_chance(self) -> bool:
        return bool(np.isnan(self.low) or self.low <= 0 <= self.high)


def versus(pairs: Pairs, *, common: bool = False) -> Versus:
    """``common``: all sites of a seed have the same test rows, which then count once."""
    lines = pd.DataFrame(
        [
            {"seed": seed, "site": site, **vars(compare(y, ours, theirs))}
            for (seed, site), (y, ours, theirs) in pairs.items()
            if len(y)
        ],
        columns=["seed", "site", "rows", "only_ours", "only_own", "gain", "low", "high", "p"],
    )
    lines["holm_p"] = holm(lines["p"].to_numpy(dtype=float))
    ends = [_interval(part, common) for _, part in lines.groupby("seed")]
    weights = [len(part) for _, part in lines.groupby("seed")]
    low, high = np.average(ends, axis=0, weights=weights) if ends else (np.nan, np.nan)
    found = transfer(lines["gain"], np.zeros(len(lines)))
    sure = lines[lines["holm_p"] < 1 - LEVEL]
    counts = [round(found[key] * len(lines)) if len(lines) else 0 for key in ("wins", "ties", "losses")]
    surely = [int((sure["gain"] > 0).sum()), int((sure["gain"] < 0).sum())]
    better, tied, worse = counts
    return Versus(float(found["gain"]), float(low), float(high), better, tied, worse, surely[0], surely[1], lines)


def _interval(part: pd.DataFrame, common: bool) -> Sequence[float]:
    share = len(part) if common else 1
    won, lost, rows = (part[name].to_numpy(dtype=float) / share for name in ("only_ours", "only_own", "rows"))
    return mean_interval(won, lost, rows)[1:]
