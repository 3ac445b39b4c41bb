"""Prediction sets: how often they hold the truth, against the definition and on data made to be easy or hard."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from peerwise.errors import ConfigError
from peerwise.trust.prediction_sets import PredictionSets, check_level, least_rows

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


def said_of(rng: np.random.Generator, rows: int, classes: int, skill: float) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes)) + skill * np.eye(classes)[y]
    said = np.exp(logits)
    return said / said.sum(axis=1, keepdims=True), y


def by_definition(scores: list[float], p: float, level: float) -> bool:
    """In the set unless at least ceil((n + 1) * level) calibration rows have a smaller score: counted one by one."""
    smaller = sum(score < 1 - p for score in scores)
    return smaller < math.ceil(round((len(scores) + 1) * level, 9))


@given(st.integers(1, 60), st.integers(2, 4), LEVELS, st.integers(0, 1000))
def test_a_class_is_in_the_set_unless_enough_known_cases_were_less_strange(
    rows: int, classes: int, level: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    said, y = said_of(rng, rows, classes, 1.0)
    made, new = PredictionSets.fit(said, y), said_of(rng, 5, classes, 1.0)[0]
    scores = (1 - said[np.arange(rows), y]).tolist()
    expected = [[p == max(row) or by_definition(scores, p, level) for p in row] for row in new.tolist()]
    assert made(new, level).tolist() == expected


@pytest.mark.parametrize("skill", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_the_truth_is_inside_as_often_as_promised_whatever_the_models_are_worth(skill: float, level: float) -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        said, y = said_of(rng, 139, 3, skill)
        made = PredictionSets.fit(said[:99], y[:99])
        covered.append(made(said[99:], level)[np.arange(40), y[99:]].mean())
    # between level and level + 1 / (n + 1), give or take chance; models that are right more often than that stay so
    right = np.mean(said.argmax(axis=1) == y)
    assert level - 0.006 < np.mean(covered) < max(level + 0.01 + 0.006, right + 0.1)


@given(arrays(np.float64, (7, 3), elements=st.floats(0.01, 1)), LEVELS, LEVELS)
def test_a_higher_level_rules_out_less(raw: np.ndarray, one: float, other: float) -> None:
    said = raw / raw.sum(axis=1, keepdims=True)
    made = PredictionSets.fit(said, np.zeros(7, np.int64))
    low, high = sorted((one, other))
    assert (made(said, low) <= made(said, high)).all()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_with_too_few_rows_nothing_is_ruled_out_and_with_one_more_something_can_be(level: float) -> None:
    said = np.tile([0.9, 0.1], (least_rows(level), 1))
    y = np.zeros(len(said), np.int64)
    assert not PredictionSets.fit(said, y)(said[:1], level)[0, 1]
    assert PredictionSets.fit(said[1:], y[1:])(said[:1], level).all()


def test_the_likeliest_class_is_always_in_the_set() -> None:
    made = PredictionSets.fit(np.tile([0.9, 0.1], (50, 1)), np.zeros(50, np.int64))
    assert made(np.array([[0.4, 0.6]]), 0.9).tolist() == [[False, True]]


@pytest.mark.parametrize("level", [0.0, 0.49, 1.0, float("nan"), -1.0])
def test_a_level_that_cannot_be_meant_is_refused(level: float) -> None:
    with pytest.raises(ConfigError, match=r"expected a share from 0.5 to 0.999"):
        check_level(level)
