"""TrustLearner: a scikit-learn classifier over a pool of models that says, for each row, whom to trust."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from peerwise.errors import BadOutputs, ConfigError, DataError, PoolError
from peerwise.models.outputs import count_rows
from peerwise.space import Pool, as_logits, check_codes, column_of, softmax
from peerwise.space.outputs import Array
from peerwise.trust.bundle import columns_of, load_bundle, save_bundle

Vote = Literal["hard", "soft"]
EXAMPLES = 64  # rows of fit's X that are kept to check an exported model on


@dataclass(frozen=True)
class Labelled:
    """Checked rows to learn from: logits (n, models, classes), class codes, and the inputs, groups (patients) and
    sample weights where they are at hand."""

    logits: Array
    y: NDArray[np.int64]
    X: Any = None
    group: NDArray[Any] | None = None
    weight: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Decision:
    """For each row: trust over the models (rows sum to one), competence where it is estimated, whether the learner
    found no model reliable there, and the class probabilities (n, classes) where these are not the trust-weighted vote.
    """

    trust: NDArray[np.float64]
    competence: NDArray[np.float64] | None
    fallback: NDArray[np.bool_]
    posterior: NDArray[np.float64] | None = None


class TrustLearner(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all trust learners. A subclass writes ``_learn(rows, validation)`` and ``_decide(logits, X)``, and
    ``_fitted_tree`` / ``_restore_tree`` to be kept.

    ``predict_proba(X) = sum over models of trust x vote``; a learner whose answer is not such a mixture sets
    ``trust_is_exact = False``, gives the `Decision` its own ``posterior``, and writes ``_without``.
    """

    trust_is_exact = True
    _example: Any = None  # the first rows of fit's X: exports are checked on them, explanations need their shape
    _columns: list[dict[str, Any]] | None = None  # of a data frame that was fitted to

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
        return self._fit(X, y, own_outputs, validation)

    def _fit(
        self, X: Any, y: ArrayLike, own_outputs: Any, validation: Any, sample_weight: ArrayLike | None = None
    ) -> Self:
        held_out, X = _validation_rows(validation, "(X, y)", 2), _rows_of(X)
        self.check_settings()
        if self.pool is None:
            if own_outputs is not None:
                raise PoolError(f"own_outputs were given without a pool: pass {type(self).__name__}(pool, own=[...]).")
            X, y = validate_data(self, X, y, ensure_all_finite="allow-nan", dtype=np.float64)
            check_classification_targets(y)
            from peerwise.trust.default_pool import fit_default_pool

            self.pool_, own_outputs = fit_default_pool(X, np.asarray(y), self._seed())
            own: Any = self.pool_.names
        else:
            self.pool_, own = self.pool if isinstance(self.pool, Pool) else Pool(self.pool), self.own
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            if getattr(X, "ndim", 0) == 2:
                validate_data(self, X, skip_check_array=True)
        self._prepare(self.pool_.names, own)
        self.classes_ = self.pool_.classes
        rows = replace(self._rows(X, y, "y"), weight=_weights_for(sample_weight, X))
        if own_outputs is None and self.own_ and self.pool is not None:
            warnings.warn(
                f"own models {self._own_names()} are judged by what they say of these rows now. If they were trained "
                f"on them, pass own_outputs (out of fold), or they will look better than they are.",
                stacklevel=3,
            )
        if own_outputs is not None:
            rows = replace(rows, logits=self._with_own(rows.logits, own_outputs))
        self._learn(rows, self._rows(_rows_of(held_out[0]), held_out[1], "validation y") if held_out else None)
        self._example, self._columns = copy.copy(some_rows(X, slice(EXAMPLES))), columns_of(X)
        return self

    def fit_outputs(
        self,
        outputs: ArrayLike,
        y: ArrayLike,
        X: Any = None,
        validation: tuple[Any, ...] | None = None,
        kind: str = "logits",
        group: ArrayLike | None = None,
    ) -> Self:
        """As `fit`, on pool outputs (n, models, classes) that are already there; ``y`` holds class codes.

        ``validation``: (outputs, y), (outputs, y, X) or (outputs, y, X, group). Own models' columns are expected out of
        fold. ``group``: whose each row is, such as a patient; learners that hold rows out hold out whole groups.
        """
        held_out = _validation_rows(validation, "(outputs, y), (outputs, y, X) or (outputs, y, X, group)", 4)
        self.check_settings()
        logits = as_logits(outputs, kind)
        models, classes = logits.shape[1:]
        self._prepare([f"model-{m}" for m in range(models)], self.own)
        self.__dict__.pop("pool_", None)
        self.classes_, self.kind_ = np.arange(classes), kind
        rows = Labelled(
            logits,
            check_codes(y, len(logits), classes),
            _inputs_for(X, len(logits), "X"),
            _groups_for(group, len(logits)),
        )
        val = None
        if held_out:
            val_logits = self._checked(held_out[0], "validation outputs")
            val_y = check_codes(held_out[1], len(val_logits), classes, what="validation y")
            val_X = _inputs_for(held_out[2] if len(held_out) > 2 else None, len(val_logits), "validation X")
            val_group = _groups_for(held_out[3] if len(held_out) > 3 else None, len(val_logits))
            val = Labelled(val_logits, val_y, val_X, val_group)
        self._learn(rows, val)
        return self

    # ---- answering -----------------------------------------------------------------------------------------------

    def trust(self, X: Any) -> NDArray[np.float64]:
        """``(n, models)``, rows sum to one: whom to trust, for each row."""
        return self._decide(*self._ask(X)).trust

    def trust_outputs(self, outputs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        return self.decide_outputs(outputs, X).trust

    def decide_outputs(self, outputs: ArrayLike, X: Any = None) -> Decision:
        """Trust, competence and fallback of rows whose pool outputs are at hand, of the ``kind`` given to
        `fit_outputs` (after `fit`: probabilities)."""
        logits = self._checked(outputs, "outputs")
        return self._decide(logits, _inputs_for(X, len(logits), "X"))

    def select(self, X: Any) -> NDArray[np.bool_]:
        """``(n, models)``: the models that have a say, for each row."""
        return np.asarray(self.trust(X) > 0)

    def influence(self, X: Any) -> NDArray[np.float64]:
        """``(n, sites)``: how much of the answer's probability is owed to each site of `sites_`.

        p(answer | x) - p(answer | x without the site's models): positive where the site speaks for the answer. A
        trust-weighted vote without a site is the vote of the others, which is exact; other learners say how they leave
        a site out.
        """
        return self._influence(*self._ask(X))

    def influence_outputs(self, outputs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        logits = self._checked(outputs, "outputs")
        return self._influence(logits, _inputs_for(X, len(logits), "X"))

    @property
    def sites_(self) -> list[str]:
        """Whose models the pool holds: of models named ``model@site`` that site, of others each its own name, and the
        own models without such a name together as "own"."""
        return list(dict.fromkeys(self.model_sites_))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        logits, X = self._ask(X)
        return self._probabilities(self._decide(logits, X), logits)

    def predict_proba_outputs(self, outputs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        return self.answer_outputs(outputs, X)[0]

    def answer_outputs(self, outputs: ArrayLike, X: Any = None) -> tuple[NDArray[np.float64], Decision]:
        """Both at once: what `predict_proba_outputs` and `decide_outputs` give."""
        logits = self._checked(outputs, "outputs")
        decision = self._decide(logits, _inputs_for(X, len(logits), "X"))
        return self._probabilities(decision, logits), decision

    def predict(self, X: Any) -> NDArray[Any]:
        codes = self.answers(self.predict_proba(X))
        return np.asarray(self.classes_[codes])

    def answers(self, probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
        """Class codes for rows with these probabilities: the likeliest class, unless the learner has another rule."""
        return np.asarray(probabilities.argmax(axis=1))

    # ---- keeping -------------------------------------------------------------------------------------------------

    def save(
        self, folder: str | Path, calibration: tuple[Any, ArrayLike] | None = None, *, by_class: bool = False
    ) -> None:
        """Write the bundle: settings, what was learned, and the pool's models as ONNX. No pickle.

        What was learned can hold rows of the site (see the learner): a bundle is for the site that made it.
        ``calibration``: (X, y) that neither the models nor the learner have learned from; with them 'peerwise serve'
        can tell sure answers from unsure ones (`PredictionSets`), over all rows together or ``by_class``.
        """
        save_bundle(self, folder, calibration, by_class)

    @classmethod
    def load(cls, folder: str | Path, pool: Any = None) -> Self:
        """Read a bundle. ``pool`` gives the models again if some could not be exported."""
        return load_bundle(cls, folder, pool)

    # ---- for subclasses ------------------------------------------------------------------------------------------

    @abstractmethod
    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        """Learn from the site's rows; validation rows only stop a training."""

    @abstractmethod
    def _decide(self, logits: Array, X: Any) -> Decision:
        """Trust for rows whose outputs are known."""

    @abstractmethod
    def _fitted_tree(self) -> dict[str, Any]:
        """What was learned, as JSON values and arrays."""

    @abstractmethod
    def _restore_tree(self, tree: dict[str, Any]) -> None:
        """Take back what `_fitted_tree` gave."""

    def _votes(self, logits: Array) -> Array:
        """What each model says, (n, models, classes): its hard answer or its probabilities."""
        if self.vote == "soft":
            return softmax(logits)
        return np.asarray(np.eye(logits.shape[2], dtype=np.float32)[logits.argmax(axis=2)])

    def _probabilities(self, decision: Decision, logits: Array) -> NDArray[np.float64]:
        return decision.posterior if decision.posterior is not None else self._mix(decision.trust, logits)

    def _influence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        found = self._probabilities(self._decide(logits, X), logits)
        each, answers = np.arange(len(found)), self.answers(found)
        home = np.array(self.model_sites_)
        shares = [
            found[each, answers]
            - self._without(logits, X, np.broadcast_to(home != site, logits.shape[:2]))[each, answers]
            for site in self.sites_
        ]
        return np.stack(shares, axis=1)

    def _without(self, logits: Array, X: Any, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Class probabilities where only some models, ``kept`` (n, models), have a say."""
        if not self.trust_is_exact:
            raise ConfigError(f"{type(self).__name__} is no weighted vote: it cannot leave a site out of an answer.")
        return self._vote_of(logits, X, kept)

    def _vote_of(self, logits: Array, X: Any, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The trust-weighted vote of the ``kept`` models (n, models)."""
        trust = np.where(kept, self._decide(logits, X).trust, 0.0)
        left = np.where(trust.sum(axis=1, keepdims=True) > 0, trust, kept)
        total = left.sum(axis=1, keepdims=True)
        mixed = np.einsum("nm,nmc->nc", left / np.where(total > 0, total, 1.0), self._votes(logits))
        return np.asarray(np.where(total > 0, mixed, 1 / logits.shape[2]))

    @property
    def model_sites_(self) -> list[str]:
        """Whose each model of the pool is; see `sites_`."""
        found = []
        for column, name in enumerate(self.model_names_):
            _, at, site = name.rpartition("@")
            found.append(site if at else "own" if column in self.own_ else name)
        return found

    def _mix(self, trust: NDArray[np.float64], logits: Array) -> NDArray[np.float64]:
        mixed = np.einsum("nm,nmc->nc", trust, self._votes(logits).astype(np.float64))
        # Rounded, so that a tie stays one whatever the order of the sum, and falls to the lowest class.
        mixed = np.round(mixed, 12)
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))

    def _seed(self) -> int:
        """From ``random_state``; a learner without chance has none and always gets the same default pool."""
        state: Any = getattr(self, "random_state", 0)
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        try:
            return int(np.random.default_rng(state).integers(2**31))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"random_state={state!r}: expected a whole number from 0, or None.") from error

    # ---- checks --------------------------------------------------------------------------------------------------

    def check_settings(self) -> None:
        """Refuse settings that cannot work, by name."""
        if self.vote not in ("hard", "soft"):
            raise ConfigError(f"vote={self.vote!r}: expected 'hard' or 'soft'.")

    def _whole_from(self, least: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name}={value!r}: expected a whole number, at least {least}.")

    def _prepare(self, names: list[str], own: Any) -> None:
        self.own_, self.model_names_, self.kind_ = _own_columns(own, names), names, "probabilities"

    def _rows(self, X: Any, y: ArrayLike, what: str) -> Labelled:
        labels = np.asarray(y)
        if labels.shape != (count_rows(X),):
            raise DataError(f"{what} has shape {labels.shape}: expected ({count_rows(X)},), one label a row of X.")
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

    def _check_pool(self) -> None:
        check_is_fitted(self, "classes_")
        if not hasattr(self, "pool_"):
            raise PoolError("this learner was fitted on outputs, without a pool: use predict_proba_outputs(outputs).")

    def _ask(self, X: Any) -> tuple[Array, Any]:
        self._check_pool()
        if self.pool is None:
            X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan", dtype=np.float64)
            return as_logits(self.pool_.outputs(X), "probabilities"), X
        X = self._in_fitted_order(_rows_of(X))
        outputs = as_logits(self.pool_.outputs(X), "probabilities")  # a model that needs other columns names them
        if hasattr(self, "n_features_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return outputs, X

    def _in_fitted_order(self, X: Any) -> Any:
        """A data frame with the columns of `fit`, in the order that they had there; anything else as it is."""
        names = list(getattr(self, "feature_names_in_", ()))
        if not names or not hasattr(X, "iloc") or set(X.columns) != set(names) or list(X.columns) == names:
            return X
        return X[names]

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
        twin = type(self)(**{name: v if name == "pool" else clone(v, safe=False) for name, v in params.items()})
        for kept in ("_metadata_request", "_sklearn_output_config"):  # as sklearn's own clone keeps them
            if hasattr(self, kept):
                setattr(twin, kept, copy.deepcopy(getattr(self, kept)))
        return twin

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
            f"{what} holds {labels.tolist()[bad[0]]!r} at row {bad[0]} ({len(bad)} such rows), which no model of the "
            f"pool knows: expected one of {classes.tolist()}. Give Pool(..., classes=[...]) the whole label set."
        )
    if len(codes) == 0:
        raise DataError(f"{what} is empty: expected at least one labelled row.")
    return codes


def some_rows(X: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Some rows of an array, a data frame or `Sequences`, by position."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _rows_of(X: Any) -> Any:
    return np.asarray(X) if isinstance(X, list | tuple) else X


def _own_columns(own: Any, names: list[str]) -> list[int]:
    if isinstance(own, str) or not isinstance(own, Iterable):
        raise PoolError(f"own={own!r}: expected a list of names or column numbers, such as own=[{own!r}].")
    columns = [column_of(name, names) for name in own]
    if len(set(columns)) < len(columns):
        raise PoolError(f"own={list(own)}: expected every own model once.")
    return columns


def _inputs_for(X: Any, rows: int, what: str) -> Any:
    X = _rows_of(X)
    if X is not None and count_rows(X) != rows:
        raise DataError(f"{what} has {count_rows(X)} rows: expected {rows}, one a row of the outputs.")
    return X


def _groups_for(group: ArrayLike | None, rows: int) -> NDArray[Any] | None:
    if group is None:
        return None
    found = np.asarray(group)
    if found.shape != (rows,):
        raise DataError(f"group has shape {found.shape}: expected ({rows},), one a row of the outputs.")
    return found


def _weights_for(weight: ArrayLike | None, X: Any) -> NDArray[np.float64] | None:
    if weight is None:
        return None
    found = np.asarray(weight, dtype=np.float64)
    rows = count_rows(X)
    found = np.full(rows, float(found)) if found.ndim == 0 else found
    if found.shape != (rows,):
        raise DataError(f"sample_weight has shape {found.shape}: expected ({rows},), one weight a row of X.")
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise DataError("sample_weight has negative or missing values, or only zeros: expected numbers from 0.")
    return found


def _validation_rows(validation: Any, expected: str, most: int) -> tuple[Any, ...] | None:
    """The validation rows as a tuple, None if there are none."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or not 2 <= len(validation) <= most:
        raise DataError(f"validation is a {type(validation).__name__}: expected a tuple {expected}, or None.")
    return tuple(validation) if len(validation[1]) else None
