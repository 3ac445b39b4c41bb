"""Learning rates tried on validation rows, equally many for every method that has one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from peerwise.errors import ModelError
from peerwise.run.contenders import Contender
from peerwise.run.runner import MethodRun, Observer, Predictions


def finish_best(
    trials: Sequence[Contender], runs: Sequence[MethodRun], seed: int, tell: Observer
) -> tuple[Contender, Predictions]:
    """The trial that does best on the sites' validation rows (the earlier among equals) answers their test rows.

    A learning rate that fails at every site is one that is not chosen; if all do, the first failure stops the run.
    """
    scores: list[float] = []
    failures: list[ModelError] = []
    for trial, run in zip(trials, runs, strict=True):
        event = {"event": "method", "method": trial.label, "seed": seed, "sites": len(run.sites)}
        tell({**event, "rounds": trial.method.rounds, **({"lr": trial.lr} if len(trials) > 1 else {})})
        if len(trials) == 1:
            return trial, run.finish()
        try:
            run.train()
        except ModelError as error:
            failures.append(error)
            scores.append(-math.inf)
        else:
            scores.append(run.score())
    if len(failures) == len(trials):
        raise failures[0]
    # Where no site has validation rows there is no score, and the first will do.
    best = max(range(len(trials)), key=lambda place: -1.0 if math.isnan(scores[place]) else scores[place])
    tell({"event": "tuned", "method": trials[best].label, "seed": seed, "lr": trials[best].lr,
          "tried": [trial.lr for trial in trials],
          "scores": [score if math.isfinite(score) else None for score in scores]})  # fmt: skip
    return trials[best], runs[best].finish()
