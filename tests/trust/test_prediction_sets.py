"""Prediction sets: how often they hold the truth, against the definition and on data made to be easy or hard."""

from __future__ import annotations

import math

import numpy as np
import pytest
from crepes import ConformalClassifier
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from peerwise.errors import ConfigError
from peerwise.serve import desk as serve_desk
from peerwise.serve import settings as serve_settings
from peerwise.trust.prediction_sets import HIGHEST, LEVEL, LOWEST, PredictionSets, check_level, least_rows

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


# ---- by class ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(2, 4), st.floats(0.5, 0.99), st.booleans(), st.integers(0, 1000))
def test_sets_are_those_of_crepes_and_the_likeliest_class(
    rows: int, classes: int, level: float, by_class: bool, seed: int
) -> None:
    """The independent implementation includes p >= 1 - level and ours p > 1 - level, as in the definition by ranks:
    they differ only where (n + 1) * level is a whole number."""
    rng = np.random.default_rng(seed)
    (said, y), (new, _) = said_of(rng, rows, classes, 1.0), said_of(rng, 6, classes, 1.0)
    said, new = np.round(said, 2), np.round(new, 2)  # equal scores occur
    scores = 1 - said[np.arange(rows), y]
    groups = [y == code for code in range(classes)] if by_class else [np.ones(rows, bool)] * classes
    assume(all(abs((group.sum() + 1) * level % 1 - 0.5) < 0.499 for group in groups))
    expected = np.ones(new.shape, bool)
    if by_class:
        oracle = ConformalClassifier().fit(scores, bins=y)
        for code in range(classes):
            if groups[code].any():  # it has no p-values for a class that it has never seen
                bins = np.full(len(new), code)
                expected[:, code] = oracle.predict_set(1 - new, bins, confidence=level, smoothing=False)[:, code]
    elif rows:
        expected = ConformalClassifier().fit(scores).predict_set(1 - new, confidence=level, smoothing=False) == 1
    expected[np.arange(len(new)), new.argmax(axis=1)] = True
    np.testing.assert_array_equal(PredictionSets.fit(said, y, by_class=by_class)(new, level), expected)


def test_sets_by_class_hold_a_rare_truth_as_often_as_promised_where_marginal_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    covered: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(300):
        y = (rng.random(600) < 0.15).astype(np.int64)
        score = rng.normal(size=600) + 1.5 * y - 2.5
        said = np.stack([1 / (1 + np.exp(score)), 1 / (1 + np.exp(-score))], axis=1)
        for by_class, found in covered.items():
            made = PredictionSets.fit(said[:300], y[:300], by_class=by_class)
            inside = made(said[300:], 0.9)[np.arange(300), y[300:]]
            found.append(inside[y[300:] == 1].mean())
    assert np.mean(covered[False]) < 0.5
    assert 0.89 < np.mean(covered[True]) < 0.94


def test_a_class_with_too_few_calibration_rows_is_always_possible_and_named() -> None:
    said = np.tile([0.98, 0.01, 0.01], (40, 1))
    y = np.repeat([0, 1, 2], [20, 12, 8])
    said[y == 1] = [0.1, 0.8, 0.1]
    made = PredictionSets.fit(said, y, by_class=True)
    assert np.isinf(made.limits(0.9)).tolist() == [False, False, True]
    (verdict,) = made.verdicts(np.array([[0.98, 0.01, 0.01]]), np.array([0]), 0.9, ["healthy", "ill", "rare"])
    assert (verdict.unsure, verdict.possible) == (True, (0, 2))
    assert verdict.why == "both healthy and rare are possible at 90 % (fewer than 9 calibration cases of rare)"


# ---- the verdict, and how often such answers were wrong --------------------------------------------------------------


@pytest.mark.parametrize("by_class", [False, True])
@given(st.integers(1, 40), LEVELS, st.integers(0, 1000))
def test_the_record_is_that_of_every_row_judged_by_the_others(
    by_class: bool, rows: int, level: float, seed: int
) -> None:
    said, y = said_of(np.random.default_rng(seed), rows, 3, 1.5)
    said = np.round(said, 1)
    said[:, 2] = 1 - said[:, 0] - said[:, 1]
    counts = {True: [0, 0], False: [0, 0]}
    for row in range(rows):
        others = np.arange(rows) != row
        made = PredictionSets.fit(said[others], y[others], by_class=by_class)
        sure = int(made(said[row : row + 1], level).sum()) == 1
        counts[sure][0] += 1
        counts[sure][1] += int(said[row].argmax() != y[row])
    record = PredictionSets.fit(said, y, by_class=by_class).record(level)
    assert [record.sure.answers, record.sure.wrong] == counts[True]
    assert [record.unsure.answers, record.unsure.wrong] == counts[False]


def test_a_set_always_holds_the_answer_whatever_rule_chose_it() -> None:
    """A rule for balanced accuracy answers with a rare class that is not the likeliest."""
    rng = np.random.default_rng(3)
    said = rng.dirichlet([8.0, 1.0], 200)
    y = (rng.random(200) > said[:, 0]).astype(np.int64)
    answers = (said[:, 1] > 0.1).astype(np.int64)
    made = PredictionSets.fit(said[:100], y[:100], answers[:100])
    found = made(said[100:], 0.6, answers[100:])
    assert (answers != said.argmax(axis=1)).any(), "the rule must differ from the likeliest class somewhere"
    assert found[np.arange(100), answers[100:]].all()
    assert (found.sum(axis=1) > 1)[answers[100:] != said[100:].argmax(axis=1)].all(), "a likelier class is possible too"
    record = made.record(0.6)
    assert record.sure.wrong + record.unsure.wrong == (answers[:100] != y[:100]).sum()


def test_an_answer_is_unsure_exactly_where_its_set_has_more_than_one_class() -> None:
    said, y = said_of(np.random.default_rng(0), 80, 3, 2.0)
    made = PredictionSets.fit(said[:60], y[:60])
    verdicts = made.verdicts(said[60:], said[60:].argmax(axis=1), 0.9, "abc")
    sets = made(said[60:], 0.9)
    assert [verdict.unsure for verdict in verdicts] == (sets.sum(axis=1) > 1).tolist()
    assert [bool(verdict.why) for verdict in verdicts] == [verdict.unsure for verdict in verdicts]
    assert len({verdict.unsure for verdict in verdicts}) == 2


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (0, "no calibration cases are left: how sure the answer is cannot be estimated"),
        (1, "1 calibration case is too few for 90 %: at least 9 are needed"),
        (8, "8 calibration cases are too few for 90 %: at least 9 are needed"),
    ],
)
@pytest.mark.parametrize("by_class", [False, True])
def test_without_enough_calibration_rows_every_answer_is_unsure_for_that_reason(
    rows: int, why: str, by_class: bool
) -> None:
    made = PredictionSets.fit(np.tile([1.0, 0.0], (rows, 1)), np.zeros(rows, np.int64), by_class=by_class)
    (verdict,) = made.verdicts(np.array([[1.0, 0.0]]), np.array([0]), 0.9, ["healthy", "ill"])
    assert (verdict.unsure, verdict.possible, verdict.why) == (True, (0, 1), why)


def test_a_rounding_error_between_two_ways_to_answer_a_row_changes_no_verdict() -> None:
    said = np.tile([0.55, 0.45], (20, 1))
    made = PredictionSets.fit(said, np.ones(20, np.int64))
    assert made(np.array([[0.55 + 1e-8, 0.45 - 1e-8]]), 0.9).all()


def test_the_command_and_the_service_have_the_same_level_unless_told_otherwise() -> None:
    assert (serve_desk.LEVEL, serve_settings.LEVELS) == (LEVEL, (LOWEST, HIGHEST))
