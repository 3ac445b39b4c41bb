"""The pool a learner makes for itself when it is given none: three plain models of the site's own rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerwise.models.folds import fold_rows
from peerwise.space import Pool

FOLDS = 5


def fit_default_pool(X: NDArray[Any], y: NDArray[Any], seed: int) -> tuple[Pool, NDArray[np.float32] | None]:
    """Logistic regression, a forest and naive Bayes on all rows, and their out-of-fold probabilities."""
    classes = np.unique(y)
    models = _models(seed) if len(classes) > 1 else {"constant": DummyClassifier()}
    pool = Pool(_fitted(models, X, y), classes=classes)
    if len(y) < 2:
        return pool, None
    held_out = np.zeros((len(y), len(models), len(classes)), np.float32)
    for rest, fold in fold_rows(y, FOLDS, seed):
        held_out[fold] = Pool(_fitted(models, X[rest], y[rest]), classes=classes).outputs(X[fold])
    return pool, held_out


def _fitted(models: dict[str, Any], X: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Each model on these rows, or a constant where nothing can be learned: one class, or no input that varies."""
    varies = (np.nan_to_num(X) != np.nan_to_num(X[:1])).any()
    learnable = varies and len(np.unique(y)) > 1
    return {name: (clone(model) if learnable else DummyClassifier()).fit(X, y) for name, model in models.items()}


def _models(seed: int) -> dict[str, Any]:
    def impute() -> SimpleImputer:
        return SimpleImputer(strategy="median", keep_empty_features=True)

    return {
        "logistic": make_pipeline(impute(), StandardScaler(), LogisticRegression(max_iter=1000)),
        "forest": make_pipeline(impute(), RandomForestClassifier(20, min_samples_leaf=3, random_state=seed)),
        "bayes": make_pipeline(impute(), StandardScaler(), GaussianNB(var_smoothing=1e-3)),
    }
