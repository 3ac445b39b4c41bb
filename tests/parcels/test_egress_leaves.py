"""How many rows share a leaf, by the trees of the file, is what the library that grew the trees says."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np
import onnx
import pytest
import xgboost
from egress_models import cancer, file_of
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from peerwise.parcels.egress import inspect, look
from peerwise.parcels.egress.leaves import smallest_leaf


def counted(leaf_of_row):
    """The smallest leaf and the number of leaves, from the leaf of each row in each tree."""
    counts = [
        np.unique(column, return_counts=True)[1] for column in np.asarray(leaf_of_row).reshape(len(cancer()), -1).T
    ]
    split = [each for each in counts if len(each) > 1]
    return min(int(each.min()) for each in split), sum(len(each) for each in split)


@pytest.mark.parametrize("least", [1, 3, 10, 25])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_forests(kind, least):
    model = kind(10, min_samples_leaf=least, random_state=0)
    found = smallest_leaf(onnx.load_from_string(file_of(model)), cancer().X)
    assert found == counted(model.apply(cancer().X))
    assert found[0] >= least


@pytest.mark.parametrize("weights", ["balanced", None])
def test_a_bootstrap_sample_with_weights_keeps_its_promise(weights):
    model = RandomForestClassifier(30, min_samples_leaf=10, class_weight=weights, random_state=1)
    assert smallest_leaf(onnx.load_from_string(file_of(model)), cancer().X)[0] >= 10


def test_a_tree_behind_a_scaler():
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(min_samples_leaf=4, random_state=0))
    found = smallest_leaf(onnx.load_from_string(file_of(model)), cancer().X)
    assert found == counted(model[-1].apply(model[0].transform(cancer().X)))


def test_xgboost_and_lightgbm():
    grown = xgboost.XGBClassifier(n_estimators=15, n_jobs=1)
    data = file_of(grown)
    assert smallest_leaf(onnx.load_from_string(data), cancer().X) == counted(grown.apply(cancer().X))
    light = lightgbm.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1)
    data = file_of(light)
    assert smallest_leaf(onnx.load_from_string(data), cancer().X) == counted(light.predict(cancer().X, pred_leaf=True))


def test_several_ensembles_in_one_file_count_together():
    model = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=10), n_estimators=4, random_state=0)
    found = look(file_of(model), cancer())
    assert found.smallest_leaf >= 10
    assert found.leaves == sum(tree.get_n_leaves() for tree in model.estimators_)


def test_a_tree_that_does_not_split_tells_nothing_apart():
    few = cancer().take(slice(15, 24))
    found = inspect(file_of(RandomForestClassifier(5, min_samples_leaf=10, random_state=0), few), few)
    assert found.smallest_leaf is None


def test_rows_of_one_person_are_pointed_out():
    people = replace(cancer(), group=np.arange(200) // 2)
    data = file_of(DecisionTreeClassifier(min_samples_leaf=10))
    assert "may be of one person" in inspect(data, people).notes[0]
    assert inspect(data, cancer()).notes == ()
