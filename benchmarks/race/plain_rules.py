"""The dynamic selection rules as one would write them down first: plain numpy over scikit-learn's NearestNeighbors.

Neighbours are those that ``NearestNeighbors(n_neighbors=k)`` finds with its defaults, or with ``metric="manhattan"`` in
the decision space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import NearestNeighbors

from peerwise.space import softmax

Array = NDArray[Any]
K, PROFILES = 7, 5


class Straightforward:
    """A rule as one would write it down first."""

    def __init__(self, rule: str, space: str) -> None:
        self.rule: Callable[..., Array] = getattr(self, rule)
        self.space = space

    def fit(self, logits: Array, y: Array, inputs: Array) -> Straightforward:
        self.y, self.classes = y, logits.shape[2]
        self.scores = softmax(logits)
        self.says = logits.argmax(axis=2)
        self.correct = self.says == y[:, None]
        metric = {"metric": "manhattan"} if self.space == "decision" else {}
        points = self._points(self.scores, inputs)
        self.search = NearestNeighbors(n_neighbors=K, **metric).fit(points)
        if self.rule == self.METADES:
            self._fit_meta(logits)
        return self

    def _points(self, scores: Array, inputs: Array) -> Array:
        return scores.reshape(len(scores), -1) if self.space == "decision" else inputs

    def predict(self, logits: Array, inputs: Array) -> Array:
        scores = softmax(logits)
        says = scores.argmax(axis=2)
        near = self.search.kneighbors(self._points(scores, inputs), return_distance=False)
        weights = self.rule(near, says, scores).astype(float)
        agreed = (says == says[:, :1]).all(axis=1)
        weights[agreed | (weights.sum(axis=1) == 0)] = 1
        votes = [(weights * (says == label)).sum(axis=1) for label in range(self.classes)]
        return np.stack(votes, axis=1).argmax(axis=1)

    def KNORAE(self, near: Array, says: Array, scores: Array) -> Array:
        streak = np.cumprod(self.correct[near], axis=1).sum(axis=1)
        return (streak == streak.max(axis=1, keepdims=True)) & (streak > 0)

    def KNORAU(self, near: Array, says: Array, scores: Array) -> Array:
        return self.correct[near].sum(axis=1)

    KNOP = KNORAU

    def DESP(self, near: Array, says: Array, scores: Array) -> Array:
        return self.correct[near].mean(axis=1) > 1 / self.classes

    def OLA(self, near: Array, says: Array, scores: Array) -> Array:
        return _only_best(self.correct[near].mean(axis=1))

    def LCA(self, near: Array, says: Array, scores: Array) -> Array:
        alike = self.says[near] == says[:, None]
        return _only_best((alike & self.correct[near]).sum(axis=1) / np.maximum(alike.sum(axis=1), 1))

    def DESKNN(self, near: Array, says: Array, scores: Array) -> Array:
        wrong = (~self.correct[near]).astype(float)
        both = np.einsum("qkm,qkl->qml", wrong, wrong, optimize=True)
        fault = both.sum(axis=2) - np.einsum("qmm->qm", both)
        accuracy = 1 - wrong.mean(axis=1)
        accurate = np.argsort(-accuracy, axis=1, kind="stable")[:, : self.correct.shape[1] // 2]
        order = np.argsort(np.take_along_axis(fault, accurate, axis=1), axis=1, kind="stable")
        chosen = np.take_along_axis(accurate, order[:, : int(np.ceil(0.3 * self.correct.shape[1]))], axis=1)
        weights = np.zeros(says.shape)
        np.put_along_axis(weights, chosen, 1, axis=1)
        return weights

    def METADES(self, near: Array, says: Array, scores: Array) -> Array:
        alike = self.profiles.kneighbors(scores.reshape(len(scores), -1), return_distance=False)
        evidence = self._evidence(near, alike, scores)
        return self.bayes.predict_proba(evidence)[:, 1].reshape(says.shape) > 0.5

    def _fit_meta(self, logits: Array) -> None:
        flat = self.scores.reshape(len(self.scores), -1)
        self.profiles = NearestNeighbors(n_neighbors=PROFILES, metric="manhattan").fit(flat)
        says = logits.argmax(axis=2)
        votes = np.sort([(says == label).sum(axis=1) for label in range(self.classes)], axis=0)
        rows = np.flatnonzero(votes[-1] - votes[-2] < logits.shape[1])
        near, alike = (search.kneighbors(return_distance=False)[rows] for search in (self.search, self.profiles))
        self.bayes = MultinomialNB().fit(self._evidence(near, alike, self.scores[rows]), self.correct[rows].ravel())

    def _evidence(self, near: Array, alike: Array, scores: Array) -> Array:
        true = np.take_along_axis(self.scores, self.y[:, None, None], axis=2)[..., 0]
        parts = [self.correct[near], true[near], self.correct[near].mean(axis=1, keepdims=True), self.correct[alike]]
        evidence = np.concatenate([*parts, scores.max(axis=2)[:, None]], axis=1)
        return np.floor(10 * evidence + 1e-4).swapaxes(1, 2).reshape(-1, evidence.shape[1])


def _only_best(score: Array) -> Array:
    weights = np.zeros(score.shape)
    rows, best = np.arange(len(score)), score.argmax(axis=1)
    weights[rows, best] = score[rows, best] > 0
    return weights
