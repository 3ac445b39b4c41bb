"""Real models for the tests of what may leave."""

from __future__ import annotations

import warnings
from functools import cache, partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier

from peerwise.data import Rows, load, make_sites
from peerwise.models import ZOO, Recipe, export
from peerwise.models.zoo.tables import fit_sklearn


@cache
def hospitals():
    return make_sites(load("heart_disease"), "natural", seed=0)


@cache
def cancer(rows=200):
    X, y = load_breast_cancer(return_X_y=True)
    return Rows(X[:rows].astype(np.float32), y[:rows].astype(np.int64))


@cache
def digits():
    X, y = load_digits(return_X_y=True)
    return Rows(X.astype(np.float32), y.astype(np.int64))


@cache
def of_zoo(recipe, place=0):
    """A model of the zoo trained at one of the hospitals."""
    site = hospitals()[place]
    return ZOO[recipe].fit(site.train, site.val, classes=len(site.classes), features=site.features, seed=0)


def file_of(model, rows=None):
    """The ONNX file of a scikit-learn model, fitted on these rows."""
    rows = rows or cancer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export(model.fit(rows.X, rows.y), rows.X)


FULL_DEPTH = Recipe(
    "full depth",
    "table",
    "a random forest whose leaves may hold one row",
    partial(fit_sklearn, lambda seed: RandomForestClassifier(50, random_state=seed), False),
)
