"""A metric over sites against the same sites' own models: who wins, who is harmed, and how much."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from peerwise.errors import DataError
from peerwise.evaluate.paired import LEVEL

NAN = float("nan")


def transfer(ours: ArrayLike, own: ArrayLike, level: float = LEVEL) -> dict[str, float]:
    """What the sites (of all seeds together) get from a method, ``ours`` and ``own`` holding a metric for each site.

    * ``gain``: mean of ours - own
    * ``wins``, ``ties``, ``losses``: shares of sites above, at (but for rounding) and below their own model
    * ``win_rate``: wins among the sites that are not tied, ``win_rate_low`` to ``win_rate_high`` its Wilson interval
      (as if sites and seeds were independent draws)
    * ``negative_transfer``: share of sites below their own model (= losses)
    * ``negative_transfer_size``: what those sites lose, on average; NaN if there are none
    * ``negative_transfer_burden``: what all sites lose, on average, those that do not lose counting as zero;
      = negative_transfer x negative_transfer_size
    * ``worst_tenth_gain``: mean gain of the tenth of the sites that gain least

    Sites where either is NaN do not count; with none left everything is NaN.
    """
    first, second = np.asarray(ours, dtype=np.float64), np.asarray(own, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise DataError(f"ours and own have shapes {first.shape} and {second.shape}: expected the same (sites,).")
    gain = (first - second)[~np.isnan(first - second)]
    tie = np.isclose(gain, 0.0, atol=1e-12)
    lost = np.where(~tie & (gain < 0), -gain, 0.0)
    wins, losses = int((~tie & (gain > 0)).sum()), int((lost > 0).sum())
    low, high = win_interval(wins, losses, level)
    sites = len(gain) or NAN
    return {
        "gain": gain.sum() / sites,
        "wins": wins / sites,
        "ties": int(tie.sum()) / sites,
        "losses": losses / sites,
        "win_rate": wins / (wins + losses) if wins + losses else NAN,
        "win_rate_low": low,
        "win_rate_high": high,
        "negative_transfer": losses / sites,
        "negative_transfer_size": lost.sum() / losses if losses else NAN,
        "negative_transfer_burden": lost.sum() / sites,
        "worst_tenth_gain": worst_tenth(gain),
    }


def win_interval(wins: int, losses: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of the win rate over sites that are not tied; NaN if all are."""
    if wins + losses == 0:
        return NAN, NAN
    found = binomtest(wins, wins + losses).proportion_ci(confidence_level=level, method="wilson")
    return float(found.low), float(found.high)


def worst_tenth(values: ArrayLike) -> float:
    """Mean of the lowest tenth of the values (rounded up: at least one); NaN without values.

    >>> worst_tenth([0.9, 0.5, 0.7] + [0.8] * 8)
    0.6
    """
    known = np.asarray(values, dtype=np.float64)
    known = np.sort(known[~np.isnan(known)])
    return float(known[: math.ceil(len(known) / 10)].mean()) if len(known) else NAN
