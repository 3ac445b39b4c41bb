"""What learners on a part of the pool say of rows that they have not learned from; and which models come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from peerwise.space import softmax
from peerwise.space.outputs import Array
from peerwise.trust.base import Labelled, TrustLearner, some_rows

Floats = NDArray[np.float64]
MOST_ROWS = 2000  # drawn from a larger site to learn where to stop


@dataclass(frozen=True, eq=False)
class Said:
    """Of some rows, by one learner."""

    probabilities: Floats
    trust: Floats
    fallback: NDArray[np.bool_]
    sureness: Floats
    answers: NDArray[np.int64]


def asked_of(learner: TrustLearner, logits: Array, X: Any) -> Said:
    decision = learner._decide(logits, X)
    probabilities = learner._probabilities(decision, logits)
    answers, each = learner.answers(probabilities), np.arange(len(probabilities))
    support = (decision.trust * softmax(logits)[each, :, answers]).sum(axis=1)
    sureness = np.asarray(probabilities[each, answers] * support)
    return Said(probabilities, decision.trust, decision.fallback, sureness, answers)


def held_out_by(
    learner: TrustLearner,
    rows: Labelled,
    pool: Sequence[int],
    own: Sequence[int],
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Said:
    """What learners on this pool say of the rows that they have not learned from."""
    said = []
    for rest, held_out in parts:
        fitted = fitted_on(learner, some_of(rows, rest), pool, own)
        asked = some_of(rows, held_out)
        said.append(asked_of(fitted, asked.logits[:, list(pool)], asked.X))
    back = np.argsort(np.concatenate([held_out for _, held_out in parts]))
    names = ("probabilities", "trust", "fallback", "sureness", "answers")
    return Said(**{name: np.concatenate([getattr(each, name) for each in said])[back] for name in names})


def fitted_on(learner: TrustLearner, rows: Labelled, pool: Sequence[int], own: Sequence[int]) -> TrustLearner:
    mine = [place for place, column in enumerate(pool) if column in set(own)]
    fresh: TrustLearner = clone(learner).set_params(own=mine)
    return fresh.fit_outputs(rows.logits[:, list(pool)], rows.y, rows.X, group=rows.group)


def ranked(trust: Floats, says: NDArray[np.int64], answers: NDArray[np.int64], own: Sequence[int]) -> list[int]:
    """The own models; then always the one with which the vote of all so far agrees most often with the answers."""
    chosen, rest = list(own), [model for model in range(trust.shape[1]) if model not in set(own)]
    each = np.arange(len(says))
    votes = np.zeros((len(says), int(says.max()) + 1))
    for model in chosen:
        votes[each, says[:, model]] += trust[:, model]

    def use(model: int) -> tuple[float, float]:
        with_it = votes.copy()
        with_it[each, says[:, model]] += trust[:, model]
        return float((with_it.argmax(axis=1) == answers).mean()), float(trust[:, model].mean())

    while rest:
        best = max(rest, key=use)
        votes[each, says[:, best]] += trust[:, best]
        chosen.append(best)
        rest.remove(best)
    return chosen


def drawn(rows: Labelled, seed: int) -> Labelled:
    if len(rows.y) <= MOST_ROWS:
        return rows
    return some_of(rows, np.sort(np.random.default_rng(seed).choice(len(rows.y), MOST_ROWS, replace=False)))


def some_of(rows: Labelled, chosen: NDArray[np.int64]) -> Labelled:
    X = None if rows.X is None else some_rows(rows.X, chosen)
    return Labelled(rows.logits[chosen], rows.y[chosen], X, None if rows.group is None else rows.group[chosen])
