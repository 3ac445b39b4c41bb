"""Partitions: every row exactly once, a seed repeats, another seed differs, the promised skew is met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peerwise.data import PARTITIONS, Dataset, Feature, Sequences, partition_parameters, partition_rows
from peerwise.data.partitions.share import deal_kinds
from peerwise.errors import ConfigError, PartitionError

Drawn = st.sampled_from(
    [
        ("exdir", {"classes_per_site": 2, "alpha": 1.0, "min_rows": 1}),
        ("dirichlet", {"alpha": 0.5, "min_rows": 1}),
        ("pathological", {"classes_per_site": 2}),
        ("disjoint", {}),
        ("quantity", {"exponent": 1.5, "min_rows": 2}),
        ("equal_label_skew", {"alpha": 0.3}),
        ("vertical", {"share_of_columns": 0.5}),
        ("feature_shift", {"column": "site"}),
    ]
)


def table(y: Any, classes: int, domains: int = 2, group: Any = None) -> Dataset:
    y = np.asarray(y, dtype=np.int64)
    rng = np.random.default_rng(0)
    return Dataset(
        name="made",
        kind="table",
        X=np.arange(len(y) * 6, dtype=np.float32).reshape(-1, 6),
        y=y,
        classes=tuple("abcdefghij"[:classes]),
        features=tuple(Feature(name) for name in "uvwxyz"),
        site=np.array([f"domain{d}" for d in rng.permutation(np.arange(len(y)) % domains)]),
        group=group,
    )


def labels(classes: int, rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Unequal classes, each with at least 20 rows."""
    rng = np.random.default_rng(seed)
    extra = rng.choice(classes, size=rows, p=rng.dirichlet(np.ones(classes)))
    return rng.permutation(np.concatenate([np.repeat(np.arange(classes), 20), extra]))


def cut(data: Dataset, name: str, sites: int | None, seed: int, **params: Any) -> list[Any]:
    return partition_rows(data, name, sites, np.random.default_rng(seed), **params)


def counts(data: Dataset, shares: list[Any]) -> np.ndarray[Any, Any]:
    return np.array([np.bincount(data.y[share.rows], minlength=len(data.classes)) for share in shares])


@settings(max_examples=120, deadline=None)
@given(Drawn, st.integers(3, 8), st.integers(0, 400), st.integers(2, 9), st.integers(0, 10_000))
def test_every_row_goes_to_exactly_one_site_and_seeds_repeat(
    partition: tuple[str, dict[str, Any]], classes: int, rows: int, sites: int, seed: int
) -> None:
    name, params = partition
    data = table(labels(classes, rows, seed), classes)
    assume(name != "disjoint" or sites <= classes)
    assume(name not in ("exdir", "pathological") or sites * 2 >= classes)
    shares = cut(data, name, sites, seed, **params)
    again = cut(data, name, sites, seed, **params)
    other = [cut(data, name, sites, seed + more, **params) for more in range(1, 13)]
    assert len(shares) == sites
    assert len({share.name for share in shares}) == sites
    assert np.array_equal(np.sort(np.concatenate([share.rows for share in shares])), np.arange(len(data)))
    assert all(len(share.rows) for share in shares)
    assert [(s.name, s.rows.tolist(), s.features) for s in shares] == [
        (s.name, s.rows.tolist(), s.features) for s in again
    ]
    if name == "feature_shift" and sites == 2:
        return  # one site a domain: nothing is drawn
    assert any([s.rows.tolist() for s in shares] != [s.rows.tolist() for s in cutting] for cutting in other)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 10), st.integers(1, 5), st.integers(3, 20), st.floats(0.3, 10), st.integers(0, 9999))
def test_exdir_gives_a_site_its_few_classes_and_enough_rows(
    classes: int, each: int, sites: int, alpha: float, seed: int
) -> None:
    assume(each <= classes and each * sites >= classes)
    data = table(labels(classes, 2000, seed), classes)
    shares = cut(data, "exdir", sites, seed, classes_per_site=each, alpha=alpha, min_rows=1)
    table_of_counts = counts(data, shares)
    assert ((table_of_counts > 0).sum(axis=1) <= each).all()
    assert table_of_counts.sum(axis=1).min() >= 1


def test_exdir_shares_more_evenly_with_a_larger_alpha() -> None:
    data = table(labels(10, 6000, 0), 10)

    def spread(alpha: float) -> float:
        cells = [counts(data, cut(data, "exdir", 10, s, classes_per_site=5, alpha=alpha, min_rows=1)) for s in range(8)]
        return float(np.mean([np.std(c[c > 0]) for c in cells]))

    assert spread(0.3) > 1.2 * spread(100.0)


def test_exdir_where_all_owners_of_a_class_are_above_the_cap_still_shares_the_class() -> None:
    # class 0 fills both sites to the cap, class 1 has owners above it only
    data = table(np.repeat([0, 1], [96, 4]), 2)
    for seed in range(20):
        shares = cut(data, "exdir", 2, seed, classes_per_site=2, alpha=1000.0, min_rows=1)
        assert counts(data, shares).sum() == 100


def test_exdir_with_one_class_a_site_and_as_many_classes_as_sites_is_found() -> None:
    data = table(labels(10, 1000, 1), 10)
    table_of_counts = counts(data, cut(data, "exdir", 10, 0, classes_per_site=1))
    assert sorted(table_of_counts.argmax(axis=1).tolist()) == list(range(10))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), st.integers(1, 10), st.integers(1, 25), st.integers(0, 9999))
def test_every_class_has_its_promised_number_of_owners(classes: int, each: int, sites: int, seed: int) -> None:
    assume(each <= classes and each * sites >= classes)
    for least in (max(each * sites // classes // 2, 1), each * sites // classes):
        owns = deal_kinds(sites, classes, each, least, np.random.default_rng(seed))
        assert (owns.sum(axis=1) == each).all()
        assert owns.sum(axis=0).min() >= least


@pytest.mark.parametrize("name", ["exdir", "dirichlet"])
def test_every_site_ends_with_min_rows(name: str) -> None:
    data = table(labels(5, 1500, 3), 5)
    for seed in range(10):
        assert min(len(share.rows) for share in cut(data, name, 8, seed, alpha=0.5, min_rows=40)) >= 40


def test_redraws_are_bounded_and_the_error_says_what_to_change() -> None:
    data = table(labels(3, 300, 0), 3)
    with pytest.raises(PartitionError, match=r"1000 draws .* larger alpha"):
        cut(data, "dirichlet", 10, 0, alpha=0.01, min_rows=30)


def test_dirichlet_is_more_skewed_with_a_smaller_alpha() -> None:
    data = table(labels(10, 5000, 0), 10)

    def top_share(alpha: float) -> float:
        c = counts(data, cut(data, "dirichlet", 10, 1, alpha=alpha, min_rows=5))
        return float((c.max(axis=1) / c.sum(axis=1)).mean())

    overall = np.bincount(data.y).max() / len(data)
    assert top_share(0.1) > top_share(1000.0) + 0.2
    assert top_share(1000.0) == pytest.approx(overall, abs=0.05)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(2, 12), st.integers(0, 9999))
def test_pathological_gives_exactly_so_many_classes_in_equal_shards(
    classes: int, each: int, sites: int, seed: int
) -> None:
    assume(each <= classes and each * sites >= classes)
    data = table(labels(classes, 200, seed), classes)
    c = counts(data, cut(data, "pathological", sites, seed, classes_per_site=each))
    assert ((c > 0).sum(axis=1) == each).all()
    owners = (c > 0).sum(axis=0)
    assert owners.min() >= each * sites // classes
    for column in c.T:
        assert np.ptp(column[column > 0]) <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 10), st.integers(1, 10), st.integers(0, 9999))
def test_disjoint_sites_share_no_class(classes: int, sites: int, seed: int) -> None:
    assume(sites <= classes)
    data = table(labels(classes, 100, seed), classes)
    c = counts(data, cut(data, "disjoint", sites, seed))
    assert ((c > 0).sum(axis=0) == 1).all()
    assert np.ptp((c > 0).sum(axis=1)) <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 20), st.floats(0, 3), st.integers(1, 10), st.integers(0, 9999))
def test_quantity_follows_the_power_law(sites: int, exponent: float, min_rows: int, seed: int) -> None:
    data = table(labels(3, 2000, 0), 3)
    sizes = np.sort([len(s.rows) for s in cut(data, "quantity", sites, seed, exponent=exponent, min_rows=min_rows)])
    weight = np.sort(np.arange(1, sites + 1) ** -exponent)
    expected = min_rows + weight / weight.sum() * (len(data) - sites * min_rows)
    assert np.abs(sizes - expected).max() <= 1.001


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 10), st.integers(1, 15), st.floats(0.05, 50), st.integers(0, 9999))
def test_equal_label_skew_has_sites_of_equal_size(classes: int, sites: int, alpha: float, seed: int) -> None:
    data = table(labels(classes, 300, seed), classes)
    sizes = [len(share.rows) for share in cut(data, "equal_label_skew", sites, seed, alpha=alpha)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == len(data)


def test_equal_label_skew_is_skewed_by_alpha() -> None:
    data = table(np.repeat(np.arange(5), 200), 5)

    def top_share(alpha: float) -> float:
        c = counts(data, cut(data, "equal_label_skew", 10, 2, alpha=alpha))
        return float((c.max(axis=1) / c.sum(axis=1)).mean())

    assert top_share(0.1) > 0.6
    assert top_share(1000.0) < 0.25


def test_natural_sites_are_the_values_of_the_column() -> None:
    data = table(labels(3, 50, 0), 3, domains=4)
    shares = partition_rows(data, "natural", None, np.random.default_rng(0))
    assert [share.name for share in shares] == ["domain0", "domain1", "domain2", "domain3"]
    assert data.site is not None
    for share in shares:
        assert set(data.site[share.rows]) == {share.name}
    assert sum(len(share.rows) for share in shares) == len(data)


def test_natural_refuses_another_number_of_sites_than_there_are() -> None:
    with pytest.raises(PartitionError, match="has 2 values; leave sites out"):
        cut(table(labels(3, 50, 0), 3), "natural", 7, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.floats(0.1, 1), st.integers(0, 9999))
def test_vertical_sites_see_a_share_of_the_columns(sites: int, part: float, seed: int) -> None:
    data = table(labels(3, 50, 0), 3)
    shares = cut(data, "vertical", sites, seed, share_of_columns=part)
    each = max(1, round(part * 6))
    assert all(share.features is not None and len(set(share.features)) == each for share in shares)
    if each * sites >= 6:
        assert set().union(*(share.features for share in shares)) == set(range(6))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 15), st.integers(0, 9999))
def test_feature_shift_sites_lie_within_one_domain(domains: int, sites: int, seed: int) -> None:
    assume(sites >= domains)
    data = table(labels(3, 100, 0), 3, domains=domains)
    assert data.site is not None
    shares = cut(data, "feature_shift", sites, seed)
    assert all(len(set(data.site[share.rows])) == 1 for share in shares)
    assert {data.site[share.rows][0] for share in shares} == set(data.site)
    for domain in set(data.site):
        sizes = [len(s.rows) for s in shares if data.site[s.rows][0] == domain]
        assert max(sizes) - min(sizes) <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 4), st.integers(0, 9999))
def test_hybrid_sites_lie_within_one_domain_and_have_exactly_so_many_of_its_classes(
    domains: int, sites: int, each: int, seed: int
) -> None:
    assume(each * sites >= 4)
    y = np.repeat(np.arange(4), 40 * domains)
    data = replace(table(y, 4), site=np.array([f"domain{d}" for d in np.arange(len(y)) % domains]))
    assert data.site is not None
    shares = cut(data, "hybrid", None, seed, sites_per_domain=sites, classes_per_site=each)
    assert [share.name for share in shares] == [f"domain{d}-{place}" for d in range(domains) for place in range(sites)]
    assert np.array_equal(np.sort(np.concatenate([share.rows for share in shares])), np.arange(len(data)))
    assert all(set(data.site[share.rows]) == {share.name.split("-")[0]} for share in shares)
    assert ((counts(data, shares) > 0).sum(axis=1) == each).all()
    again = cut(data, "hybrid", len(shares), seed, sites_per_domain=sites, classes_per_site=each)
    assert [share.rows.tolist() for share in again] == [share.rows.tolist() for share in shares]


def test_hybrid_names_the_domain_that_lacks_classes() -> None:
    data = replace(table([0, 1, 2, 3] * 10 + [2] * 10, 4), site=np.repeat(["photo", "sketch"], [40, 10]))
    with pytest.raises(PartitionError, match=r"domain 'sketch', .*classes_per_site=2; the rows have 1 classes"):
        cut(data, "hybrid", None, 0)


def test_hybrid_keeps_a_patient_together_within_a_domain() -> None:
    y = np.repeat(np.arange(4), 60)
    patient = np.arange(len(y)) // 3
    data = replace(table(y, 4, group=patient), site=np.where(patient % 2, "east", "west"))
    shares = cut(data, "hybrid", None, 0, sites_per_domain=3)
    assert sum(len(share.rows) for share in shares) == len(y)
    seen = [set(patient[share.rows]) for share in shares]
    assert sum(map(len, seen)) == len(set().union(*seen))


@settings(max_examples=60, deadline=None)
@given(Drawn, st.integers(0, 9999))
def test_a_patient_is_never_at_two_sites(partition: tuple[str, dict[str, Any]], seed: int) -> None:
    name, params = partition
    y = labels(3, 400, seed)
    rng = np.random.default_rng(seed)
    patient = (y + (rng.random(len(y)) < 0.1)) % 3 * 40 + rng.integers(0, 40, len(y))
    data = table(y, 3, group=patient)
    shares = cut(data, name, 3, seed, **params)
    where = np.full(len(y), -1)
    for place, share in enumerate(shares):
        where[share.rows] = place
    assert (where >= 0).all()
    assert sum(len(share.rows) for share in shares) == len(y)
    units = list(zip(patient, data.site, strict=True)) if name == "feature_shift" else list(patient)
    homes: dict[Any, set[int]] = {}
    for unit, home in zip(units, where, strict=True):
        homes.setdefault(unit, set()).add(int(home))
    assert all(len(home) == 1 for home in homes.values())


def test_images_and_sequences_are_shared_out_too() -> None:
    y = np.arange(60, dtype=np.int64) % 3
    static, series = np.zeros((60, 2), np.float32), np.zeros((60, 5, 3), np.float32)
    data = Dataset("stays", "sequence", Sequences(static, series), y, ("a", "b", "c"))
    assert sum(len(s.rows) for s in cut(data, "dirichlet", 3, 0, min_rows=1)) == 60
    with pytest.raises(PartitionError, match="vertical needs a table"):
        cut(data, "vertical", 3, 0)


@pytest.mark.parametrize(
    ("name", "sites", "params", "words"),
    [
        ("dirichlt", 3, {}, "did you mean 'dirichlet'"),
        ("dirichlet", 3, {"alhpa": 1}, "did you mean 'alpha'"),
        ("dirichlet", 3, {"alpha": 0}, "alpha=0; use a number above 0"),
        ("dirichlet", 3, {"alpha": float("nan")}, "alpha=nan"),
        ("dirichlet", 3, {"min_rows": 0}, "min_rows=0; use at least 1"),
        ("dirichlet", 100, {}, "cannot give 100 sites 10 rows each"),
        ("dirichlet", 0, {}, "sites=0; use a whole number"),
        ("exdir", 3, {"classes_per_site": 9}, "classes_per_site=9; the rows have 4 classes"),
        ("exdir", 2, {"classes_per_site": 1}, "cannot hold 4 classes; use at least 4 sites"),
        ("pathological", 81, {"classes_per_site": 4}, "has 20 rows for 81 shards"),
        ("disjoint", 5, {}, "4 classes cannot be disjoint at 5 sites"),
        ("quantity", 3, {"exponent": -1}, "exponent=-1; use 0"),
        ("vertical", 3, {"share_of_columns": 0}, "share_of_columns=0; use a number"),
        ("feature_shift", 1, {}, "has 2 domains"),
        ("feature_shift", 81, {}, "only 80 rows"),
        ("feature_shift", 3, {"column": "sight"}, "did you mean 'site'"),
        ("hybrid", 10, {"column": "sight"}, "did you mean 'site'"),
        ("hybrid", 9, {}, "has 2 domains; leave sites out, there are 10"),
        ("hybrid", None, {"sites_per_domain": 0}, "sites_per_domain=0; use at least 1"),
        ("hybrid", None, {"classes_per_site": 5}, "domain 'domain0'.* classes_per_site=5; the rows have 4 classes"),
        ("hybrid", None, {"sites_per_domain": 1}, "sites_per_domain=1: 1 sites with 2 .* cannot hold 4 classes"),
        ("hybrid", None, {"sites_per_domain": 80}, "domain 'domain0'.* rows for .* shards; use fewer sites"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_remedy(
    name: str, sites: int | None, params: dict[str, Any], words: str
) -> None:
    with pytest.raises((PartitionError, ConfigError), match=words):
        cut(table(labels(4, 0, 0), 4), name, sites, 0, **params)


def test_a_data_set_without_a_site_column_says_so() -> None:
    data = Dataset("plain", "table", np.zeros((4, 1), np.float32), np.array([0, 1, 0, 1]), ("a", "b"))
    with pytest.raises(PartitionError, match="no column 'site' to make sites from"):
        partition_rows(data, "natural", None, np.random.default_rng(0))


def test_parameters_come_from_the_signature() -> None:
    assert partition_parameters("exdir") == {"classes_per_site": 3, "alpha": 1.0, "min_rows": 10}
    assert all(PARTITIONS[name].__doc__ for name in PARTITIONS)
