"""Raw inputs as sample features: tables, frames, images and sequences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from peerwise.data.rows import Sequences
from peerwise.errors import DataError
from peerwise.space import InputFeatures


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [50.0, np.nan, 70.0, 60.0],
            "sex": ["f", "m", None, "m"],
            "stage": pd.Categorical([1, 2, 2, 1]),
            "count": pd.array([1, None, 3, 2], dtype="Int64"),
            "smokes": [True, False, True, False],
        }
    )


def test_columns_are_standardised_and_missing_values_lie_at_the_mean():
    found = InputFeatures.fit(frame()).transform(frame())
    assert found.shape == (4, 1 + 2 + 2 + 1 + 1)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-6)
    assert found[:, 0] == pytest.approx([-np.sqrt(1.5), 0, np.sqrt(1.5), 0], abs=1e-6)
    assert found[2, 1:3].tolist() == [0, 0]
    assert found[1, 5] == 0


def test_columns_are_found_by_name_in_any_order():
    features = InputFeatures.fit(frame())
    shuffled = frame()[["smokes", "count", "age", "sex", "stage"]].assign(extra=1)
    np.testing.assert_array_equal(features.transform(shuffled), features.transform(frame()))


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match="lacks the column 'stage'"):
        InputFeatures.fit(frame()).transform(frame().drop(columns="stage"))


def test_an_unknown_category_is_none_of_the_known():
    features = InputFeatures.fit(frame())
    other = features.transform(frame().assign(sex="x"))
    assert np.isfinite(other).all()
    assert (other[:, 1] < 0).all()
    assert (other[:, 2] < 0).all()


def test_numbers_in_an_object_column_are_numbers():
    odd = pd.DataFrame({"a": np.array([1.5, None, 3.0], object)})
    assert InputFeatures.fit(odd).transform(odd).shape == (3, 1)


def test_a_word_in_a_column_of_numbers_is_refused_by_name():
    features = InputFeatures.fit(frame())
    with pytest.raises(DataError, match="column 'age'"):
        features.transform(frame().assign(age="old"))


@pytest.mark.parametrize("as_frame", [False, True])
def test_infinite_empty_and_constant_columns_are_harmless(as_frame):
    table = np.array([[np.inf, np.nan, 3.0, 1.0], [1.0, np.nan, 3.0, 2.0], [3.0, np.nan, 3.0, -np.inf]])
    X = pd.DataFrame(table, columns=list("abcd")) if as_frame else table
    found = InputFeatures.fit(X).transform(X)
    np.testing.assert_allclose(found, [[0, 0, 0, -1], [-1, 0, 0, 1], [1, 0, 0, 0]], atol=1e-6)


def test_images_become_one_row_of_standardised_pixels():
    images = np.random.default_rng(0).integers(0, 256, (10, 1, 4, 4)).astype(np.uint8)
    found = InputFeatures.fit(images).transform(images)
    assert found.shape == (10, 16)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-5)


def test_sequences_become_static_then_series():
    rng = np.random.default_rng(0)
    rows = Sequences(rng.normal(size=(6, 2)).astype(np.float32), rng.normal(size=(6, 5, 3)).astype(np.float32))
    rows.series[1, 2, 0] = np.nan
    features = InputFeatures.fit(rows)
    found = features.transform(rows)
    assert found.shape == (6, 2 + 15)
    assert found[1, 2 + 6] == 0
    np.testing.assert_array_equal(features.transform(rows[2:4]), found[2:4])


def test_no_rows_give_no_rows():
    features = InputFeatures.fit(np.ones((3, 2, 2)))
    assert features.transform(np.ones((0, 2, 2))).shape == (0, 4)


def test_another_width_is_refused():
    with pytest.raises(DataError, match="has 3 input values a row: expected 2"):
        InputFeatures.fit(np.ones((3, 2))).transform(np.ones((3, 3)))


def test_words_in_an_array_are_refused():
    with pytest.raises(DataError, match="features='decision'"):
        InputFeatures.fit(np.array([["a"], ["b"]]))


def test_features_survive_their_tree():
    features = InputFeatures.fit(frame())
    twin = InputFeatures.from_tree(features.to_tree())
    np.testing.assert_array_equal(twin.transform(frame()), features.transform(frame()))


def test_a_frame_asks_what_an_array_taught():
    table = np.arange(6.0).reshape(3, 2)
    features = InputFeatures.fit(table)
    np.testing.assert_array_equal(features.transform(pd.DataFrame(table)), features.transform(table))
