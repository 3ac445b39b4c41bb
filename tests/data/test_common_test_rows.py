"""One test set for all sites: at none of them, the official one where there is one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peerwise.data import Dataset, load, make_sites
from peerwise.errors import DataError


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def test_all_sites_are_tested_on_the_same_rows_which_nobody_has(digits: Dataset) -> None:
    sites = make_sites(digits, "dirichlet", 5, seed=2, test="common", public=100)
    tested = sites[0].index["test"]
    at_home = [site.index[part] for site in sites for part in ("train", "val")]
    everything = np.concatenate([tested, sites[0].public_set.rows, *at_home])
    assert len(tested) == round(0.2 * len(digits))
    assert np.array_equal(np.sort(everything), np.arange(len(digits)))
    assert all(np.array_equal(site.index["test"], tested) for site in sites)
    assert all(np.array_equal(site.test.X, digits.X[tested]) for site in sites)
    shares = [len(site.val) / (len(site.val) + len(site.train)) for site in sites]
    assert np.allclose(shares, 0.25, atol=0.03)


def test_the_official_test_part_is_the_common_one(digits: Dataset) -> None:
    official = np.where(np.arange(len(digits)) % 7 == 0, "test", "train")
    sites = make_sites(replace(digits, columns={"official_split": official}), "disjoint", 5, test="common")
    assert np.array_equal(sites[3].index["test"], np.flatnonzero(official == "test"))


def test_patients_in_the_common_test_rows_are_at_no_site() -> None:
    heart = load("heart_disease")
    heart = replace(heart, group=np.arange(len(heart)) // 3)
    sites = make_sites(heart, "natural", test="common")
    at_home = np.concatenate([heart.group[site.index[part]] for site in sites for part in ("train", "val")])
    assert not np.isin(heart.group[sites[0].index["test"]], at_home).any()


def test_sites_that_see_some_columns_are_tested_on_those(digits: Dataset) -> None:
    columns = load("heart_disease")
    sites = make_sites(columns, "vertical", 3, test="common")
    for site in sites:
        names = [feature.name for feature in columns.features]
        seen = [names.index(feature.name) for feature in site.features]
        assert np.array_equal(site.test.X, columns.X[site.index["test"]][:, seen], equal_nan=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": "global"}, "'global': expected 'site'"),
        ({"test": "common", "fractions": (0.7, 0.3, 0.0)}, "finds 0 test rows"),
        ({"test": "common", "fractions": (0.7, 0.3, 0.3)}, "sum to 1"),
    ],
)
def test_what_cannot_be_a_common_test_set_is_refused(digits: Dataset, settings: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_sites(digits, "dirichlet", 3, **settings)
