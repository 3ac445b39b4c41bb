"""What outputs and labels are accepted, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from peerwise.errors import BadOutputs, DataError
from peerwise.models.outputs import FLOOR
from peerwise.space import as_logits, check_codes, softmax

GOOD = np.full((4, 3, 2), 0.5)


def test_probabilities_become_their_logarithm_with_a_floor():
    logits = as_logits([[[1.0, 0.0]]], "probabilities")
    assert logits.dtype == np.float32
    assert logits.ravel() == pytest.approx([0, np.log(FLOOR)])


def test_logits_stay_as_they_are():
    np.testing.assert_array_equal(as_logits(GOOD * 7, "logits"), (GOOD * 7).astype(np.float32))


def test_no_rows_are_accepted():
    assert as_logits(np.zeros((0, 3, 2)), "probabilities").shape == (0, 3, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_a_non_finite_output_is_refused_with_model_and_row(value, kind):
    bad = GOOD.copy()
    bad[2, 1, 0] = value
    with pytest.raises(BadOutputs, match=f"model 'lenet' gives {value} at row 2"):
        as_logits(bad, kind, names=["mlp", "lenet", "cnn"])
    with pytest.raises(BadOutputs, match="model 1 gives"):
        as_logits(bad, kind)


@pytest.mark.parametrize("shape", [(4, 3), (4,), (4, 0, 2), (4, 3, 0), (1, 4, 3, 2)])
def test_a_wrong_shape_is_refused(shape):
    with pytest.raises(BadOutputs, match=r"expected \(rows, models, classes\)"):
        as_logits(np.zeros(shape), "logits")


@pytest.mark.parametrize("row", [[0.7, 0.7], [1.2, -0.2], [3.0, -1.0]])
def test_rows_that_are_no_probabilities_are_refused(row):
    bad = GOOD.copy()
    bad[1, 2] = row
    with pytest.raises(BadOutputs, match=r"model 2 gives .* at row 1.*kind='logits'"):
        as_logits(bad, "probabilities")


def test_words_and_ragged_lists_are_refused():
    with pytest.raises(BadOutputs, match="no array of numbers"):
        as_logits([[["a", "b"]]], "logits")
    with pytest.raises(BadOutputs, match="no array of numbers"):
        as_logits([[[1, 2]], [[1]]], "logits")


def test_an_unknown_kind_is_refused():
    with pytest.raises(BadOutputs, match="kind='odds'"):
        as_logits(GOOD, "odds")


def test_softmax_sums_to_one_for_huge_logits():
    np.testing.assert_allclose(softmax(np.array([[1e30, 0, -1e30], [5, 5, 5]])).sum(axis=1), 1)


@pytest.mark.parametrize("labels", [[0, 1, 1], np.array([0, 1, 1], np.int8), np.array([0.0, 1.0, 1.0]), (0, 1, 1)])
def test_whole_numbers_are_class_codes(labels):
    codes = check_codes(labels, 3, 2)
    assert codes.dtype == np.int64
    assert codes.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -1, 1], "the label -1 at row 1"),
        ([0, 1, 5], "the label 5 at row 2"),
        ([0, 1, 1.5], "1.5 at row 2"),
        ([0, np.nan, 1], "nan at row 1"),
        (["a", "b", "a"], "'a' at row 0"),
        ([True, False, True], "True at row 0"),
        ([0, 1], r"shape \(2,\): expected \(3,\)"),
        ([[0], [1], [1]], r"shape \(3, 1\)"),
    ],
)
def test_other_labels_are_refused_with_their_row(labels, message):
    with pytest.raises(DataError, match=message):
        check_codes(labels, 3, 2)


def test_no_labels_are_refused():
    with pytest.raises(DataError, match="validation y is empty"):
        check_codes([], 0, 2, what="validation y")
