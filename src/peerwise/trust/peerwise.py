"""PeerwiseClassifier: one calibrated posterior from a pool of models, and for every row whom to trust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import ConfigError, DataError, ParcelError
from peerwise.models import one_thread
from peerwise.models.folds import fold_rows
from peerwise.space import DecisionSpace
from peerwise.space.outputs import Array, flat
from peerwise.trust.base import Decision, Labelled, some_rows
from peerwise.trust.competence import THRESHOLD, CompetenceLearner
from peerwise.trust.kernel import Floats, Smooth
from peerwise.trust.posterior import (
    ROWS,
    ByInput,
    Codes,
    Linear,
    LogPool,
    balanced_thresholds,
    class_frequencies,
    drawn,
)

Metric = Literal["accuracy", "balanced_accuracy"]
METRICS = ("accuracy", "balanced_accuracy")
FOLDS = 5
CROSS_FITTED = 4000  # rows that pooling weights and thresholds are learned from, at most
LEAST = 1e-3  # competence


class PeerwiseClassifier(CompetenceLearner):
    """The default learner: several ways to combine the pool's models, pooled by what held-out rows show of each.

    The pool's M models give each row C probabilities each; phi(x) are the square roots of all M * C. Estimates of
    p(c | x), each learned from the site's labeled rows:

    * average: the mean of all models
    * models: the log-linear pool of the models, with one weight per model and one bias per class
    * linear: logistic regression over phi
    * competence: sum_m s_m(x) p_m(c | x) / sum_m s_m(x), s_m(x) the probability that model m is right on x, by kernel
      ridge regression over phi
    * inputs: kernel ridge regression over the standardized inputs, which know what the models have missed (left out
      with ``features="decision"``, without X, and for inputs that hold no numbers)

    and the answer is their log-linear pool in turn (`LogPool`),

        p(c | x) proportional to exp(b_c) prod_k p_k(c | x) ^ a_k

    with a_k >= 0 and b by the log-loss of held-out rows, shrunk toward 1 / K and 0. Held-out estimates are exact
    leave-one-out for the kernels, and from 5 folds for the others; own models' columns are expected out of fold. So
    `predict_proba` is calibrated on rows that nothing was learned from. Where rows have groups (patients, ``group`` of
    `fit_outputs`), all rows of a group are held out together.

    ``metric``: what `predict` answers for. "accuracy" (None) takes the likeliest class; "balanced_accuracy" first
    divides by thresholds that are learned from the held-out posterior (`balanced_thresholds`). `predict_proba` is the
    same for both. In a federation None is "balanced_accuracy" where the task's metric is, or where the site's
    ``class_balance`` is "balanced".

    ``trust``: each class's probability is shared among the models in proportion to s_m(x) p_m(c | x), how competent
    they are here and how much they speak for it. ``influence``: by the learner's weights, without fitting again. The
    models of a site that is left out get weight 0 in the means and votes; in the regressions and in the log-linear pool
    their outputs are replaced by their mean over the training rows. ``fallback`` marks rows where no model has s > 0.5.

    Validation rows are learned from like all others: nothing here has to be stopped. ``k`` neighbors of every class are
    shown by `explain` (row numbers from len(y) on are validation rows). ``random_state`` draws the landmarks of sites
    with more than 1,000 rows. ``docs/ablation.md`` has what was tried. A fitted learner holds up to 1,000 of
    the site's rows (all of fewer), standardized, unless ``features="decision"``: it is made to stay at its site.

    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(120, random_state=0)
    >>> clf = PeerwiseClassifier(random_state=0).fit(X, y)
    >>> clf.trust(X).shape, bool(np.allclose(clf.trust(X).sum(axis=1), 1))
    ((120, 3), True)
    """

    trust_is_exact = False

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        features: Literal["decision", "both"] = "both",
        metric: Metric | None = None,
        k: int = 5,
        random_state: int | None = None,
    ) -> None:
        super().__init__(pool, own=own, vote="soft")
        self.features = features
        self.metric = metric
        self.k = k
        self.random_state = random_state

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "k")
        if self.features not in ("decision", "both"):
            raise ConfigError(f"features={self.features!r}: expected 'decision' or 'both'.")
        if self.metric is not None and self.metric not in METRICS:
            raise ConfigError(f"metric={self.metric!r}: expected 'accuracy', 'balanced_accuracy' or None.")

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        own_outputs: ArrayLike | None = None,
        validation: tuple[Any, Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """As `TrustLearner.fit`; ``sample_weight`` (n,) counts a row as so many. Validation rows count once."""
        return self._fit(X, y, own_outputs, validation, sample_weight)

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        given = [part for part in (rows, validation) if part is not None]
        parts = [_with_weight(part) for part in given]
        self.row_numbers_ = np.flatnonzero(np.concatenate([_weight_of(part) for part in given]) > 0)
        logits, y = np.concatenate([part.logits for part in parts]), np.concatenate([part.y for part in parts])
        weight = np.concatenate([_weight_of(part) for part in parts])
        inputs = [part.X for part in parts if part.X is not None and self.features == "both"]
        seen = np.concatenate([np.full(len(part.y), part.X is not None) for part in parts])
        known = np.flatnonzero(seen) if inputs else np.arange(len(y))
        seed, classes = self._seed(), logits.shape[2]
        with one_thread():
            self.space_ = DecisionSpace.fit(logits, y, k=self.k, calibrated=False)
            self.prior_ = class_frequencies(y, classes, weight)
            cross = known[drawn(len(known), CROSS_FITTED, seed)]
            group = _groups_of(parts)
            folds = fold_rows(y[cross], FOLDS, 0, None if group is None else group[cross])
            count = max(round(float(weight.sum())), 1)
            held_out = self._held_out(y, weight, group, count, cross, folds, seed)
            self.by_input_ = None
            groups = None if group is None else group[known]
            by_input = ByInput.fit(inputs, y[known], classes, seed, weight[known], groups) if inputs else None
            if by_input is not None:
                self.by_input_, chosen, said = by_input
                held_out.append(said[np.searchsorted(known[chosen], cross)])  # with one seed, cross is within chosen
            self.log_pool_ = LogPool.fit(held_out, y[cross], weight[cross], self.prior_, count)
            self.thresholds_ = balanced_thresholds(self.log_pool_(held_out), y[cross], weight[cross])

    def _held_out(
        self,
        y: Codes,
        weight: Floats,
        group: Codes | None,
        count: int,
        cross: Codes,
        folds: list[tuple[Codes, Codes]],
        seed: int,
    ) -> list[Floats]:
        """Fit every estimate from the outputs; return the held-out estimates of the ``cross`` rows, in the order of
        `_estimates`."""
        P = self.space_.probabilities
        features, classes = _features(P), P.shape[2]
        self.mean_features_ = np.average(features, axis=0, weights=weight).astype(np.float32)

        def fitted(rows: Codes) -> tuple[LogPool, Linear]:
            models = LogPool.fit(_by_model(P[rows]), y[rows], weight[rows], self.prior_, count)
            return models, Linear.fit(features[rows], y[rows], classes, weight[rows])

        self.models_, self.linear_ = fitted(drawn(len(y), ROWS, seed))
        pooled, linear = (np.tile(self.prior_, (len(cross), 1)) for _ in range(2))
        for rest, fold in folds:
            by_models, by_linear = fitted(cross[rest])
            pooled[fold], linear[fold] = by_models(_by_model(P[cross[fold]])), by_linear(features[cross[fold]])
        right = self.space_.correct.astype(np.float32)
        self.smooth_, estimates = Smooth.fit(features, right, y, right.shape[1], seed, weight, group)
        competence = np.clip(estimates[cross], LEAST, 1.0)
        return [P[cross].mean(axis=1, dtype=np.float64), pooled, linear, self._mean(competence, P[cross])]

    # ---- answering -----------------------------------------------------------------------------------------------

    def _estimates(
        self, logits: Array, X: Any, kept: NDArray[np.bool_] | None = None
    ) -> tuple[list[Floats], Floats, Array]:
        """Every p_k (n, classes), the competence s (n, models), and the pool's probabilities; of the models that are
        ``kept`` (n, models) in each row, all by default."""
        if self.by_input_ is not None and X is None:
            raise DataError("X is missing: this learner was fitted with inputs and needs them, or features='decision'.")
        P = self.space_.project(logits)
        features, classes = _features(P), P.shape[2]
        if kept is not None:
            features = np.where(np.repeat(kept, classes, axis=1), features, self.mean_features_)
        spoken = P if kept is None else np.square(features).reshape(P.shape)
        with one_thread():
            competence = np.clip(self.smooth_(features), LEAST, 1.0)
            part = np.ones(competence.shape) if kept is None else kept.astype(np.float64)
            found = [self._mean(part, P), self.models_(_by_model(spoken)), self.linear_(features)]
            found.append(self._mean(part * competence, P))
            if self.by_input_ is not None:
                found.append(self.by_input_(X))
        return found, competence, P

    def _mean(self, weights: Floats, P: Array) -> Floats:
        """The weighted mean of the models' probabilities; without any weight, the class frequencies."""
        total = weights.sum(axis=1, keepdims=True)
        mean = np.einsum("nm,nmc->nc", weights / np.where(total > 0, total, 1.0), P)
        return np.asarray(np.where(total > 0, mean, self.prior_))

    def _competence(self, logits: Array, X: Any) -> Floats:
        return self._estimates(logits, X)[1]

    def _decide(self, logits: Array, X: Any) -> Decision:
        estimates, competence, P = self._estimates(logits, X)
        posterior = self.log_pool_(estimates)
        spoken = competence[:, :, None] * np.maximum(P, np.finfo(np.float32).tiny)
        trust = np.einsum("nc,nmc->nm", posterior, spoken / spoken.sum(axis=1, keepdims=True))
        unreliable = np.asarray((competence <= THRESHOLD).all(axis=1))
        return Decision(trust / trust.sum(axis=1, keepdims=True), competence, unreliable, posterior)

    def _without(self, logits: Array, X: Any, kept: NDArray[np.bool_]) -> Floats:
        return self.log_pool_(self._estimates(logits, X, kept)[0])

    def answers(self, probabilities: Floats) -> Codes:
        if self.metric == "balanced_accuracy":
            probabilities = probabilities / self.thresholds_
        return super().answers(probabilities)

    # ---- keeping -------------------------------------------------------------------------------------------------

    def _fitted_tree(self) -> dict[str, Any]:
        parts = {name: getattr(self, f"{name}_").to_tree() for name in ("smooth", "linear", "models", "log_pool")}
        arrays = {name: getattr(self, f"{name}_") for name in ("mean_features", "thresholds", "row_numbers")}
        by_input = self.by_input_.to_tree() if self.by_input_ is not None else None
        return {**super()._fitted_tree(), **parts, **arrays, "by_input": by_input}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        self.smooth_, self.linear_ = Smooth.from_tree(tree["smooth"]), Linear.from_tree(tree["linear"])
        self.models_, self.log_pool_ = LogPool.from_tree(tree["models"]), LogPool.from_tree(tree["log_pool"])
        self.mean_features_, self.thresholds_ = tree["mean_features"], tree["thresholds"]
        self.row_numbers_ = tree["row_numbers"]
        self.prior_ = self.log_pool_.prior
        self.by_input_ = ByInput.from_tree(tree["by_input"]) if tree["by_input"] is not None else None
        count, models, classes = self.space_.probabilities.shape
        wide, pooled = models * classes, 4 + (self.by_input_ is not None)
        wanted = [wide, wide, wide, models, classes, models, classes, classes, classes, pooled, count]
        found = [self.smooth_.landmarks.shape[1], self.linear_.weights.shape[1], len(self.mean_features_)]
        found += [len(self.smooth_.mean), self.linear_.classes, len(self.models_.weights), len(self.models_.prior)]
        found += [len(self.thresholds_), len(self.prior_), len(self.log_pool_.weights), len(self.row_numbers_)]
        if self.by_input_ is not None:
            wanted += [classes, classes]
            found += [len(self.by_input_.smooth.mean), len(self.by_input_.scores.present)]
        if found != wanted or not (self.thresholds_ > 0).all():
            raise ParcelError("the saved learner does not fit its models and classes: it was changed or cut short.")


def _features(probabilities: Array) -> Array:
    return np.asarray(np.sqrt(flat(probabilities)))


def _by_model(probabilities: Array) -> Array:
    return np.asarray(probabilities.transpose(1, 0, 2))


def _groups_of(parts: Sequence[Labelled]) -> Codes | None:
    """Group codes of all rows together, where any part has groups; rows of a part without are each by themselves."""
    if all(part.group is None for part in parts):
        return None
    names = [
        [f"{place}:{row}" for row in range(len(part.y))] if part.group is None else part.group.astype(str).tolist()
        for place, part in enumerate(parts)
    ]
    return np.asarray(np.unique(np.concatenate(names), return_inverse=True)[1])


def _weight_of(rows: Labelled) -> Floats:
    return np.ones(len(rows.y)) if rows.weight is None else rows.weight


def _with_weight(rows: Labelled) -> Labelled:
    """Without the rows that count for nothing."""
    if rows.weight is None or (rows.weight > 0).all():
        return rows
    kept = np.flatnonzero(rows.weight > 0)
    X = None if rows.X is None else some_rows(rows.X, kept)
    group = None if rows.group is None else rows.group[kept]
    return Labelled(rows.logits[kept], rows.y[kept], X, group, rows.weight[kept])
