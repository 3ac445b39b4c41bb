"""Train, validation and test rows of a site."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import split_rows
from peerwise.errors import DataError


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=80), st.integers(0, 9999))
def test_every_row_once_and_each_class_in_its_share(labels: list[int], seed: int) -> None:
    y = np.array(labels, dtype=np.int64)
    parts = split_rows(y, np.random.default_rng(seed))
    again = split_rows(y, np.random.default_rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    for label in set(labels):
        total = labels.count(label)
        for part, fraction in zip(parts, (0.6, 0.2, 0.2), strict=True):
            assert abs((y[part] == label).sum() - fraction * total) < 1.01
        assert (y[parts[0]] == label).any()


def test_a_hundred_rows_split_sixty_twenty_twenty() -> None:
    y = np.arange(100) % 7
    assert [len(part) for part in split_rows(y, np.random.default_rng(0))] == [60, 20, 20]


def test_another_seed_splits_differently() -> None:
    y = np.arange(100) % 3
    first, second = (split_rows(y, np.random.default_rng(seed))[0] for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize("how", ["plain", "group", "time"])
def test_tiny_sites_do_not_crash_and_train_gets_the_first_row(rows: int, how: str) -> None:
    y = np.zeros(rows, dtype=np.int64)
    extra = {} if how == "plain" else {how: np.arange(rows)}
    train, val, test = split_rows(y, np.random.default_rng(0), **extra)
    assert len(train) + len(val) + len(test) == rows
    assert len(train) >= min(rows, 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=80), st.integers(0, 999))
def test_a_group_is_never_split(pairs: list[tuple[int, int]], seed: int) -> None:
    group, y = np.array(pairs).T
    parts = split_rows(y, np.random.default_rng(seed), group=group)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    train, val, test = (set(group[part].tolist()) for part in parts)
    assert train
    assert train.isdisjoint(val | test)
    assert val.isdisjoint(test)


def test_groups_of_moderate_size_come_near_the_fractions_in_every_class() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 150, 600)
    y = (rng.random(600) < 0.3).astype(np.int64)
    for part, fraction in zip(split_rows(y, rng, group=group), (0.6, 0.2, 0.2), strict=True):
        for label in (0, 1):
            assert (y[part] == label).sum() / (y == label).sum() == pytest.approx(fraction, abs=0.05)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_by_time_the_oldest_rows_are_train(moments: list[int]) -> None:
    time = np.array(moments)
    train, val, test = split_rows(np.zeros(len(time), np.int64), np.random.default_rng(0), time=time)
    newest = -1
    for part in (train, val, test):
        if len(part):
            assert time[part].min() >= newest
            newest = int(time[part].max())
    assert abs(len(train) - 0.6 * len(time)) <= 1
    assert abs(len(test) - 0.2 * len(time)) <= 1


def test_by_time_and_group_no_training_row_is_newer_than_the_cut() -> None:
    rng = np.random.default_rng(0)
    group, time = rng.integers(0, 40, 200), rng.integers(0, 1000, 200)
    parts = split_rows(np.zeros(200, np.int64), rng, group=group, time=time)
    train, val, test = (set(group[part].tolist()) for part in parts)
    assert train.isdisjoint(val | test)
    assert val.isdisjoint(test)
    last = {one: time[group == one].max() for one in set(group.tolist())}
    assert max(last[one] for one in train) <= min(last[one] for one in test)


def test_dates_are_times() -> None:
    time = np.array(["2020-01-03", "2020-01-01", "2020-01-02", "2020-01-05", "2020-01-04"], dtype="datetime64[D]")
    train, val, test = split_rows(np.zeros(5, np.int64), np.random.default_rng(0), time=time)
    assert (train.tolist(), val.tolist(), test.tolist()) == ([0, 1, 2], [4], [3])


@pytest.mark.parametrize("fractions", [(0.5, 0.2, 0.2), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_fractions_that_are_none_are_refused(fractions: tuple[float, float, float]) -> None:
    with pytest.raises(DataError, match="three numbers that sum to 1"):
        split_rows(np.zeros(5, np.int64), np.random.default_rng(0), fractions=fractions)


@pytest.mark.parametrize("how", ["plain", "group", "time"])
def test_a_fraction_of_nothing_gets_nothing(how: str) -> None:
    y = np.arange(50) % 3
    extra = {} if how == "plain" else {how: np.arange(50)}
    train, val, test = split_rows(y, np.random.default_rng(0), fractions=(0.8, 0.0, 0.2), **extra)
    assert len(val) == 0
    assert len(train) == pytest.approx(40, abs=1)
    assert len(test) == 50 - len(train)


def test_a_missing_time_is_refused() -> None:
    with pytest.raises(DataError, match="some rows have no time"):
        split_rows(np.zeros(2, np.int64), np.random.default_rng(0), time=np.array([1.0, np.nan]))


def test_patients_with_many_stays_are_in_every_part_and_rare_events_too() -> None:
    """All large groups in the train rows would make the test rows another kind of patients."""
    rng = np.random.default_rng(0)
    sizes = np.where(np.arange(300) % 3 == 0, 3, 1)
    group = np.repeat(np.arange(300), sizes)
    for events in (3, 5, 20):
        y = np.zeros(len(group), dtype=np.int64)
        y[rng.choice(np.flatnonzero(sizes[group] == 1), events, replace=False)] = 1
        parts = split_rows(y, np.random.default_rng(1), group=group)
        repeated = [float((sizes[group[part]] == 3).mean()) for part in parts]
        assert np.ptp(repeated) < 0.1, repeated
        assert np.abs([len(part) / len(y) for part in parts] - np.array([0.6, 0.2, 0.2])).max() < 0.02
        found = np.array([y[part].sum() for part in parts])
        assert (found >= 1).all()
        assert np.abs(found - events * np.array([0.6, 0.2, 0.2])).max() <= 1
