"""META-DES: a classifier that learns from five kinds of evidence whether a model will be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.naive_bayes import MultinomialNB

from peerwise.errors import ConfigError, ParcelError
from peerwise.space.competence import true_class_probability
from peerwise.space.outputs import Array, flat, softmax
from peerwise.space.region import KnownRows, Space
from peerwise.trust.base import Labelled, Vote
from peerwise.trust.dynamic.base import DynamicRule, Nearby, Weights, summed

CHANGED = "the saved evidence does not fit its rows: it was changed or cut short. Fit the learner again."
BLOCK = 1000  # rows whose evidence is laid out at once


class METADES(DynamicRule):
    """META-DES (Cruz et al., 2015): the models that a meta-classifier holds to be right with more than
    ``selection_threshold``.

    Evidence for model m on a row, each in whole tenths, as multinomial naive Bayes counts:
    f1 (k)   whether m is right on each of the ``k`` neighbours, nearest first
    f2 (k)   the probability that m gives to the true class of each neighbour
    f3 (1)   the share of the neighbours that m is right on
    f4 (Kp)  whether m is right on each of the ``Kp`` rows whose outputs are most alike (L1 over all probabilities)
    f5 (1)   the probability that m gives to its answer

    The meta-classifier is multinomial naive Bayes, learned from the known rows, each with its neighbours among the
    others. Only rows are used whose consensus (votes of the first less those of the second answer, over all models) is
    below ``Hc``; if there is none, all. Nobody selected: all models vote.

    From DESlib: the arguments come in the same order, but ``meta_classifier`` can be None only; its ``Hc`` of 1 takes
    every row, here those that the models differ on, as published. See `DynamicRule` for what all rules share.
    """

    def __init__(
        self,
        pool: Any = None,
        meta_classifier: None = None,
        k: int = 7,
        Kp: int = 5,
        Hc: float = 1.0,
        selection_threshold: float = 0.5,
        *,
        own: Sequence[str | int] = (),
        space: Space = "inputs",
        vote: Vote = "hard",
    ) -> None:
        super().__init__(pool, k, own=own, space=space, vote=vote)
        self.meta_classifier = meta_classifier
        self.Kp = Kp
        self.Hc = Hc
        self.selection_threshold = selection_threshold

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "Kp")
        if self.meta_classifier is not None:
            raise ConfigError(
                f"meta_classifier={self.meta_classifier!r}: expected None, as it is always naive Bayes. k is the third "
                f"argument, as in DESlib: METADES(pool, None, 7), or k=7 by name."
            )
        for name in ("Hc", "selection_threshold"):
            value: float = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value <= 1:
                raise ConfigError(f"{name}={value!r}: expected a number from 0 to 1.")

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        super()._learn(rows, validation)
        logits = np.concatenate([part.logits for part in (rows, validation) if part is not None])
        self.profiles_ = KnownRows.fit(logits, self.space_.y) if self.space == "inputs" else self.space_
        self.true_ = _tenths(true_class_probability(softmax(logits), self.space_.y))
        self.log_odds_, self.prior_ = np.zeros(self._kinds()), np.zeros(1)
        if len(self.space_.y) == 1:
            return  # nothing can be learned from a row that has no others around it: all models are even
        near, alike = self.space_.nearest_others(self.k), self.profiles_.nearest_others(self.Kp)
        bayes = MultinomialNB()
        used = _disputed(logits, self.Hc)
        for block in np.array_split(used, ceil(len(used) / BLOCK)):
            evidence = np.stack([*self._evidence(near[block], alike[block], softmax(logits[block]))], axis=2)
            right = self.space_.correct[block].ravel()
            bayes.partial_fit(evidence.reshape(len(right), -1), right, classes=[False, True])
        self.log_odds_ = bayes.feature_log_prob_[1] - bayes.feature_log_prob_[0]
        self.prior_ = bayes.class_log_prior_[[1]] - bayes.class_log_prior_[[0]]

    def _kinds(self) -> int:
        """How many numbers speak for or against a model."""
        others = len(self.space_.y) - 1
        return 2 * min(self.k, others) + min(self.Kp, others) + 2

    def _evidence(
        self, near: NDArray[np.int64], alike: NDArray[np.int64], probabilities: Array
    ) -> Iterator[NDArray[Any]]:
        """All kinds of evidence ``(n, models)``, one after the other."""
        right = self.space_.correct * np.int8(10)
        yield from (right[rows] for rows in near.T)
        yield from (self.true_[rows] for rows in near.T)
        yield summed(right, near) // near.shape[1]
        yield from (right[rows] for rows in alike.T)
        yield _tenths(probabilities.max(axis=2))

    def _weigh(self, near: Nearby) -> Weights:
        if len(self.space_.y) == 1:
            return np.zeros(near.says.shape)
        others, probabilities = len(self.space_.y) - 1, softmax(near.logits)
        alike = near.index  # in the decision space, the nearest rows are those whose outputs are most alike
        if self.space == "inputs" or self.Kp > self.k:
            alike = self.profiles_.nearest(flat(probabilities), self.Kp)[0]
        found = self._evidence(near.index[:, : min(self.k, others)], alike[:, : min(self.Kp, others)], probabilities)
        log_odds = np.full(near.says.shape, self.prior_[0])
        for weight, evidence in zip(self.log_odds_, found, strict=True):
            log_odds += weight * evidence
        return np.asarray(expit(log_odds) > self.selection_threshold)

    def _fitted_tree(self) -> dict[str, Any]:
        profiles = self.profiles_.to_tree() if self.space == "inputs" else None
        learned = {"true": self.true_, "log_odds": self.log_odds_, "prior": self.prior_}
        return {**super()._fitted_tree(), "profiles": profiles, **learned}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        profiles = tree["profiles"]
        if (profiles is None) != (self.space == "decision"):
            raise ParcelError(CHANGED)
        self.profiles_ = self.space_
        if profiles is not None:
            self.profiles_ = KnownRows.from_tree(profiles, len(self.model_names_), len(self.classes_))
        self.true_, self.log_odds_, self.prior_ = (tree[name] for name in ("true", "log_odds", "prior"))
        learned = (self.true_, self.log_odds_, self.prior_)
        shapes = [self.space_.says.shape, (self._kinds(),), (1,)]
        good = self.profiles_.space == "decision" and self.profiles_.says.shape == self.space_.says.shape
        good = good and [np.shape(part) for part in learned] == shapes
        if not good or not all(part.dtype.kind in "if" and np.isfinite(part).all() for part in learned):
            raise ParcelError(CHANGED)


def _tenths(values: Array) -> NDArray[np.int8]:
    return np.asarray(np.floor(10 * values + 1e-4), np.int8)  # what rounding took from a probability of 1 is no tenth


def _disputed(logits: Array, most: float) -> NDArray[np.int64]:
    """Rows with a consensus below ``most``: votes of the first less those of the second answer, over all models."""
    says, models = logits.argmax(axis=2), logits.shape[1]
    votes = np.stack([(says == label).sum(axis=1) for label in range(logits.shape[2])], axis=1)
    votes = np.sort(np.pad(votes, ((0, 0), (1, 0))), axis=1)
    found = np.flatnonzero((votes[:, -1] - votes[:, -2]) < most * models)
    return found if len(found) else np.arange(len(logits))
