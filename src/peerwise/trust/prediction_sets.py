"""How sure an answer is: the classes that are possible at a level, calibrated on rows that nothing was learned from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ConfigError, ParcelError

LEVEL = 0.9  # unless another one is asked for
LOWEST, HIGHEST = 0.5, 0.999
ALIKE = 1e-6  # scores this close are equal: a row gets one verdict whatever rows it is answered with
MANY = 4  # classes; more are counted, not named
TREE = {"probabilities", "y", "answers", "by_class"}

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Verdict:
    """Of one answer: ``possible`` are the class codes of its prediction set; ``why`` is empty unless it is unsure."""

    possible: tuple[int, ...]
    why: str

    @property
    def unsure(self) -> bool:
        return len(self.possible) > 1


@dataclass(frozen=True)
class Tally:
    """Of ``answers`` to calibration rows so many were ``wrong``."""

    answers: int
    wrong: int

    def text(self, kind: str) -> str:
        """
        >>> Tally(41, 3).text("sure")
        '3 of 41 sure answers to cases with a known outcome were wrong'
        >>> Tally(0, 0).text("sure")
        'no case with a known outcome got a sure answer'
        """
        if not self.answers:
            return f"no case with a known outcome got {'an' if kind[0] in 'aeiou' else 'a'} {kind} answer"
        many = "s" if self.answers > 1 else ""
        were = "was" if self.wrong == 1 else "were"
        return f"{self.wrong} of {self.answers} {kind} answer{many} to cases with a known outcome {were} wrong"


@dataclass(frozen=True)
class Record:
    """How often sure and unsure answers were wrong, at one level."""

    sure: Tally
    unsure: Tally

    def to_dict(self) -> dict[str, Any]:
        kinds = {"sure": self.sure, "unsure": self.unsure}
        return {
            name: {"answers": each.answers, "wrong": each.wrong, "text": each.text(name)}
            for name, each in kinds.items()
        }


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Split conformal prediction sets (Vovk, Gammerman & Shafer 2005), with the score s(x, c) = 1 - p(c | x).

        C(x) = { c : s(x, c) <= q_c }, and always the likeliest class and the answer
        marginal:   q_c = the ceil((n + 1) * level)-th smallest s(x_i, y_i) of all n calibration rows, one for all c
        by class:   q_c = the ceil((n_c + 1) * level)-th smallest s(x_i, c) of the n_c calibration rows of class c

    An answer is *unsure* if and only if C(x) has more than one class.

    The truth is in C(x) for at least a share ``level`` of new rows, whatever the models are worth, as long as new rows
    come as the calibration rows did, and these were used for nothing else. Marginal sets promise that over all rows
    together, sets by class (Mondrian: Vovk 2012) for the rows of every class, a rare one too; neither promises it for
    each kind of patient. Too few rows for a level (`least_rows`), in all or of a class, exclude nothing, or never that
    class. Without the likeliest class sets would be empty where models are right more often than the level asks, and a
    lower level be less sure.

    The calibration rows have class ``probabilities`` (n, classes), true codes ``y`` (n,) and ``answers`` (n,): the
    codes that were answered, which a rule for balanced accuracy takes elsewhere than at the largest probability.
    """

    probabilities: Floats
    y: Codes
    answers: Codes
    by_class: bool = False

    @classmethod
    def fit(
        cls, probabilities: NDArray[np.floating], y: Codes, answers: Codes | None = None, *, by_class: bool = False
    ) -> Self:
        """From calibration rows; without ``answers``, the likeliest class is the answer."""
        said = np.asarray(probabilities, np.float64)
        return cls(said, np.asarray(y, np.int64), _likeliest(said) if answers is None else answers, by_class)

    @classmethod
    def uncalibrated(cls, classes: int) -> Self:
        """Without calibration rows: every class is possible, so every answer is unsure."""
        return cls.fit(np.zeros((0, classes)), np.zeros(0, np.int64))

    def to_tree(self) -> dict[str, Any]:
        return {"probabilities": self.probabilities, "y": self.y, "answers": self.answers, "by_class": self.by_class}

    @classmethod
    def from_tree(cls, tree: object, classes: int) -> Self:
        """Check what was saved: a changed file would exclude the truth, or nothing."""
        if not isinstance(tree, dict) or set(tree) != TREE or type(tree["by_class"]) is not bool:
            raise _changed(f"expected {', '.join(sorted(TREE))}")
        said = tree["probabilities"]
        if not isinstance(said, np.ndarray) or said.dtype.kind != "f" or said.shape[1:] != (classes,):
            raise _changed(f"expected a table of probabilities of {classes} classes")
        if not ((said > -1e-3) & (said < 1.001)).all() or not (np.abs(said.sum(axis=1) - 1) < 0.01).all():
            raise _changed("expected probabilities from 0 to 1 that sum to 1")
        for codes in (tree["y"], tree["answers"]):
            if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu" or codes.shape != said.shape[:1]:
                raise _changed(f"expected a class code for each of {len(said)} rows")
            if not ((codes >= 0) & (codes < classes)).all():
                raise _changed(f"expected class codes from 0 to {classes - 1}")
        return cls.fit(said, tree["y"], tree["answers"], by_class=tree["by_class"])

    @property
    def rows(self) -> int:
        return len(self.y)

    @property
    def kind(self) -> str:
        return "by-class" if self.by_class else "marginal"

    def __call__(
        self, probabilities: NDArray[np.floating], level: float, answers: Codes | None = None
    ) -> NDArray[np.bool_]:
        """``(n, classes)``: the classes that are possible; without ``answers``, the likeliest class is the answer."""
        check_level(level)
        said = probabilities.astype(np.float64)
        return _within(said, self.limits(level), _likeliest(said) if answers is None else answers)

    def limits(self, level: float) -> Floats:
        """``(classes,)``: q_c, infinite where there are too few calibration rows."""
        found = [_quantile(scores, level) for scores in self._scores]
        return np.array(found if self.by_class else found * self.probabilities.shape[1])

    def verdicts(
        self, probabilities: NDArray[np.floating], answers: Codes, level: float, classes: Sequence[str]
    ) -> list[Verdict]:
        """Of each row: whether its answer is unsure, and why."""
        sets, scarce = self(probabilities, level, answers), np.isinf(self.limits(level))
        places = [tuple(np.flatnonzero(row).tolist()) for row in sets]
        return [Verdict(place, self._why(place, scarce, level, classes)) for place in places]

    def record(self, level: float) -> Record:
        """How often sure and unsure answers to the calibration rows were wrong.

        Leave-one-out: each row's set is calibrated on the others. The models and the learner saw none of them.
        """
        check_level(level)
        if not self.rows:
            return Record(Tally(0, 0), Tally(0, 0))
        limits = np.tile(self.limits(level), (self.rows, 1))
        if self.by_class:
            for code, scores in enumerate(self._scores):
                here = self.y == code
                limits[here, code] = _without_one(self._own_scores[here], scores, level)
        else:
            limits[:] = _without_one(self._own_scores, self._scores[0], level)[:, None]
        sure = _within(self.probabilities, limits, self.answers).sum(axis=1) == 1
        wrong = self.answers != self.y
        tallies = [Tally(int(which.sum()), int((which & wrong).sum())) for which in (sure, ~sure)]
        return Record(*tallies)

    @cached_property
    def _own_scores(self) -> Floats:
        """s(x_i, y_i)"""
        return np.asarray(1.0 - self.probabilities[np.arange(self.rows), self.y])

    @cached_property
    def _scores(self) -> list[Floats]:
        """Sorted: those of all rows, or of each class."""
        if not self.by_class:
            return [np.sort(self._own_scores)]
        return [np.sort(self._own_scores[self.y == code]) for code in range(self.probabilities.shape[1])]

    def _why(self, possible: tuple[int, ...], scarce: NDArray[np.bool_], level: float, classes: Sequence[str]) -> str:
        if len(possible) < 2:
            return ""
        share, needed = f"{100 * level:g} %", least_rows(level)
        if not self.rows:
            return "no calibration cases are left: how sure the answer is cannot be estimated"
        if self.rows < needed:
            cases = "1 calibration case is" if self.rows == 1 else f"{self.rows} calibration cases are"
            return f"{cases} too few for {share}: at least {needed} are needed"
        few = [classes[place] for place in possible if scarce[place]]
        of = f"{len(few)} classes" if len(few) > MANY else _joined(few)
        because = f" (fewer than {needed} calibration cases of {of})" if few else ""
        if len(possible) > MANY:
            return f"{len(possible)} of {len(classes)} answers are possible at {share}{because}"
        both = "both " if len(possible) == 2 else ""
        return f"{both}{_joined([classes[place] for place in possible])} are possible at {share}{because}"


def check_level(level: float) -> None:
    if not LOWEST <= level <= HIGHEST:
        raise ConfigError(f"level is {level:g}: expected a share from {LOWEST} to {HIGHEST}, such as 0.9.")


def least_rows(level: float) -> int:
    """So many calibration rows are needed before anything can be excluded.

    >>> least_rows(0.9), least_rows(0.95), least_rows(0.99)
    (9, 19, 99)
    """
    return math.ceil(level / (1 - level) - 1e-9)


def _rank(rows: int, level: float) -> int:
    return math.ceil((rows + 1) * level - 1e-9)  # (n + 1) * level a hair above a whole number is that number


def _quantile(scores: Floats, level: float) -> float:
    rank = _rank(len(scores), level)
    return math.inf if rank > len(scores) else float(scores[rank - 1])


def _without_one(own: Floats, scores: Floats, level: float) -> Floats:
    """The quantile of the other scores, for each of ``own``, which are all of ``scores`` in another order."""
    rank = _rank(len(scores) - 1, level)
    if rank > len(scores) - 1:
        return np.full(len(own), math.inf)
    return np.asarray(np.where(own <= scores[rank - 1], scores[rank], scores[rank - 1]))


def _within(probabilities: Floats, limits: Floats, answers: Codes) -> NDArray[np.bool_]:
    found = 1.0 - probabilities <= limits + ALIKE
    each = np.arange(len(found))
    found[each, _likeliest(probabilities)] = found[each, answers] = True
    return np.asarray(found)


def _likeliest(probabilities: Floats) -> Codes:
    return np.asarray(probabilities.argmax(axis=1))


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def _changed(expected: str) -> ParcelError:
    return ParcelError(f"the calibration of the prediction sets was changed: {expected}. Make it again.")
