"""The dynamic rules once more, one query and one model at a time, as an oracle; and pools of known right and wrong."""

from __future__ import annotations

import math

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from peerwise.space import InputFeatures, softmax
from peerwise.trust.dynamic import DESKNN, DESP, KNOP, KNORAE, KNORAU, LCA, METADES, OLA

RULES = {rule.__name__: rule for rule in (KNORAE, KNORAU, OLA, LCA, DESP, DESKNN, KNOP, METADES)}
SPACES = [(name, space) for name in RULES for space in ("inputs", "decision") if (name, space) != ("KNOP", "inputs")]


def made(name, space="inputs", **settings):
    """The rule of this name in this space."""
    return RULES[name](**settings) if name == "KNOP" else RULES[name](space=space, **settings)


def pool(right, y, classes):
    """Logits of models that are right on some rows, and elsewhere give the next class."""
    right, y = np.asarray(right, bool), np.asarray(y)
    return said(np.where(right, y[:, None], (y[:, None] + 1) % classes), classes)


def said(answers, classes):
    """Logits of models that give these answers, (rows, models)."""
    return 3 * np.eye(classes, dtype=np.float32)[np.asarray(answers)]


def drawn(seed, rows, queries, models, classes):
    """Outputs, labels and inputs of known rows, half of them twins, then outputs and inputs of rows to answer."""
    rng = np.random.default_rng(seed)
    some = max(1, (rows + 1) // 2)
    places = np.concatenate([np.arange(some), rng.integers(0, some, rows - some)])
    logits = rng.normal(size=(some, models, classes)).astype(np.float32)[places]
    X = rng.normal(size=(some, 3))[places]
    asked = rng.normal(size=(queries, models, classes)).astype(np.float32)
    return logits, rng.integers(0, classes, rows), X, asked, rng.normal(size=(queries, 3))


class Reference:
    """``decide`` gives trust, fallback, and how far META-DES was from its threshold."""

    def __init__(self, name, logits, y, X, k=7, space="inputs", own=(), Kp=5, Hc=1.0):
        self.name, self.y, self.k, self.Kp, self.Hc = name, y, k, Kp, Hc
        self.space = "decision" if name == "KNOP" else space
        self.scores = softmax(logits).astype(float)
        self.says = logits.argmax(axis=2)
        self.right = self.says == y[:, None]
        self.models, self.classes = logits.shape[1:]
        self.order = [*own, *(m for m in range(self.models) if m not in own)]
        self.features = InputFeatures.fit(X)
        self.points = self._points(logits, X, self.space)
        self.profiles = self._points(logits, X, "decision")
        if name == "METADES" and len(y) > 1:
            self._learn(logits)

    def _points(self, logits, X, space):
        if space == "inputs":
            return self.features.transform(X).astype(float)
        return softmax(logits).astype(float).reshape(len(logits), -1)

    def _nearest(self, points, query, k, euclidean, without=None):
        gap = points - query
        far = (gap**2).sum(axis=1) if euclidean else np.abs(gap).sum(axis=1)
        # what differs in the last bits of single precision is a tie, which falls to the lower row
        order = sorted((row for row in range(len(points)) if row != without), key=lambda row: (round(far[row], 5), row))
        return order[:k]

    def decide(self, logits, X):
        asked, profiles = self._points(logits, X, self.space), self._points(logits, X, "decision")
        trust, fallback, margin = [], [], []
        for q in range(len(logits)):
            answers = logits[q].argmax(axis=1)
            near = self._nearest(self.points, asked[q], self.k, self.space == "inputs")
            agreed, self.margin = len(set(answers)) == 1, 1.0
            weights = np.ones(self.models)
            if not agreed:
                weights = np.array(self._weights(near, answers, softmax(logits[q]), profiles[q]), float)
            fallback.append(weights.sum() == 0)
            weights = np.ones(self.models) if fallback[-1] else weights
            trust.append(weights / weights.sum())
            margin.append(self.margin)
        return np.array(trust), np.array(fallback), np.array(margin)

    def _weights(self, near, answers, scores, profile):
        hits = [sum(self.right[row, m] for row in near) for m in range(self.models)]
        everyone = range(self.models)
        if self.name == "KNORAE":
            for used in range(len(near), 0, -1):
                perfect = [all(self.right[row, m] for row in near[:used]) for m in everyone]
                if any(perfect):
                    return perfect
            return [0] * self.models
        if self.name in ("KNORAU", "KNOP"):
            return hits
        if self.name == "DESP":
            return [hits[m] / len(near) > 1 / self.classes + 1e-9 for m in everyone]
        if self.name == "OLA":
            return self._only(hits)
        if self.name == "LCA":
            return self._only([self._class_accuracy(near, m, answers[m]) for m in everyone])
        if self.name == "DESKNN":
            return self._diverse(near, hits)
        return self._meta(near, scores, profile)

    def _only(self, score):
        best = max(self.order, key=lambda m: (score[m], -self.order.index(m)))
        return [m == best and score[m] > 0 for m in range(self.models)]

    def _class_accuracy(self, near, m, answer):
        alike = [row for row in near if self.says[row, m] == answer]
        return sum(self.right[row, m] for row in alike) / len(alike) if alike else 0

    def _diverse(self, near, hits):
        def fault(m):
            others = [other for other in range(self.models) if other != m]
            return sum(not self.right[row, m] and not self.right[row, other] for other in others for row in near)

        accurate = sorted(self.order, key=lambda m: -hits[m])[: max(1, math.floor(0.5 * self.models))]
        chosen = sorted(accurate, key=fault)[: math.ceil(0.3 * self.models)]
        return [m in chosen and max(hits) > 0 for m in range(self.models)]

    def _learn(self, logits):
        evidence, target, everything = [], [], ([], [])
        for row in range(len(self.y)):
            votes = sorted(np.bincount(logits[row].argmax(axis=1), minlength=max(2, self.classes)))
            near = self._nearest(self.points, self.points[row], self.k, self.space == "inputs", without=row)
            alike = self._nearest(self.profiles, self.profiles[row], self.Kp, False, without=row)
            found = [self._evidence(near, alike, m, self.scores[row]) for m in range(self.models)]
            everything[0].extend(found)
            everything[1].extend(self.right[row])
            if (votes[-1] - votes[-2]) / self.models < self.Hc:
                evidence.extend(found)
                target.extend(self.right[row])
        if not evidence:
            evidence, target = everything
        self.only = target[0] if len(set(target)) == 1 else None
        self.bayes = MultinomialNB().fit(evidence, target)

    def _evidence(self, near, alike, m, scores):
        found = [self.right[row, m] for row in near]
        found += [self.scores[row, m, self.y[row]] for row in near]
        found += [sum(self.right[row, m] for row in near) / len(near)]
        found += [self.right[row, m] for row in alike]
        found += [scores[m].max()]
        return [math.floor(10 * value + 1e-4) for value in found]

    def _meta(self, near, scores, profile):
        if len(self.y) == 1:
            return [0] * self.models
        if self.only is not None:
            return [self.only] * self.models
        others = len(self.y) - 1
        alike = self._nearest(self.profiles, profile, min(self.Kp, others), False)
        evidence = [self._evidence(near[:others], alike, m, scores) for m in range(self.models)]
        sure = self.bayes.predict_proba(evidence)[:, 1]
        self.margin = np.abs(sure - 0.5).min()
        return sure > 0.5
