"""How sure of a row a stage must be for the row to stop there, learned from held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
TRIED = 400  # risks, at most
EDGE = 1e-3  # of a sureness, before its log-odds are taken


@dataclass(frozen=True)
class Limits:
    """For each stage but the last the least sureness at which rows stop (None: they never do); and of the held-out rows
    the share that then loses a right answer, and the share of model evaluations that is left."""

    enough: tuple[float | None, ...]
    lost: float
    share: float


def limits(sureness: Floats, lost: NDArray[np.bool_], shares: Sequence[float], tolerance: float) -> Limits | None:
    """``sureness`` of each stage's answer to each held-out row (stages, n); whether all models are right there and the
    stage is not; and the share of all models that each stage has asked.

    One risk for all stages: a row stops at the first at which a right answer is lost with at most this probability, by
    a logistic regression over the log-odds of the sureness and the logarithm of the share. The risk is that with which
    the fewest models are asked, of those that lose no more than is tolerated, by the mean of what is counted and what
    the regression expects: of few rows none may be lost by luck. None where no row would stop.
    """
    risk = _risks(sureness, lost, shares)
    cost, rows = np.array([*shares, 1.0]), np.arange(sureness.shape[1])
    counted, expected = (np.concatenate([each, np.zeros((1, len(rows)))]) for each in (lost, risk))
    best: Limits | None = None
    for level in np.unique(np.quantile(risk, np.linspace(0, 1, TRIED))):
        # The least sureness seen of those that may stop: a row unlike all of these goes on.
        least = np.where(risk <= level, sureness, np.inf).min(axis=1)
        stops = _first(sureness >= least[:, None])
        gone, share = float(counted[stops, rows].mean()), float(cost[stops].mean())
        if (gone + expected[stops, rows].mean()) / 2 <= tolerance and share < (best.share if best else 1.0):
            used = [bool((stops == stage).any()) for stage in range(len(least))]
            best = Limits(tuple(float(x) if u else None for x, u in zip(least, used, strict=True)), gone, share)
    return best


def _risks(sureness: Floats, lost: NDArray[np.bool_], shares: Sequence[float]) -> Floats:
    """Of every answer (stages, n). Where none is lost: as if half a row were, whatever the sureness."""
    if not lost.any():
        return np.asarray((0.5 + EDGE * (1 - sureness)) / (lost.shape[1] + 1))
    clipped = np.clip(sureness, EDGE, 1 - EDGE)
    asked = np.broadcast_to(np.log(shares)[:, None], sureness.shape)
    features = np.stack([np.log(clipped / (1 - clipped)), asked], axis=-1).reshape(-1, 2)
    model = LogisticRegression().fit(features, lost.ravel())
    return np.asarray(model.predict_proba(features)[:, 1].reshape(sureness.shape))


def _first(stops: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first stage at which each row stops; the last, which is none of these, stops all."""
    return np.asarray(np.concatenate([stops, np.ones((1, stops.shape[1]), bool)]).argmax(axis=0))
