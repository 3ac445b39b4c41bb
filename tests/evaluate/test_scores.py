"""Metrics against scikit-learn and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
    recall_score,
    roc_auc_score,
)

from peerwise.evaluate import scores
from peerwise.evaluate.undefined import why_undefined
from peerwise.metrics import auprc, auroc, brier, calibration_error, sensitivity_specificity

CLASSES = ("well", "ill", "worse")


def drawn(seed: int, rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, rows)])
    return y, rng.dirichlet(np.ones(classes), len(y))


@given(st.integers(0, 200), st.integers(1, 50))
def test_two_classes_as_scikit_learn_has_them(seed: int, rows: int) -> None:
    y, p = drawn(seed, rows, 2)
    found = scores(y, p, threshold=0.3)
    assert found["auroc"] == pytest.approx(roc_auc_score(y, p[:, 1]))
    assert found["auprc"] == pytest.approx(average_precision_score(y, p[:, 1]))
    assert found["brier"] == pytest.approx(brier_score_loss(y, p[:, 1]))
    assert found["log_loss"] == pytest.approx(log_loss(y, p))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, p.argmax(axis=1)))
    assert found["sensitivity"] == pytest.approx(recall_score(y, p[:, 1] >= 0.3))
    assert found["specificity"] == pytest.approx(recall_score(y, p[:, 1] >= 0.3, pos_label=0))


@given(st.integers(0, 200), st.integers(1, 50))
def test_the_other_class_can_be_the_one_to_be_found(seed: int, rows: int) -> None:
    y, p = drawn(seed, rows, 2)
    found, turned = scores(y, p, positive=0), scores(1 - y, p[:, ::-1])
    assert found == pytest.approx(turned)


@given(st.integers(0, 200), st.integers(1, 50))
def test_more_classes_are_each_against_the_rest(seed: int, rows: int) -> None:
    y, p = drawn(seed, rows, 3)
    assert auroc(y, p) == pytest.approx(roc_auc_score(y, p, multi_class="ovr", average="macro"))
    assert auprc(y, p) == pytest.approx(average_precision_score(y, p, average="macro"))
    assert brier(y, p) == pytest.approx(np.square(p - np.eye(3)[y]).sum() / len(y))
    found = sensitivity_specificity(y, p, positive=2, threshold=0.4)
    assert found == pytest.approx((np.mean(p[y == 2, 2] >= 0.4), np.mean(p[y != 2, 2] < 0.4)))


@given(st.integers(0, 200), st.integers(1, 50), st.sampled_from([np.float32, np.float64]))
def test_rows_that_score_alike_count_as_scikit_learn_counts_them(seed: int, rows: int, kind: type) -> None:
    y, p = drawn(seed, rows, 3)
    tied = p.round(1).astype(kind)
    areas = [roc_auc_score(y == code, tied[:, code]) for code in range(3)]
    precisions = [average_precision_score(y == code, tied[:, code]) for code in range(3)]
    assert auroc(y, tied) == pytest.approx(np.mean(areas))
    assert auprc(y, tied) == pytest.approx(np.mean(precisions))


def test_a_class_that_is_not_in_the_test_rows_does_not_spoil_the_area() -> None:
    y, p = drawn(0, 30, 3)
    y, p = y[y < 2], p[y < 2]
    expected = np.mean([roc_auc_score(y == code, p[:, code]) for code in (0, 1)])
    assert auroc(y, p) == pytest.approx(expected)


def test_the_calibration_error_by_hand() -> None:
    # 0.55 and 0.58 share a bin (8/15 to 9/15): confidence 1.13, one of two right; 0.9 is alone and wrong
    p = np.array([[0.55, 0.45], [0.42, 0.58], [0.9, 0.1]])
    assert calibration_error(np.array([0, 0, 1]), p) == pytest.approx((abs(1.13 - 1) + 0.9) / 3)


def test_honest_probabilities_are_calibrated_and_boasts_are_not() -> None:
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, 40_000)
    y = (rng.uniform(size=40_000) > sure).astype(int)
    assert calibration_error(y, np.column_stack([sure, 1 - sure])) < 0.01
    assert calibration_error(y, np.tile([1.0, 0.0], (40_000, 1))) == pytest.approx(y.mean())


def test_a_certain_mistake_stays_finite() -> None:
    assert scores(np.array([1]), np.array([[1.0, 0.0]]))["log_loss"] == pytest.approx(-np.log(1e-8))


@given(st.lists(st.integers(0, 2), max_size=8), st.sampled_from([None, 0, 1, 2]), st.sampled_from([2, 3]))
def test_a_metric_without_a_value_has_a_reason_and_no_other_has(
    labels: list[int], positive: int | None, classes: int
) -> None:
    y = np.array([label % classes for label in labels], dtype=np.int64)
    code = None if positive is None else positive % classes
    p = np.random.default_rng(0).dirichlet(np.ones(classes), len(y))
    empty = {name for name, value in scores(y, p, positive=code).items() if np.isnan(value)}
    assert set(why_undefined(y, CLASSES[:classes], code)) == empty


def test_reasons_name_the_class() -> None:
    found = why_undefined(np.array([0, 0, 0]), CLASSES[:2])
    assert found["auroc"] == "all 3 test rows are of class 'well'"
    assert found["sensitivity"] == "no test row is of class 'ill'"
    assert "name the one to be found" in why_undefined(np.array([0, 1]), CLASSES)["sensitivity"]
