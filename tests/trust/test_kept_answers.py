"""A pool is asked once for the same rows; own models judged on their own training rows are pointed out."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict

from peerwise import NeighbourhoodAccuracy, OwnOnly, Pool, wrap
from peerwise.errors import ParcelError
from peerwise.space import DecisionSpace

X, Y = load_iris(return_X_y=True)


class Counting:
    """Answers as a model does, and counts the rows it was asked about."""

    def __init__(self) -> None:
        self.model = LogisticRegression(max_iter=300).fit(X[::2], Y[::2])
        self.rows = 0

    def __call__(self, rows: object) -> np.ndarray:
        self.rows += len(rows)  # type: ignore[arg-type]
        return self.model.predict_proba(np.asarray(rows))


def test_a_search_over_settings_asks_each_model_once_a_row_set() -> None:
    asked = Counting()
    pool = Pool([wrap(asked, name="asked", classes=[0, 1, 2])])
    asked.rows = 0
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(NeighbourhoodAccuracy(pool), {"k": [1, 3, 5, 7]}, cv=folds, refit=False).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert asked.rows == 3 * len(X)  # each fold: its fitting rows and its held-out rows, once


def test_kept_answers_follow_the_content_of_the_rows() -> None:
    model = LogisticRegression(max_iter=300).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    pool = Pool({"m": model})
    frame = pd.DataFrame(X, columns=list("abcd"))
    first = pool.outputs(frame)
    first[:] = -1  # what a caller does to its answer is its own affair
    assert np.allclose(pool.outputs(frame).sum(axis=2), 1)
    changed = frame.copy()
    changed.iloc[0, 0] += 5
    assert not np.array_equal(pool.outputs(changed)[0], pool.outputs(frame)[0])


def test_own_models_without_out_of_fold_answers_are_pointed_out() -> None:
    model = LogisticRegression(max_iter=300).fit(X, Y)
    with pytest.warns(UserWarning, match="own_outputs"):
        OwnOnly(Pool({"mine": model}), own=["mine"]).fit(X, Y)
    held_out = cross_val_predict(model, X, Y, method="predict_proba")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OwnOnly(Pool({"mine": model}), own=["mine"]).fit(X, Y, own_outputs=held_out[:, None])


@pytest.mark.parametrize("harm", ["fewer labels", "unknown label", "other models", "no k"])
def test_a_damaged_decision_space_is_refused_before_a_kernel_reads_it(harm: str) -> None:
    logits = np.random.default_rng(0).normal(size=(12, 3, 2)).astype(np.float32)
    tree = DecisionSpace.fit(logits, np.arange(12) % 2).to_tree()
    tree |= {
        "fewer labels": {"y": tree["y"][:5]},
        "unknown label": {"y": tree["y"] + 7},
        "other models": {"correct": tree["correct"][:, :2]},
        "no k": {"k": 0},
    }[harm]
    with pytest.raises(ParcelError, match="does not fit together"):
        DecisionSpace.from_tree(tree)
