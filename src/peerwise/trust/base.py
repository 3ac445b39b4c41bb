"""TrustLearner: a scikit-learn classifier over a pool of models that says, for each row, whom to trust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from peerwise.errors import BadOutputs, ConfigError, DataError, PoolError
from peerwise.space import Pool, as_logits, check_codes, softmax
from peerwise.space.outputs import Array
from peerwise.trust.bundle import load_bundle, save_bundle
from peerwise.trust.default_pool import fit_default_pool

Vote = Literal["hard", "soft"]


@dataclass(frozen=True)
class Labelled:
    """Checked rows to learn from: logits (n, models, classes), class codes, and the inputs where they are at hand."""

    logits: Array
    y: NDArray[np.int64]
    X: Any = None


@dataclass(frozen=True)
class Decision:
    """For each row: trust over the models (rows sum to one), competence where it is estimated, and whether the
    learner fell back to the whole pool."""

    trust: NDArray[np.float64]
    competence: NDArray[np.float64] | None
    fallback: NDArray[np.bool_]


class TrustLearner(ClassifierMixin, BaseEstimator):
    """Base of all trust learners. A subclass writes ``_learn(rows, validation)`` and ``_decide(logits, X)``, and
    ``_fitted_tree`` / ``_restore_tree`` to be kept.

    ``predict_proba(X) = sum over models of trust x vote``; a learner whose answer is not such a mixture sets
    ``trust_is_exact = False``.
    """

    trust_is_exact = True
    _example: Any = None  # the first row of fit's X: its shape is what exports and explanations need

    def __init__(self, pool: Any = None, *, own: Sequence[str | int] = (), vote: Vote = "soft") -> None:
        self.pool = pool
        self.own = own
        self.vote = vote

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: ArrayLike, own_outputs: ArrayLike | None = None, validation: tuple[Any, Any] | None = None
    ) -> Self:
        """Learn whom to trust from this site's labelled rows.

        ``own_outputs`` (n, own models, classes): out-of-fold probabilities of the own models on these rows; give them
        whenever the own models were trained on the same rows. ``validation``: (X, y) for early stopping.
        """
        if self.pool is None:
            if own_outputs is not None:
                raise PoolError("own_outputs were given without a pool: pass FedDES(pool, own=[...]).")
            X, y = validate_data(self, X, y, ensure_all_finite="allow-nan", dtype=np.float64)
            self.pool_, own_outputs = fit_default_pool(X, np.asarray(y), self._seed())
            own: Sequence[str | int] = self.pool_.names
        else:
            self.pool_, own = self.pool if isinstance(self.pool, Pool) else Pool(self.pool), self.own
        self._prepare(len(self.pool_), [self.pool_.column(name) for name in own], self.pool_.names)
        self.classes_ = self.pool_.classes
        rows = self._rows(X, y, "y")
        if own_outputs is not None:
            rows = Labelled(self._with_own(rows.logits, own_outputs), rows.y, X)
        self._learn(rows, self._rows(*validation, "validation y") if _any_rows(validation) else None)
        self._example = X[:1]
        return self

    def fit_outputs(
        self,
        outputs: ArrayLike,
        y: ArrayLike,
        X: Any = None,
        validation: tuple[Any, ...] | None = None,
        kind: str = "logits",
    ) -> Self:
        """As `fit`, on pool outputs (n, models, classes) that are already there; ``y`` holds class codes.

        ``validation``: (outputs, y) or (outputs, y, X). Own models' columns are expected out of fold.
        """
        logits = as_logits(outputs, kind)
        models, classes = logits.shape[1:]
        self._prepare(models, [_own_column(own, models) for own in self.own], [f"model-{m}" for m in range(models)])
        self.classes_, self.kind_ = np.arange(classes), kind
        val = None
        if _any_rows(validation) and validation is not None:
            val_logits = self._checked(validation[0], "validation outputs")
            val_y = check_codes(validation[1], len(val_logits), classes, what="validation y")
            val = Labelled(val_logits, val_y, validation[2] if len(validation) > 2 else None)
        self._learn(Labelled(logits, check_codes(y, len(logits), classes), X), val)
        return self

    # ---- answering -----------------------------------------------------------------------------------------------

    def trust(self, X: Any) -> NDArray[np.float64]:
        """``(n, models)``, rows sum to one: whom to trust, for each row."""
        return self._decide(*self._ask(X)).trust

    def trust_outputs(self, outputs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        return self.decide_outputs(outputs, X).trust

    def decide_outputs(self, outputs: ArrayLike, X: Any = None) -> Decision:
        """Trust, competence and fallback of rows whose pool outputs are at hand."""
        return self._decide(self._checked(outputs, "outputs"), X)

    def select(self, X: Any) -> NDArray[np.bool_]:
        """``(n, models)``: the models that have a say, for each row (all of them where the learner fell back)."""
        return np.asarray(self.trust(X) > 0)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        logits, X = self._ask(X)
        return self._mix(self._decide(logits, X).trust, logits)

    def predict_proba_outputs(self, outputs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        logits = self._checked(outputs, "outputs")
        return self._mix(self._decide(logits, X).trust, logits)

    def predict(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    # ---- keeping -------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the bundle: settings, what was learned, and the pool's models as ONNX. No pickle."""
        save_bundle(self, folder)

    @classmethod
    def load(cls, folder: str | Path, pool: Any = None) -> Self:
        """Read a bundle. ``pool`` gives the models again if some could not be exported."""
        return load_bundle(cls, folder, pool)

    # ---- for subclasses ------------------------------------------------------------------------------------------

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        raise NotImplementedError

    def _decide(self, logits: Array, X: Any) -> Decision:
        raise NotImplementedError

    def _fitted_tree(self) -> dict[str, Any]:
        """What was learned, as JSON values and arrays."""
        raise NotImplementedError

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        raise NotImplementedError

    def _votes(self, logits: Array) -> Array:
        """What each model says, (n, models, classes): its hard answer or its probabilities."""
        if self.vote == "soft":
            return softmax(logits)
        return np.eye(logits.shape[2], dtype=np.float32)[logits.argmax(axis=2)]

    def _mix(self, trust: NDArray[np.float64], logits: Array) -> NDArray[np.float64]:
        mixed = np.einsum("nm,nmc->nc", trust, self._votes(logits).astype(np.float64))
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))

    def _seed(self) -> int:
        return int(np.random.default_rng(getattr(self, "random_state", None)).integers(2**31))

    # ---- checks --------------------------------------------------------------------------------------------------

    def _prepare(self, models: int, own: list[int], names: list[str]) -> None:
        if self.vote not in ("hard", "soft"):
            raise ConfigError(f"vote={self.vote!r}: expected 'hard' or 'soft'.")
        self.own_, self.model_names_, self.kind_ = own, names, "probabilities"
        if models == 0:
            raise PoolError("the pool is empty: expected at least one model.")

    def _rows(self, X: Any, y: ArrayLike, what: str) -> Labelled:
        labels = np.asarray(y)
        if labels.ndim != 1 or len(labels) != len(X):
            raise DataError(f"{what} has shape {labels.shape}: expected ({len(X)},), one label a row of X.")
        return Labelled(as_logits(self.pool_.outputs(X), "probabilities"), encode(labels, self.classes_, what), X)

    def _with_own(self, logits: Array, own_outputs: ArrayLike) -> Array:
        own = as_logits(own_outputs, "probabilities", what="own_outputs")
        expected = (len(logits), len(self.own_), logits.shape[2])
        if own.shape != expected:
            raise BadOutputs(
                f"own_outputs have shape {own.shape}: expected {expected} = (rows, own models {self._own_names()}, "
                f"classes). Name the own models with own=[...]."
            )
        merged = logits.copy()
        merged[:, self.own_] = own
        return merged

    def _own_names(self) -> list[str]:
        return [self.model_names_[column] for column in self.own_]

    def _ask(self, X: Any) -> tuple[Array, Any]:
        check_is_fitted(self, "classes_")
        if not hasattr(self, "pool_"):
            raise PoolError("this learner was fitted on outputs, without a pool: use predict_proba_outputs(outputs).")
        if self.pool is None:
            X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan", dtype=np.float64)
        return as_logits(self.pool_.outputs(X), "probabilities"), X

    def _checked(self, outputs: ArrayLike, what: str) -> Array:
        check_is_fitted(self, "classes_")
        logits = as_logits(outputs, self.kind_, what=what)
        expected = (len(self.model_names_), len(self.classes_))
        if logits.shape[1:] != expected:
            raise BadOutputs(
                f"{what} have shape {logits.shape}: expected (rows, {expected[0]}, {expected[1]}), as in fit."
            )
        return logits

    def __sklearn_clone__(self) -> Self:
        """The pool is already fitted and is kept; everything else is cloned as usual."""
        params = self.get_params(deep=False)
        return type(self)(**{name: v if name == "pool" else clone(v, safe=False) for name, v in params.items()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def encode(labels: NDArray[Any], classes: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Labels as positions in ``classes``; an unknown label is refused with its first row."""
    known = {label: place for place, label in enumerate(classes.tolist())}
    codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.int64)
    bad = np.flatnonzero(codes < 0)
    if len(bad):
        raise DataError(
            f"{what} holds {labels[bad[0]]!r} at row {bad[0]} ({len(bad)} such rows), which no model of the pool knows: "
            f"expected one of {classes.tolist()}. Give Pool(..., classes=[...]) the whole label set."
        )
    if len(codes) == 0:
        raise DataError(f"{what} is empty: expected at least one labelled row.")
    return codes


def _own_column(own: str | int, models: int) -> int:
    if isinstance(own, str) or not -models <= own < models:
        raise PoolError(f"own={own!r}: with outputs, own models are column numbers from 0 to {models - 1}.")
    return int(own) % models


def _any_rows(validation: tuple[Any, ...] | None) -> bool:
    return validation is not None and len(validation[1]) > 0
