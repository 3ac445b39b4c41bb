"""The members of a fitted ensemble of scikit-learn, each asked as the ensemble would ask it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import BaggingClassifier, BaseEnsemble, StackingClassifier, VotingClassifier
from sklearn.ensemble._forest import ForestClassifier

from peerwise.errors import DataError, PoolError
from peerwise.models import Member, wrap


@dataclass(frozen=True)
class EnsembleRows:
    """Rows as an ensemble hands them to its members: arrays, and of the columns only those ``seen`` (None: all).

    ``names``: the columns of the data frame that the ensemble was fitted on, found again by name; None for arrays.
    """

    names: list[str] | None
    seen: NDArray[np.int64] | None

    def __call__(self, X: Any) -> Any:
        values = np.asarray(self.in_order(X)) if isinstance(X, pd.DataFrame | list) else X
        return values if self.seen is None else values[:, self.seen]

    def in_order(self, X: Any) -> Any:
        if self.names is None or not isinstance(X, pd.DataFrame):
            return X
        absent = [name for name in self.names if name not in X.columns]
        if absent:
            raise DataError(f"X lacks the column {absent[0]!r}: expected the columns of the ensemble, {self.names}.")
        return X[self.names]


def is_ensemble(model: Any) -> bool:
    return isinstance(model, BaseEnsemble | VotingClassifier | StackingClassifier)


def members_of(ensemble: Any) -> list[Member]:
    estimators = getattr(ensemble, "estimators_", ())
    if not len(estimators) or not all(map(is_classifier, np.ravel(estimators))):
        raise PoolError(
            f"{type(ensemble).__name__} holds no fitted classifiers: expected a fitted ensemble of them, such as "
            f"BaggingClassifier. Call its fit(X, y) first, or put it into a list: it is then one model."
        )
    if isinstance(ensemble, VotingClassifier | StackingClassifier):
        names = [name for name, model in ensemble.estimators if model != "drop"]
        coded = getattr(ensemble, "cv", None) != "prefit"
        return [
            wrap(model, name=name, classes=_classes(ensemble, model, coded))
            for name, model in zip(names, estimators, strict=True)
        ]
    coded = isinstance(ensemble, BaggingClassifier | ForestClassifier)
    found = []
    for place, (model, seen) in enumerate(zip(estimators, _seen(ensemble), strict=True)):
        rows = EnsembleRows(_frame_columns(ensemble), seen)
        labels = _classes(ensemble, model, coded)
        found.append(wrap(model, name=default_name(model, place), classes=labels, transform=rows))
    return found


def _classes(ensemble: Any, model: Any, coded: bool) -> Any:
    """Members of most ensembles answer in codes of the ensemble's classes."""
    return ensemble.classes_[model.classes_.astype(np.int64)] if coded else model.classes_


def _seen(ensemble: Any) -> list[NDArray[np.int64] | None]:
    """The columns that each member was fitted on, None for all of them."""
    columns = getattr(ensemble, "estimators_features_", [None] * len(ensemble.estimators_))
    every = np.arange(ensemble.n_features_in_)
    return [None if seen is None or np.array_equal(seen, every) else seen for seen in columns]


def _frame_columns(ensemble: Any) -> list[str] | None:
    names = getattr(ensemble, "feature_names_in_", None)
    return None if names is None else names.tolist()


def default_name(model: Any, place: int) -> str:
    return f"{type(model).__name__.lower()}-{place}"
