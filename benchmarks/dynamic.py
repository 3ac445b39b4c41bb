"""The dynamic selection rules: ours against a straightforward one with scikit-learn's NearestNeighbors, in one run.

python benchmarks/dynamic.py [--queries 10000] [--models 100] [--rows 2000] [--classes 3] [--width 14] [--repeats 3]
python benchmarks/dynamic.py --spaces inputs --rules KNORAE KNORAU --width 30

Both get the same pool outputs and inputs, fit beforehand, and must give the same answers; what is timed is predicting.
The straightforward one is written as the rules are published, in plain numpy over all rows, and its neighbours are
those that ``NearestNeighbors(n_neighbors=k)`` finds with its defaults, or with ``metric="manhattan"`` in the decision
space. With more than 15 inputs these defaults leave the tree for matrix products, and the ratio is the least: measure
it by --width. Seconds of CPU time, one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import measure
import numpy as np
from numpy.typing import NDArray
from pools import outputs
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from peerwise.space import softmax
from peerwise.trust.dynamic import DESKNN, DESP, KNOP, KNORAE, KNORAU, LCA, METADES, OLA, DynamicRule

Array = NDArray[Any]
RULES: tuple[type[DynamicRule], ...] = (KNORAE, KNORAU, OLA, LCA, DESP, DESKNN, KNOP, METADES)
K, PROFILES = 7, 5


def main() -> None:
    a = _arguments()
    rng = np.random.default_rng(a.seed)
    logits, y = outputs(rng, a.rows + a.queries, a.models, a.classes)
    inputs = rng.normal(size=(len(y), a.width)) + y[:, None]
    known, asked = slice(a.rows), slice(a.rows, None)
    print(f"{a.queries} queries, {a.models} models, {a.rows} known rows, {a.classes} classes, {a.width} inputs")
    for space in a.spaces:
        for rule in RULES:
            if rule.__name__ not in a.rules or (rule is KNOP and space == "inputs"):
                continue
            settings = {} if rule is KNOP else {"space": space}
            ours = rule(k=K, **settings).fit_outputs(logits[known], y[known], inputs[known])
            plain = Straightforward(rule.__name__, space).fit(logits[known], y[known], inputs[known])

            def answer(ours: DynamicRule = ours) -> Array:
                return ours.predict_proba_outputs(logits[asked], inputs[asked]).argmax(axis=1)

            def plainly(plain: Straightforward = plain) -> Array:
                return plain.predict(logits[asked], inputs[asked])

            same = (answer() == plainly()).mean()  # also compiles the kernels before the clock starts
            mine, theirs = measure.fastest(answer, a.repeats), measure.fastest(plainly, a.repeats)
            print(
                f"{space:>8} {rule.__name__:>8}: ours {mine:6.3f} s, straightforward {theirs:6.3f} s, "
                f"ratio {theirs / mine:5.1f} x, same answer for {100 * same:.2f} %"
            )
    print(measure.load_line())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"queries": 10_000, "models": 100, "rows": 2000, "classes": 3, "width": 14, "repeats": 3, "seed": 0}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    names = [rule.__name__ for rule in RULES]
    parser.add_argument("--rules", nargs="+", choices=names, default=names)
    parser.add_argument("--spaces", nargs="+", choices=["inputs", "decision"], default=["inputs", "decision"])
    return parser.parse_args()


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
        self.scaler = StandardScaler().fit(inputs)
        metric = {"metric": "manhattan"} if self.space == "decision" else {}
        points = self._points(self.scores, inputs)
        self.search = NearestNeighbors(n_neighbors=K, **metric).fit(points)
        if self.rule == self.METADES:
            self._fit_meta(logits)
        return self

    def _points(self, scores: Array, inputs: Array) -> Array:
        return scores.reshape(len(scores), -1) if self.space == "decision" else self.scaler.transform(inputs)

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


if __name__ == "__main__":
    main()
