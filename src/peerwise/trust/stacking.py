"""Stacking: a meta-model over what the pool's models say, and how much each of them counts in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier

from peerwise.errors import ConfigError, ModelError, choices
from peerwise.metrics import balanced_accuracy
from peerwise.models.folds import fold_rows
from peerwise.models.onnx_model import OnnxModel
from peerwise.space.outputs import Array, flat, softmax
from peerwise.trust.base import Decision, Labelled, TrustLearner

METAS = ("forest", "logistic", "boosting")
FOLDS = 2  # over which the permutation importance is measured where there are no validation rows
REPEATS = 5  # shufflings of each model
MEASURED = 2000  # rows at most on which it is measured, as it takes a prediction a shuffling
CHECKED, TOLERANCE = 1000, 1e-4  # rows on which the exported meta-model must say what the fitted one says


class Stacking(TrustLearner):
    """Stacked generalisation (Wolpert 1992) as in personalised stacking (Cantu-Cervini, arXiv 2404.10957).

    p(y | x) = g(P_1(x), ..., P_M(x)); g is fitted on this site's rows. P_m(x) is one column for two classes, the
    probability of the second, and C columns for C > 2. The raw inputs are no columns. A class without rows here gets
    probability 0.

    ``meta``: "forest" (100 trees, also None), "logistic", "boosting", or any scikit-learn classifier that can be
    written as ONNX: the fitted meta-model is kept and asked in that form alone.

    The answer is no mixture of votes, so ``trust`` is the models' shares of importance, the same for every row.
    ``importances_``: the meta-model's mean decrease in impurity summed by model, shares of one; None where it has no
    ``feature_importances_`` (logistic, boosting). ``permutation_``: what balanced accuracy loses when all of a model's
    columns are shuffled together, measured on validation rows if there are any, else on rows (whole groups) held out of
    a meta-model fitted to the rest; None where these are too few. Trust comes from the first of the two that is there.

    Rows of one class are nothing to stack: the own models answer, all alike (without own models, all models do), every
    row counts as a fallback, and ``reason_`` says so.
    """

    trust_is_exact = False

    def __init__(
        self, pool: Any = None, *, own: Sequence[str | int] = (), meta: Any = None, random_state: int | None = None
    ) -> None:
        super().__init__(pool, own=own, vote="soft")
        self.meta = meta
        self.random_state = random_state

    def check_settings(self) -> None:
        super().check_settings()
        check_meta(self.meta)

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        models = rows.logits.shape[1]
        self.importances_: NDArray[np.float64] | None = None
        self.permutation_: NDArray[np.float64] | None = None
        self.present_ = np.unique(rows.y)
        self._meta: OnnxModel | None = None
        self.reason_ = ""
        if len(self.present_) == 1:
            who = "the own models answer" if self.own_ else "all models answer"
            self.reason_ = f"the rows hold one class only: {who}, all alike"
            self.weights_ = _shares(np.isin(np.arange(models), self.own_).astype(np.float64))
            return
        seed = self._seed()
        columns = columns_of(rows.logits)
        fitted = make_meta(self.meta, seed).fit(columns, rows.y)
        self._meta = exported_meta(fitted, columns[:CHECKED])
        if hasattr(fitted, "feature_importances_"):
            self.importances_ = _shares(by_model(fitted.feature_importances_, models))
        self.permutation_ = self._measured(fitted, rows, validation, seed)
        found = self.importances_ if self.importances_ is not None else self.permutation_
        self.weights_ = _shares(np.ones(models) if found is None else found)

    def _measured(
        self, fitted: Any, rows: Labelled, validation: Labelled | None, seed: int
    ) -> NDArray[np.float64] | None:
        if validation is not None and len(validation.y):
            return permuted(fitted, validation, seed)
        lost: list[NDArray[np.float64]] = []
        for rest, held_out in fold_rows(rows.y, FOLDS, seed, rows.group):
            if len(np.unique(rows.y[rest])) > 1:
                meta = make_meta(self.meta, seed).fit(columns_of(rows.logits[rest]), rows.y[rest])
                lost.append(permuted(meta, Labelled(rows.logits[held_out], rows.y[held_out]), seed))
        return np.mean(lost, axis=0) if lost else None

    def _decide(self, logits: Array, X: Any) -> Decision:
        trust = np.repeat(self.weights_[None], len(logits), axis=0)
        return Decision(trust, None, np.full(len(logits), self._meta is None))

    def _mix(self, trust: NDArray[np.float64], logits: Array) -> NDArray[np.float64]:
        if self._meta is None:
            return super()._mix(trust, logits)
        found = np.zeros((len(logits), logits.shape[2]))
        if len(logits):
            found[:, self.present_] = self._meta.predict_proba(columns_of(logits))
        return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), np.finfo(float).tiny))

    def _fitted_tree(self) -> dict[str, Any]:
        return {
            "meta": None if self._meta is None else self._meta.data,
            "present": self.present_,
            "weights": self.weights_,
            "importances": self.importances_,
            "permutation": self.permutation_,
            "reason": self.reason_,
        }

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        self._meta = None if tree["meta"] is None else OnnxModel(tree["meta"], name="the meta-model")
        self.present_, self.weights_, self.reason_ = tree["present"], tree["weights"], tree["reason"]
        self.importances_, self.permutation_ = tree["importances"], tree["permutation"]


def columns_of(logits: Array) -> Array:
    """The meta-model's columns (n, models) for two classes, (n, models x classes) for more, model by model."""
    said = softmax(logits)
    return np.ascontiguousarray(said[:, :, 1]) if said.shape[2] == 2 else np.asarray(flat(said))


def by_model(values: NDArray[np.floating[Any]], models: int) -> NDArray[np.float64]:
    """Values of columns summed by model."""
    return np.asarray(np.asarray(values, np.float64).reshape(models, -1).sum(axis=1))


def permuted(meta: Any, rows: Labelled, seed: int) -> NDArray[np.float64]:
    """For each model, the mean loss of balanced accuracy when all that it says is dealt to other rows.

    As sklearn's `permutation_importance`, but with a model's columns shuffled together, and all shufflings of a model
    answered at once: a forest takes as long for a hundred rows as for a thousand.
    """
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(rows.y))[:MEASURED]
    logits, y = rows.logits[kept], rows.y[kept]
    usual = balanced_accuracy(y, meta.predict(columns_of(logits)))
    lost = np.zeros(logits.shape[1])
    for model in range(len(lost)):
        dealt = np.repeat(logits[None], REPEATS, axis=0)
        for each in dealt:
            each[:, model] = logits[rng.permutation(len(y)), model]
        answers = meta.predict(columns_of(dealt.reshape(-1, *logits.shape[1:]))).reshape(REPEATS, -1)
        lost[model] = usual - np.mean([balanced_accuracy(y, given) for given in answers])
    return lost


def check_meta(meta: Any) -> None:
    if isinstance(meta, str):
        if meta not in METAS:
            raise ConfigError(f"meta: {choices(meta, METAS, 'meta-model')}")
    elif meta is not None and not (isinstance(meta, BaseEstimator) and is_classifier(meta)):
        raise ConfigError(f"meta={meta!r}: expected one of {', '.join(METAS)}, or a scikit-learn classifier.")


def make_meta(meta: Any, seed: int) -> Any:
    """A new classifier; its ``random_state`` is the seed unless it has one."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    if meta is None or meta == "forest":
        return RandomForestClassifier(100, random_state=seed)
    if meta == "logistic":
        return LogisticRegression(max_iter=1000, random_state=seed)
    if meta == "boosting":
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)
    fresh = clone(meta)
    unset = [key for key, value in fresh.get_params().items() if key.endswith("random_state") and value is None]
    return fresh.set_params(**dict.fromkeys(sorted(unset), seed))


def exported_meta(fitted: Any, columns: Array) -> OnnxModel:
    """The fitted meta-model as an ONNX file, which must say the same of these rows."""
    from skl2onnx.common.data_types import FloatTensorType

    from peerwise.models.onnx_graph import finished
    from peerwise.models.sklearn_onnx import sklearn_graph

    name = type(fitted).__name__
    if not hasattr(fitted, "predict_proba"):
        raise ModelError(f"meta-model {name} has no predict_proba: expected a classifier with probabilities.")
    data = finished(sklearn_graph(fitted, [("x", FloatTensorType([None, columns.shape[1]]))]))
    written = OnnxModel(data, name="the meta-model")
    apart = float(np.abs(written.predict_proba(columns) - fitted.predict_proba(columns)).max())
    if apart > TOLERANCE:
        raise ModelError(
            f"meta-model {name} as an ONNX file differs from the fitted one by {apart:.2g}, allowed is {TOLERANCE:g}: "
            f"use one of {', '.join(METAS)}."
        )
    return written


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of one; what is below 0 counts as 0, and where nothing counts all are alike."""
    counted = np.maximum(values, 0.0)
    return np.asarray(counted / counted.sum() if counted.sum() > 0 else np.full(len(values), 1 / len(values)))
