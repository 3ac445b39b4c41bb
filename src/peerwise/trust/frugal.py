"""Frugal answers: models are asked in the order of their use, and a row stops where the rest would hardly matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import ConfigError, ParcelError
from peerwise.models.folds import fold_rows
from peerwise.space import as_logits, check_codes, softmax
from peerwise.space.outputs import Array
from peerwise.trust.base import Labelled, TrustLearner, some_rows
from peerwise.trust.bundle import learner_from_tree, learner_to_tree
from peerwise.trust.frugal_limits import Limits, limits
from peerwise.trust.frugal_stages import asked_of, drawn, fitted_on, held_out_by, ranked

Floats = NDArray[np.float64]
Ask = Callable[[Sequence[int], NDArray[np.int64]], Array]
ADDED = (0, 2, 5, 8, 14, 24)  # peers' models in the pool of each stage, before the last, which has all
LEAST_PEERS = 3
LEAST_ROWS = 50
FAILED = -1  # the stage of a row that some model had no answer to


@dataclass(frozen=True, eq=False)
class Frugal:
    """Answers to n rows: ``probabilities`` (n, classes); ``trust`` and ``consulted`` (n, models); ``fallback`` (n,): no
    model that was asked seemed reliable; ``stage`` (n,) at which each row stopped, -1 where one of these had no answer.
    """

    probabilities: Floats
    trust: Floats
    fallback: NDArray[np.bool_]
    consulted: NDArray[np.bool_]
    stage: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stage:
    """A pool of these columns, what was learned from it, and how sure of a row it must be for the row to stop."""

    columns: tuple[int, ...]
    learner: TrustLearner
    enough: float


@dataclass(frozen=True, eq=False)
class Cascade:
    """Pools that grow from the own models to all, a trust learner of the same kind on each.

    The answer of a learner hangs on what all its models say, so a part of them can never prove what all would say.
    How likely it is to differ can be learned: each of the site's rows is answered at every stage by learners that have
    not learned from it, and by the learner of all models likewise. Of a stage's answer c to a row,

        sureness = p(c) * sum over models of trust * probability of c

    with p its posterior. A row stops at the first stage that is sure enough: so sure that of the held-out rows
    no more than an estimated share ``tolerance`` is answered rightly by all models and wrongly here (`limits`). No
    learner has seen these rows, but they choose the limits, so that is no promise: benchmarks/frugal.py judges on rows
    that chose nothing. The next model in the order is always the one that brings the trust-weighted vote of those
    chosen nearest to the full answer. The last stage is the learner of all models itself.

    ``lost`` and ``share``: the part of those ``rows`` that loses a right answer, and of the model evaluations that is
    left; for the same reason both are optimistic. docs/frugal.md has what was tried and measured.
    """

    parts: tuple[Stage, ...]
    own: tuple[int, ...]
    lost: float
    share: float
    rows: int

    @classmethod
    def fit(
        cls,
        learner: TrustLearner,
        logits: ArrayLike,
        y: ArrayLike,
        X: Any = None,
        *,
        own: Sequence[int],
        group: ArrayLike | None = None,
        folds: int = 5,
        tolerance: float = 0.005,
        seed: int = 0,
        full: TrustLearner | None = None,
    ) -> Cascade | None:
        """From the labelled rows of a site: ``logits`` (n, models, classes) with the columns ``own`` out of fold.

        ``learner`` has the settings; ``full`` is the one that was fitted on all models, where there is one already
        (else it is fitted here, on these rows). None where nothing can be saved: with few peers or rows, or where the
        answers of fewer models are wrong too often.
        """
        if not 0 <= tolerance < 1:
            raise ConfigError(f"tolerance={tolerance!r}: expected a share of the answers, from 0 to below 1.")
        checked = as_logits(logits, "logits")
        codes = check_codes(y, len(checked), checked.shape[2])
        rows = Labelled(checked, codes, X, None if group is None else np.asarray(group))
        models = checked.shape[1]
        some = drawn(rows, seed)
        parts = fold_rows(some.y, folds, seed, some.group)
        answered = sum(len(held_out) for _, held_out in parts)  # none where there is one group
        if models - len(own) < LEAST_PEERS or len(some.y) < LEAST_ROWS or answered < len(some.y):
            return None
        everything = held_out_by(learner, some, range(models), own, parts)
        order = ranked(everything.trust, some.logits.argmax(axis=2), everything.answers, own)
        pools = [tuple(sorted(order[:size])) for size in _sizes(models, len(own))]
        tried = [held_out_by(learner, some, pool, own, parts) for pool in pools]
        found = limits(
            np.array([each.sureness for each in tried]),
            np.array([(everything.answers == some.y) & (each.answers != some.y) for each in tried]),
            [len(pool) / models for pool in pools],
            tolerance,
        )
        if found is None:
            return None
        last = full or fitted_on(learner, rows, range(models), own)
        return cls(_stages(learner, rows, own, pools, found, last), tuple(own), found.lost, found.share, len(some.y))

    @property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """The columns that have been asked by the end of each stage; the last has all."""
        return tuple(part.columns for part in self.parts)

    def answer(self, ask: Ask, rows: int, X: Any) -> Frugal:
        """Answers to ``rows`` rows, of which ``X`` are the inputs.

        ``ask(columns, row numbers)`` gives logits (rows, columns, classes), and is asked for each model's answer to a
        row at most once. Where it gives what is not finite the row asks no more: the own models answer it, all alike,
        as in a pool of which a model fails.
        """
        models, classes = len(self.parts[-1].columns), len(self.parts[-1].learner.classes_)
        logits = np.full((rows, models, classes), np.nan, np.float32)
        found = Frugal(
            np.full((rows, classes), np.nan),
            np.zeros((rows, models)),
            np.zeros(rows, bool),
            np.zeros((rows, models), bool),
            np.full(rows, FAILED),
        )
        left, known = np.arange(rows), np.zeros(models, bool)
        for number, part in enumerate(self.parts):
            if not len(left):
                break
            columns = np.array(part.columns)
            new = columns[~known[columns]]
            logits[np.ix_(left, new)] = ask(new.tolist(), left)
            found.consulted[np.ix_(left, new)] = True
            known[new] = True
            failed = ~np.isfinite(logits[np.ix_(left, new)]).all(axis=(1, 2))
            self._leave_to_own(found, logits, left[failed])
            left = left[~failed]
            left = self._stop(found, number, logits[np.ix_(left, columns)], left, X)
        return found

    def _stop(self, found: Frugal, number: int, logits: Array, asked: NDArray[np.int64], X: Any) -> NDArray[np.int64]:
        """Write down the answers to the rows that stop here; the others."""
        part = self.parts[number]
        if not len(asked):
            return asked
        said = asked_of(part.learner, logits, None if X is None else some_rows(X, asked))
        stops = said.sureness >= part.enough if number < len(self.parts) - 1 else np.ones(len(asked), bool)
        done = asked[stops]
        found.probabilities[done] = said.probabilities[stops]
        found.trust[np.ix_(done, np.array(part.columns))] = said.trust[stops]
        found.fallback[done] = said.fallback[stops]
        found.stage[done] = number
        return asked[~stops]

    def _leave_to_own(self, found: Frugal, logits: Array, failed: NDArray[np.int64]) -> None:
        """The mean of the own models that have an answer; without any, all classes alike."""
        own = np.array(self.own, dtype=np.int64)
        given = logits[np.ix_(failed, own)]
        good = np.asarray(np.isfinite(given).all(axis=2))
        said = softmax(np.where(good[:, :, None], given, 0.0)).astype(np.float64)
        count = good.sum(axis=1, keepdims=True)
        mean = np.where(good[:, :, None], said, 0.0).sum(axis=1) / np.maximum(count, 1)
        found.probabilities[failed] = np.where(count > 0, mean, 1 / said.shape[2])
        found.trust[np.ix_(failed, own)] = good / np.maximum(count, 1)
        found.fallback[failed] = True

    # ---- keeping -------------------------------------------------------------------------------------------------

    def to_tree(self) -> dict[str, Any]:
        stages = [
            {"columns": list(part.columns), "learner": learner_to_tree(part.learner), "enough": part.enough}
            for part in self.parts
        ]
        about = {"own": list(self.own), "lost": self.lost, "share": self.share, "rows": self.rows}
        return {"stages": stages, **about}

    @classmethod
    def from_tree(cls, kind: type[TrustLearner], tree: dict[str, Any]) -> Cascade:
        """What `to_tree` gave, of a learner of this kind."""
        try:
            parts = tuple(
                Stage(tuple(part["columns"]), learner_from_tree(kind, part["learner"]), float(part["enough"]))
                for part in tree["stages"]
            )
            found = cls(parts, tuple(tree["own"]), float(tree["lost"]), float(tree["share"]), int(tree["rows"]))
            good = _fits_together(found)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ParcelError(f"the saved cascade was changed or cut short ({error!r}). Fit it again.") from error
        if not good:
            raise ParcelError("the stages of the saved cascade do not fit together: it was changed. Fit it again.")
        return found


def _sizes(models: int, own: int) -> list[int]:
    return [own + added for added in ADDED if 0 < own + added < models]


def _stages(
    learner: TrustLearner,
    rows: Labelled,
    own: Sequence[int],
    pools: list[tuple[int, ...]],
    found: Limits,
    last: TrustLearner,
) -> tuple[Stage, ...]:
    """Stages at which no row would stop are left out; their models are asked in the next."""
    early = [(pool, enough) for pool, enough in zip(pools, found.enough, strict=True) if enough is not None]
    everything = Stage(tuple(range(rows.logits.shape[1])), last, 0.0)
    return (*(Stage(pool, fitted_on(learner, rows, pool, own), enough) for pool, enough in early), everything)


def _fits_together(cascade: Cascade) -> bool:
    pools = cascade.stages
    good = pools[-1] == tuple(range(len(pools[-1]))) and set(cascade.own) <= set(pools[0])
    for pool, after in pairwise(pools):
        good = good and list(pool) == sorted(set(pool)) and set(pool) < set(after)
    classes = {len(part.learner.classes_) for part in cascade.parts}
    sizes = all(len(part.learner.model_names_) == len(part.columns) for part in cascade.parts)
    return good and sizes and len(classes) == 1 and all(0 <= part.enough <= 1 for part in cascade.parts)
