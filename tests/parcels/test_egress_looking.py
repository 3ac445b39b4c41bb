"""What a model file holds of its training rows: kernel and neighbour models stay at home, the zoo may leave."""

from __future__ import annotations

import lightgbm
import numpy as np
import onnx
import pytest
import xgboost
from egress_models import FULL_DEPTH, cancer, digits, file_of, hospitals, of_zoo
from onnx import numpy_helper
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier

from peerwise.data import Rows
from peerwise.errors import BrokenFile, MayNotLeave
from peerwise.models import ZOO, OnnxModel
from peerwise.parcels.egress import cleaned, inspect, look

KEEP_ROWS = {
    "svc": lambda: SVC(probability=True),
    "scaled svc": lambda: make_pipeline(StandardScaler(), SVC(probability=True)),
    "linear svc with vectors": lambda: make_pipeline(StandardScaler(), SVC(probability=True, kernel="linear")),
    "nu svc": lambda: NuSVC(probability=True),
    "calibrated svc": lambda: CalibratedClassifierCV(SVC()),
    "k-NN": KNeighborsClassifier,
    "scaled k-NN": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "k-NN in [0, 1]": lambda: make_pipeline(MinMaxScaler(), KNeighborsClassifier(3)),
    "k-NN of components": lambda: make_pipeline(PCA(5), KNeighborsClassifier()),
    "neighbours within a radius": lambda: make_pipeline(StandardScaler(), RadiusNeighborsClassifier(30.0)),
}
SMALL_LEAVES = {
    "tree": DecisionTreeClassifier,
    "forest": lambda: RandomForestClassifier(20, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(5, random_state=0),
    "bagging": lambda: BaggingClassifier(n_estimators=3, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
    "xgboost": lambda: xgboost.XGBClassifier(n_jobs=1, n_estimators=20),
    # its own minimum of 20 rows is an estimate, and is not kept
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_jobs=1, n_estimators=100, verbose=-1),
}
MAY_LEAVE = {
    "logistic": lambda: make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression()),
    "bayes": GaussianNB,
    "perceptron": lambda: make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=50, random_state=0)),
    "linear": lambda: CalibratedClassifierCV(LinearSVC()),
    "tree": lambda: DecisionTreeClassifier(min_samples_leaf=10),
    "forest": lambda: RandomForestClassifier(50, min_samples_leaf=10, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=10, min_samples_leaf=10),
    "histogram boosting": HistGradientBoostingClassifier,
    "ada boost": lambda: AdaBoostClassifier(n_estimators=10),
    "xgboost": lambda: xgboost.XGBClassifier(n_jobs=1, n_estimators=50, min_child_weight=5),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_jobs=1, n_estimators=50, min_child_weight=5, verbose=-1),
}


@pytest.mark.parametrize("name", KEEP_ROWS)
def test_a_kernel_or_neighbour_model_may_not_leave_and_its_rows_are_found_too(name):
    data = file_of(KEEP_ROWS[name]())
    with pytest.raises(MayNotLeave, match=r"keep their training rows.*Publish another kind of model"):
        inspect(data, cancer())
    found = look(data, cancer())
    assert found.rows_held >= 15, "the search finds them without knowing the operators"
    assert found.held_in


@pytest.mark.parametrize("before", [[], [StandardScaler()]])
def test_a_gaussian_process_may_not_leave(before):
    rows = cancer(60)
    model = make_pipeline(*before, GaussianProcessClassifier()).fit(rows.X, rows.y)
    types = [("x", FloatTensorType([None, rows.X.shape[1]]))]
    data = convert_sklearn(model, initial_types=types, options={"zipmap": False}).SerializeToString()
    with pytest.raises(MayNotLeave, match="training rows" if not before else "com.microsoft"):
        inspect(data, rows)


@pytest.mark.parametrize("name", SMALL_LEAVES)
def test_trees_with_a_leaf_of_few_rows_may_not_leave_unless_that_is_allowed(name):
    data = file_of(SMALL_LEAVES[name]())
    with pytest.raises(
        MayNotLeave, match=r"a leaf of its trees holds [1-9] of 200 training rows: expected at least 10"
    ):
        inspect(data, cancer())
    found = inspect(data, cancer(), min_leaf=1)
    assert found.smallest_leaf in range(1, 10)


@pytest.mark.parametrize("name", MAY_LEAVE)
def test_a_model_that_keeps_no_rows_may_leave(name):
    found = inspect(file_of(MAY_LEAVE[name]()), cancer())
    assert found.rows_held == 0
    assert found.smallest_leaf is None or found.smallest_leaf >= 10


@pytest.mark.parametrize("hospital", range(4))
@pytest.mark.parametrize("recipe", ["logistic", "forest", "boosting", "mlp"])
def test_every_recipe_of_the_zoo_may_leave_every_hospital(recipe, hospital):
    found = inspect(of_zoo(recipe, hospital).to_onnx(), hospitals()[hospital].train)
    assert found.rows_held == 0
    assert (found.smallest_leaf or 10) >= 10


def test_a_full_depth_forest_of_hospital_rows_may_not_leave():
    site = hospitals()[0]
    data = FULL_DEPTH.fit(site.train, None, classes=len(site.classes), features=site.features, seed=0).to_onnx()
    with pytest.raises(MayNotLeave, match=r"holds 1 of 182 training rows.*min_samples_leaf=10"):
        inspect(data, site.train)


def test_other_rows_than_those_trained_on_are_noticed_where_leaves_stay_empty():
    data = file_of(RandomForestClassifier(50, min_samples_leaf=10, random_state=0))
    with pytest.raises(MayNotLeave, match="not the rows that it was trained on"):
        inspect(data, cancer().take(slice(0, 12)))
    assert inspect(data, cancer().take(slice(0, 12)), min_leaf=0).smallest_leaf == 0


def with_tensor(data, values, name="extra"):
    """A file that also holds these numbers, which no operator uses."""
    model = onnx.load_from_string(data)
    model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model.SerializeToString()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("part", [slice(None), slice(0, 15), slice(10, 28)])
def test_one_row_or_half_of_one_that_is_hidden_in_a_file_is_found(kind, part):
    rows = cancer()
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(40, 50)).astype(kind)
    hidden[7, 11 : 11 + len(rows.X[3, part])] = rows.X[3, part]
    data = with_tensor(file_of(LogisticRegression()), hidden)
    with pytest.raises(MayNotLeave, match=r"1 of 200 training rows are in the file \(in 'extra'\)"):
        inspect(data, rows)


def test_a_hospital_row_among_the_weights_is_found_and_the_medians_are_not():
    site = hospitals()[0]
    data = of_zoo("mlp").to_onnx()
    whole = np.flatnonzero(np.isfinite(site.train.X).all(axis=1))[5]
    with pytest.raises(MayNotLeave, match="1 of 182 training rows"):
        inspect(with_tensor(data, site.train.X[whole]), site.train)
    medians = np.nanmedian(site.train.X, axis=0)
    assert inspect(with_tensor(data, np.tile(medians, (50, 1))), site.train).rows_held == 0


@pytest.mark.parametrize("rows", [7, 12, 19])
def test_medians_of_few_rows_are_no_rows(rows):
    site = hospitals()[0]
    few = site.train.take(slice(0, None, len(site.train) // rows))
    fitted = ZOO["logistic"].fit(few, None, classes=len(site.classes), features=site.features, seed=0)
    assert inspect(fitted.to_onnx(), few).rows_held == 0


def test_small_codes_zeros_and_ones_are_no_rows():
    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 4, size=(300, 12)).astype(np.float32), rng.integers(0, 2, 300))
    data = file_of(LogisticRegression(), rows)
    for values in (np.arange(2000) % 4, np.zeros((100, 12)), np.ones((100, 12)), np.eye(12)):
        assert inspect(with_tensor(data, values.astype(np.float32)), rows).rows_held == 0


def test_a_stored_table_of_yes_and_no_is_found():
    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 2, size=(100, 9)).astype(np.float32), rng.integers(0, 2, 100))
    data = with_tensor(file_of(LogisticRegression(), rows), rows.X[:20])
    with pytest.raises(MayNotLeave, match=r"training rows are in the file \(in 'extra'\)"):
        inspect(data, rows)


def test_a_class_of_one_row_gives_it_away_in_naive_bayes():
    rows = cancer()
    alone = Rows(rows.X, np.where(np.arange(len(rows)) == 50, 2, rows.y))
    with pytest.raises(MayNotLeave, match=r"1 of 200 training rows are in the file \(in 'theta'\)"):
        inspect(file_of(GaussianNB(), alone), alone)


def test_pictures_kept_by_a_net_are_found_and_a_net_without_them_may_leave():
    rows = digits().take(slice(0, 400))
    data = file_of(make_pipeline(MinMaxScaler(), MLPClassifier((32,), max_iter=20, random_state=0)), rows)
    assert inspect(data, rows).rows_held == 0
    assert look(with_tensor(data, rows.X[:30] / 16), rows).rows_held >= 25


def test_what_is_no_model_or_takes_other_inputs_is_refused():
    with pytest.raises(BrokenFile, match="export the model again"):
        inspect(b"no model at all", cancer())
    with pytest.raises(BrokenFile, match="cannot be run on its rows"):
        inspect(file_of(LogisticRegression()), hospitals()[0].train)
    with pytest.raises(MayNotLeave, match="no training rows"):
        inspect(file_of(LogisticRegression()), cancer().take(slice(0, 0)))


def test_cleaned_files_answer_alike_and_carry_no_notes():
    data = of_zoo("boosting").to_onnx()
    model = onnx.load_from_string(data)
    model.producer_name, model.doc_string = "laptop of Anna", "trained on ward 7"
    model.graph.doc_string = model.graph.node[0].doc_string = "ward 7"
    model.graph.input[0].doc_string = model.graph.node[0].name = "ward 7"
    onnx.helper.set_model_props(model, {"path": "/home/anna", "classes": '["a","b"]', "features": '["ward"]'})
    noisy = model.SerializeToString() + b"\xfa\xff\x3f\x06ward 7"  # a field that ONNX does not know
    assert "ward 7" in look(noisy, hospitals()[0].train).strings
    plain = cleaned(noisy)
    for text in (b"anna", b"Anna", b"ward 7"):
        assert text in noisy
        assert text not in plain
    X = hospitals()[0].test.X
    assert (OnnxModel(plain).predict_logits(X) == OnnxModel(data).predict_logits(X)).all()
    assert OnnxModel(plain).classes == ("a", "b")
    assert OnnxModel(plain).features == ("ward",)
    assert cleaned(plain) == plain
