"""wrap(): any classifier behind one face, and what it refuses."""

import copy

import numpy as np
import pytest
import torch
from model_rows import digit_sequences, wine
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

from peerwise.data.rows import Sequences
from peerwise.errors import BadOutputs, BrokenFile, ClassMismatch, ModelError
from peerwise.models import Member, export, find_recipe, wrap

X, _codes = load_iris(return_X_y=True)
X = X.astype(np.float32)
NAMES = np.array(["setosa", "versicolor", "virginica"])
y = NAMES[_codes]
fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


def test_a_pipeline_keeps_its_labels_and_probabilities():
    member = wrap(fitted, name="mine")
    assert isinstance(member, Member)
    assert member.name == "mine"
    assert member.classes == tuple(NAMES)
    np.testing.assert_array_equal(member.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_allclose(np.exp(member.predict_logits(X)), fitted.predict_proba(X).clip(1e-7), rtol=1e-6)
    assert wrap(member) is member
    assert wrap(fitted).name == "LogisticRegression"


def test_a_torch_module_with_classes_and_transform():
    net = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.9))
    net.train()
    member = wrap(net, classes=NAMES, transform=lambda rows: torch.as_tensor(rows[:, :2]), name="net")
    with torch.no_grad():
        expected = net.eval()(torch.as_tensor(X[:, :2])).numpy()
    np.testing.assert_allclose(member.predict_logits(X), expected, atol=1e-6)
    np.testing.assert_allclose(member.predict_proba(X).sum(axis=1), 1)
    assert member.predict_logits(X).argmax(1).tolist() == member.predict_proba(X).argmax(1).tolist()
    assert member.predict_proba(X[:0]).shape == (0, 3)


def test_a_torch_module_on_sequences_and_a_tuple_transform():
    rows = digit_sequences().take(slice(0, 9))

    class Two(nn.Module):
        def forward(self, static, series):
            return torch.nan_to_num(torch.stack([static.sum(1), series.sum((1, 2))], dim=1))

    plain = wrap(Two(), classes=["a", "b"])
    pair = wrap(Two(), classes=["a", "b"], transform=lambda X: (torch.tensor(X.static), torch.tensor(X.series)))
    np.testing.assert_array_equal(plain.predict_logits(rows.X), pair.predict_logits(rows.X))
    assert plain.predict_proba(Sequences(rows.X.static, rows.X.series)).shape == (9, 2)


def test_xgboost_and_lightgbm_as_classifiers_and_boosters():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    codes, two = _codes, _codes < 2
    makers = (
        lambda: xgboost.XGBClassifier(n_estimators=5),
        lambda: lightgbm.LGBMClassifier(n_estimators=5, verbose=-1),
    )
    for make in makers:
        for rows, labels, names in ((X, codes, NAMES), (X[two], codes[two], NAMES[:2])):
            model = make().fit(rows, labels)
            booster = model.get_booster() if hasattr(model, "get_booster") else model.booster_
            raw = wrap(booster, classes=names)
            np.testing.assert_allclose(raw.predict_proba(rows), wrap(model).predict_proba(rows), atol=1e-6)
            assert wrap(model).classes == tuple(range(len(names)))
            assert wrap(model, classes=names).classes == tuple(names)


def test_a_callable_needs_classes_and_gives_probabilities():
    member = wrap(lambda rows: np.full((len(rows), 2), 0.5), classes=["no", "yes"], name="coin")
    assert member.predict_proba(X).shape == (150, 2)
    with pytest.raises(ModelError, match="pass classes="):
        wrap(lambda rows: rows)


def test_a_zoo_model_can_be_wrapped():
    rows = wine()
    model = find_recipe("logistic").fit(rows, None, classes=3, features=(), seed=0)
    member = wrap(model, classes=["a", "b", "c"])
    np.testing.assert_allclose(member.predict_proba(rows.X), model.predict_proba(rows.X))


def test_a_member_can_be_renamed_without_touching_the_first():
    member = wrap(fitted, name="mine")
    other = wrap(member, name="theirs", classes=["a", "b", "c"])
    assert (member.name, other.name) == ("mine", "theirs")
    assert other.classes == ("a", "b", "c")
    np.testing.assert_array_equal(member.predict_proba(X), other.predict_proba(X))


def test_sparse_inputs_are_counted_by_rows():
    assert wrap(LogisticRegression().fit(X, y)).predict_proba(sparse.csr_matrix(X)).shape == (150, 3)


def test_members_survive_clone_without_copying_the_model():
    member = wrap(fitted)
    assert copy.deepcopy([member])[0] is member


def test_an_onnx_file_brings_its_class_names_back(tmp_path):
    data = export(fitted, X)
    path = tmp_path / "ward.onnx"
    path.write_bytes(data)
    for source in (path, str(path), data):
        member = wrap(source)
        assert member.classes == tuple(NAMES)
        np.testing.assert_allclose(member.predict_proba(X), fitted.predict_proba(X), atol=1e-5)
    assert wrap(path).name == "ward"
    assert wrap(path, classes=["x", "y", "z"]).classes == ("x", "y", "z")


@pytest.mark.parametrize("unfitted", [LogisticRegression(), make_pipeline(StandardScaler(), RandomForestClassifier())])
def test_an_unfitted_model_is_refused(unfitted):
    with pytest.raises(ModelError, match="is not fitted: call its fit"):
        wrap(unfitted)


def test_a_model_without_probabilities_is_refused_with_the_remedy():
    with pytest.raises(ModelError, match=r"'LinearSVC' has no predict_proba.*CalibratedClassifierCV"):
        wrap(LinearSVC().fit(X, y))
    with pytest.raises(ModelError, match="no predict_proba"):
        wrap(LinearRegression().fit(X, _codes))


def test_a_class_instead_of_a_model_and_a_plain_object_are_refused():
    with pytest.raises(ModelError, match="is a class, not a fitted model"):
        wrap(LogisticRegression)
    with pytest.raises(ModelError, match="cannot wrap"):
        wrap(42)


def test_a_torch_module_without_classes_is_refused():
    with pytest.raises(ModelError, match="'Linear' does not say what its output columns mean"):
        wrap(nn.Linear(4, 3))


def test_an_output_width_other_than_the_classes_is_refused():
    with pytest.raises(BadOutputs, match=r"returned shape \(150, 3\), expected \(150, 2\)"):
        wrap(nn.Linear(4, 3), classes=["a", "b"]).predict_proba(X)
    with pytest.raises(ClassMismatch, match="fitted on 3 classes, classes= names 2"):
        wrap(fitted, classes=["a", "b"])
    with pytest.raises(BadOutputs, match="3 output columns and 2 classes"):
        wrap(export(fitted, X), classes=["a", "b"])


def test_repeated_classes_are_refused():
    with pytest.raises(ModelError, match="each once"):
        wrap(nn.Linear(4, 2), classes=["a", "a"])


def test_nan_outputs_are_refused_by_name_and_row():
    holes = X.copy()
    holes[7, 0] = np.nan
    with pytest.raises(BadOutputs, match=r"'net' returned a non-finite value in 1 of 150 rows .first: row 7"):
        wrap(nn.Linear(4, 3), classes=NAMES, name="net").predict_proba(holes)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda rows: np.ones(len(rows)), r"returned shape \(150,\)"),
        (lambda rows: np.full((3, 2), 0.5), r"returned shape \(3, 2\)"),
        (lambda rows: np.full((len(rows), 2), 0.9), "expected probabilities that sum to one"),
        (lambda rows: np.tile([-1.0, 2.0], (len(rows), 1)), "expected probabilities"),
        (lambda rows: [["a", "b"]] * len(rows), "expected numbers"),
    ],
)
def test_a_callable_that_returns_no_probabilities_is_refused(output, message):
    with pytest.raises(BadOutputs, match=message):
        wrap(output, classes=["no", "yes"]).predict_proba(X)


def test_a_transform_that_gives_no_tensor_is_refused():
    with pytest.raises(ModelError, match="gave ndarray: expected a tensor"):
        wrap(nn.Linear(4, 3), classes=NAMES, transform=lambda rows: rows).predict_proba(X)


def test_a_truncated_or_missing_onnx_file_is_refused(tmp_path):
    data = export(fitted, X)
    (tmp_path / "half.onnx").write_bytes(data[: len(data) // 2])
    for source in (tmp_path / "half.onnx", data[:-9], b"", b"not a model"):
        with pytest.raises(BrokenFile, match="no readable ONNX file"):
            wrap(source)
    with pytest.raises(BrokenFile, match="cannot read"):
        wrap(tmp_path / "nowhere.onnx")


def test_an_onnx_file_with_an_input_of_another_kind_is_refused_with_the_kinds_there_are():
    from onnx import TensorProto, helper

    node = helper.make_node("Softmax", ["x"], ["probabilities"])
    kinds = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [None, 3]) for n in ("x", "probabilities")]
    graph = helper.make_graph([node], "half", kinds[:1], kinds[1:])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    with pytest.raises(ModelError, match=r"takes tensor\(float16\).*expected one of tensor\(float\)"):
        wrap(file, classes=["a", "b", "c"])
