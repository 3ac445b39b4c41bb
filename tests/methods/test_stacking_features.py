"""A peer's model gets its columns by name: dropped, filled in, recoded; and what cannot be matched is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Feature, Rows, Site
from peerwise.errors import DataError, ParcelError
from peerwise.methods.feature_match import columns_at, defaults_of, match, read_schema, schema_of
from peerwise.parcels import Parcel, pack, unpack

NAN = float("nan")
AGE, HEIGHT, WEIGHT = Feature("age"), Feature("height"), Feature("weight")
COLOUR = Feature("colour", ("red", "green", "blue"))


def schema(*features: Feature, **defaults: float | None) -> dict[str, Any]:
    names = [[feature.name, list(feature.categories)] for feature in features]
    return {"features": names, "defaults": [defaults.get(feature.name) for feature in features]}


def fed(theirs: dict[str, Any], mine: tuple[Feature, ...], rows: list[list[float]]) -> list[list[float]]:
    found = match(theirs, mine, "b")
    X = np.array(rows, np.float32)
    return (X if found is None else np.asarray(found.inputs(X))).tolist()


def test_unknown_features_are_dropped_and_lacking_ones_get_the_publishers_default() -> None:
    theirs = schema(HEIGHT, WEIGHT, AGE, weight=70.0, height=1.0)
    assert fed(theirs, (AGE, COLOUR, HEIGHT), [[30, 2, 180], [40, 0, 170]]) == [[180, 70, 30], [170, 70, 40]]


def test_the_papers_example_of_features_1_2_3_and_3_4_5() -> None:
    mine = tuple(Feature(str(number)) for number in (1, 2, 3))
    theirs = schema(*(Feature(str(number)) for number in (3, 4, 5)), **{"4": 40.0, "5": 50.0})
    assert fed(theirs, mine, [[1, 2, 3], [10, 20, 30]]) == [[3, 40, 50], [30, 40, 50]]


def test_categories_are_matched_by_their_names_and_unknown_ones_are_missing() -> None:
    theirs = schema(Feature("colour", ("blue", "black", "red")), colour=1.0)
    found = fed(theirs, (COLOUR,), [[0], [1], [2], [NAN]])
    assert found[0] == [2]
    assert np.isnan(found[1][0]), "the model does not know green"
    assert found[2] == [0]
    assert np.isnan(found[3][0])


def test_a_lacking_category_is_filled_with_the_publishers_own_code() -> None:
    assert fed(schema(COLOUR, AGE, colour=2.0), (AGE,), [[30]]) == [[2, 30]]


def test_a_default_that_is_missing_is_a_missing_value() -> None:
    assert np.isnan(fed(schema(AGE, WEIGHT), (AGE,), [[30]])[0][1])


def test_rows_with_the_same_columns_are_taken_as_they_are_and_another_order_is_mended() -> None:
    assert match(schema(AGE, COLOUR), (AGE, COLOUR), "b") is None
    assert match(schema(), (), "b") is None, "images and sequences have no named columns"
    assert fed(schema(COLOUR, AGE), (AGE, COLOUR), [[30, 1]]) == [[1, 30]]
    assert fed(schema(AGE), (AGE, COLOUR), [[30, 1]]) == [[30]]


def test_a_number_here_and_a_category_there_is_an_error_that_names_both() -> None:
    words = "feature 'colour' is a number at site 'b' and a category here: expected the same type"
    with pytest.raises(DataError, match=words):
        match(schema(Feature("colour")), (COLOUR,), "b")
    with pytest.raises(DataError, match="feature 'age' is a category at site 'b' and a number here"):
        match(schema(Feature("age", ("young", "old"))), (AGE,), "b")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=8),
    st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=8),
)
def test_each_value_comes_to_the_column_of_its_name(mine: list[int], theirs: list[int]) -> None:
    here = tuple(Feature(f"f{number}") for number in mine)
    there = schema(*(Feature(f"f{number}") for number in theirs), **{f"f{number}": -number for number in theirs})
    found = fed(there, here, [[float(100 + number) for number in mine]])
    assert found == [[100 + number if number in mine else -number for number in theirs]]


def site_of(X: Any, *features: Feature) -> Site:
    rows = Rows(np.array(X, np.float32), np.zeros(len(X), np.int64))
    return Site("a", "table", ("no", "yes"), rows, rows.take(slice(0, 0)), rows.take(slice(0, 0)), features)


def test_defaults_are_the_median_and_the_most_frequent_category() -> None:
    site = site_of([[1, 2, NAN], [5, 0, NAN], [NAN, 2, NAN], [100, 1, NAN]], AGE, COLOUR, WEIGHT)
    assert defaults_of(site, 0.0, np.random.default_rng(0)) == {"age": 5.0, "colour": 2.0, "weight": None}


def test_noise_has_the_scale_that_was_asked_for_and_spares_categories() -> None:
    values = np.random.default_rng(0).normal(50, 7, (500, 2))
    values[:, 1] = 1
    site = site_of(values, AGE, COLOUR)
    drawn = [defaults_of(site, 4.0, np.random.default_rng(seed)) for seed in range(400)]
    ages = np.array([found["age"] for found in drawn], float)
    median, spread = np.median(site.train.X[:, 0]), site.train.X[:, 0].std()  # type: ignore[index]
    assert ages.std() == pytest.approx(4 * spread, rel=0.12)
    assert ages.mean() == pytest.approx(median, abs=4 * 4 * spread / np.sqrt(400))
    assert {found["colour"] for found in drawn} == {1.0}


def test_what_is_sent_survives_the_journey() -> None:
    site = site_of([[1, 2], [5, 0]], AGE, COLOUR)
    sent = Parcel(**schema_of(site, defaults_of(site, 0.0, np.random.default_rng(0))))
    again = read_schema(unpack(*pack(dict(sent))), "a")
    assert again == {"features": [["age", []], ["colour", ["red", "green", "blue"]]], "defaults": [3.0, 0.0]}
    assert columns_at(site) == (AGE, COLOUR)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({}, "no features that can be read"),
        ({"features": 5, "defaults": []}, "no features that can be read"),
        ({"features": [["age", []]], "defaults": []}, "a list of as many defaults"),
        ({"features": [["age", []]], "defaults": ["old"]}, "default old of 'age': expected a number"),
        ({"features": [["age", []], ["age", []]], "defaults": [1, 1]}, "expected every name once"),
        ({"features": [["age", []]], "defaults": [NAN]}, "default nan of 'age': expected a number"),
        ({"features": [["age", "ab"]], "defaults": [1]}, "expected a name with a list of categories"),
    ],
)
def test_features_that_cannot_be_read_are_refused(broken: dict[str, Any], words: str) -> None:
    with pytest.raises(ParcelError, match=words):
        read_schema(broken, "b")
