"""Public rows: at no site, skewed where asked to be, and under one name and hash everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from peerwise.data import Dataset, Sequences, digest, load, make_sites
from peerwise.data.public import set_aside
from peerwise.errors import PartitionError


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def counts(data: Dataset, rows: np.ndarray) -> list[int]:
    return np.bincount(data.y[rows], minlength=len(data.classes)).tolist()


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 3), min_size=60, max_size=120).filter(lambda y: len(set(y)) > 1),
    public=st.integers(1, 20),
    alpha=st.one_of(st.none(), st.floats(1e-3, 100)),
    seed=st.integers(0, 99),
    size=st.integers(1, 3),
)
def test_public_rows_are_at_no_site_and_as_many_as_asked_for(
    labels: list[int], public: int, alpha: float | None, seed: int, size: int
) -> None:
    y = np.array(labels)
    group = np.arange(len(y)) // size
    data = Dataset("drawn", "table", np.arange(len(y), dtype=np.float32)[:, None], y, ("a", "b", "c", "d"), group=group)
    sites = make_sites(data, "quantity", 2, seed=seed, public=public, public_alpha=alpha, min_rows=2)
    common = sites[0].public_set
    assert common is not None
    assert public <= len(common.rows) < public + 4 * size
    assert size > 1 or len(common.rows) == public
    at_sites = np.concatenate([part for site in sites for part in site.index.values()])
    assert np.array_equal(np.sort(np.concatenate([at_sites, common.rows])), np.arange(len(y)))
    assert not {*group[common.rows]} & {*group[at_sites]}
    assert all(np.array_equal(np.asarray(site.public)[:, 0], common.rows) for site in sites)


def test_a_small_alpha_leaves_classes_out_and_a_large_one_does_not(digits: Dataset) -> None:
    def drawn(alpha: float | None, seed: int) -> list[int]:
        common = make_sites(digits, "quantity", 2, public=200, public_alpha=alpha, seed=seed)[0].public_set
        assert common is not None
        return counts(digits, common.rows)

    for seed in range(5):
        skewed, even, plain = drawn(0.05, seed), drawn(1000.0, seed), drawn(None, seed)
        assert [sum(each) for each in (skewed, even, plain)] == [200, 200, 200]
        assert skewed.count(0) >= 3
        assert min(even) >= 15
        assert min(plain) >= 8
    assert drawn(0.05, 0) != drawn(0.05, 1)


def test_skewed_public_rows_leave_half_of_each_class_to_the_sites(digits: Dataset) -> None:
    for seed in range(3):
        common = make_sites(digits, "quantity", 2, public=600, public_alpha=0.01, seed=seed)[0].public_set
        assert common is not None
        taken, all_rows = (np.bincount(digits.y[rows], minlength=10) for rows in (common.rows, np.arange(1797)))
        assert (2 * taken <= all_rows).all()
    with pytest.raises(PartitionError, match=r"half of each class stays at the sites, so at most 89\d of the 1797"):
        make_sites(digits, "quantity", 2, public=900, public_alpha=1.0)
    with pytest.raises(PartitionError, match="public_alpha=0; use a number above 0"):
        make_sites(digits, "quantity", 2, public=9, public_alpha=0)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 25)), min_size=20, max_size=120),
    public=st.integers(1, 12),
    alpha=st.floats(1e-3, 100),
    seed=st.integers(0, 99),
)
def test_with_groups_too_half_of_each_class_stays(
    rows: list[tuple[int, int]], public: int, alpha: float, seed: int
) -> None:
    y, group = np.array(rows).T
    X = np.arange(len(y), dtype=np.float32)[:, None]
    data = Dataset("drawn", "table", X, y, ("a", "b", "c", "d"), group=group)
    try:
        taken, rest = set_aside(data, public, np.random.default_rng(seed), alpha)
    except PartitionError:
        reject()
    assert public <= len(taken)
    assert not {*group[taken]} & {*group[rest]}
    assert (2 * np.bincount(y[taken], minlength=4) <= np.bincount(y, minlength=4)).all()


def test_a_class_of_one_group_is_never_public() -> None:
    y = np.repeat([0, 1, 2], 20)
    group = np.where(y == 2, 99, np.arange(60) // 2)
    data = Dataset("drawn", "table", np.arange(60, dtype=np.float32)[:, None], y, ("a", "b", "c"), group=group)
    for seed in range(20):
        taken, _ = set_aside(data, 16, np.random.default_rng(seed), 0.1)
        assert 2 not in y[taken]
        assert len(taken) == 16
    with pytest.raises(PartitionError, match="of these groups only some with 20 rows together can be set aside"):
        set_aside(data, 25, np.random.default_rng(0), 0.1)


@pytest.mark.parametrize("alpha", [None, 0.1])
def test_one_public_row_is_enough(digits: Dataset, alpha: float | None) -> None:
    for site in make_sites(digits, "dirichlet", 3, public=1, public_alpha=alpha):
        assert site.public is not None
        assert len(site.public) == 1


def test_all_sites_know_the_public_rows_by_one_name_and_hash(digits: Dataset) -> None:
    sites = make_sites(digits, "dirichlet", 4, public=30, seed=1)
    common = sites[0].public_set
    assert common is not None
    assert common.name == "digits/public-30"
    assert {site.public_set.sha256 for site in sites if site.public_set} == {digest(digits.X[common.rows])}
    other = make_sites(digits, "dirichlet", 4, public=30, seed=2)[0].public_set
    assert other is not None
    assert other.sha256 != common.sha256
    assert make_sites(digits, "dirichlet", 4)[0].public_set is None


def test_sites_with_other_columns_still_know_the_same_public_rows() -> None:
    sites = make_sites(load("heart_disease"), "vertical", 3, public=20)
    shapes = {tuple(feature.name for feature in site.features) for site in sites}
    assert len(shapes) > 1
    assert len({site.public_set.sha256 for site in sites if site.public_set}) == 1


def test_public_stays_keep_static_and_series() -> None:
    number = np.arange(90, dtype=np.float32)
    X = Sequences(number[:, None], np.repeat(number[:, None, None], 4, axis=1))
    data = Dataset("stays", "sequence", X, np.arange(90) % 2, ("alive", "died"))
    site = make_sites(data, "quantity", 2, public=6, public_alpha=0.2)[0]
    assert isinstance(site.public, Sequences)
    assert site.public_set is not None
    assert np.array_equal(site.public.static[:, 0], site.public_set.rows)


def test_public_rows_change_nothing_but_themselves(digits: Dataset) -> None:
    renamed = replace(digits, name="other")
    one, other = (make_sites(each, "dirichlet", 3, public=10)[0].public_set for each in (digits, renamed))
    assert one is not None
    assert other is not None
    assert (one.sha256, other.name) == (other.sha256, "other/public-10")
