"""The partitions of the stacking paper: sizes by a power, classes as drawn, and the same rows with other columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Dataset, Feature, partition_rows
from peerwise.errors import PartitionError


def table(y: Any) -> Dataset:
    y = np.asarray(y, dtype=np.int64)
    features = tuple(Feature(name) for name in "uvwxyz")
    return Dataset("made", "table", np.zeros((len(y), 6), np.float32), y, ("a", "b"), features)


def cut(data: Dataset, name: str, sites: int, seed: int, **params: Any) -> list[Any]:
    return partition_rows(data, name, sites, np.random.default_rng(seed), **params)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 15), st.floats(0.1, 1), st.integers(0, 999))
def test_sizes_follow_the_published_power_above_the_least(sites: int, power: float, seed: int) -> None:
    data = table(np.arange(20_000) % 2)
    shares = cut(data, "quantity", sites, seed, power=power, min_rows=500)
    k = np.arange(1, sites + 1)
    published = 500 + ((k / sites) ** power - ((k - 1) / sites) ** power) * (len(data) - 500 * sites)
    assert np.abs(np.sort([len(share.rows) for share in shares]) - np.sort(published)).max() <= 1.001
    assert np.array_equal(np.sort(np.concatenate([share.rows for share in shares])), np.arange(len(data)))


def test_a_power_of_one_is_even_and_a_small_one_gives_most_to_one_site() -> None:
    data = table(np.arange(10_000) % 2)
    even = [len(share.rows) for share in cut(data, "quantity", 10, 0, power=1.0)]
    assert set(even) == {1000}
    sizes = sorted(len(share.rows) for share in cut(data, "quantity", 10, 0, power=0.25, min_rows=500))
    assert sizes[-1] == 500 + round(0.1**0.25 * 5000)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.4, 100), st.integers(0, 999))
def test_classes_as_drawn_give_equal_sites_with_enough_of_each_class(alpha: float, seed: int) -> None:
    data = table(np.repeat([0, 1], [9000, 3000]))
    shares = cut(data, "equal_label_skew", 5, seed, alpha=alpha, all_rows=False)
    assert [len(share.rows) for share in shares] == [600] * 5  # the scarcest class has 3,000 rows
    assert min(np.bincount(data.y[share.rows], minlength=2).min() for share in shares) >= 10
    rows = np.concatenate([share.rows for share in shares])
    assert len(np.unique(rows)) == len(rows)


def test_classes_as_drawn_are_balanced_in_the_mean_where_the_data_are_not() -> None:
    data = table(np.repeat([0, 1], [9000, 3000]))

    def positive(**params: Any) -> float:
        return float(np.mean([data.y[share.rows].mean() for share in cut(data, "equal_label_skew", 5, 0, **params)]))

    assert positive(alpha=1000.0, all_rows=False) == pytest.approx(0.5, abs=0.03)
    assert positive(alpha=1000.0) == pytest.approx(0.25, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.floats(0.2, 1), st.integers(0, 999))
def test_registers_of_the_same_persons_share_all_rows_and_differ_in_columns(sites: int, part: float, seed: int) -> None:
    data = table(np.arange(30) % 2)
    shares = cut(data, "vertical", sites, seed, share_of_columns=part, same_rows=True)
    assert len(shares) == sites
    assert all(np.array_equal(share.rows, np.arange(30)) for share in shares)
    assert all(share.features is not None and len(set(share.features)) == max(1, round(part * 6)) for share in shares)


def test_more_sites_than_rows_are_fine_where_all_have_the_same_rows() -> None:
    assert len(cut(table([0, 1, 0]), "vertical", 5, 0, same_rows=True)) == 5


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("quantity", {"power": 0.0}, "power=0.0; use a number above 0, at most 1"),
        ("quantity", {"power": 1.5}, "power=1.5; use a number above 0, at most 1"),
        ("equal_label_skew", {"alpha": 1.0, "all_rows": False}, "20 rows a site with 10 rows of every class"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_to_change(name: str, params: dict[str, Any], words: str) -> None:
    with pytest.raises(PartitionError, match=words):
        cut(table(np.arange(120) % 2), name, 3, 0, **params)
