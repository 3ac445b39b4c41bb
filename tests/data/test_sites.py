"""Sites: disjoint rows, public rows, seeds, models, features."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from peerwise.data import Dataset, Sequences, Site, load, make_sites, work_anew
from peerwise.data.partitions import Share
from peerwise.errors import DataError, PartitionError


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


@pytest.fixture(scope="module")
def heart() -> Dataset:
    return load("heart_disease")


def test_every_row_is_at_one_site_in_one_part(digits: Dataset) -> None:
    sites = make_sites(digits, "dirichlet", 8, seed=3, alpha=0.3)
    rows = np.concatenate([part for site in sites for part in site.index.values()])
    assert np.array_equal(np.sort(rows), np.arange(len(digits)))
    for site in sites:
        assert site.classes == digits.classes
        for name in ("train", "val", "test"):
            part = getattr(site, name)
            assert np.array_equal(part.y, digits.y[site.index[name]])
            assert np.array_equal(part.X, digits.X[site.index[name]])


def test_a_seed_repeats_the_sites_and_another_does_not(digits: Dataset) -> None:
    first, again, other = (make_sites(digits, "exdir", 6, seed=seed, min_rows=5) for seed in (1, 1, 2))
    assert all(np.array_equal(a.index["train"], b.index["train"]) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a.index["train"], b.index["train"]) for a, b in zip(first, other, strict=True))


def test_hospitals_are_the_natural_sites(heart: Dataset) -> None:
    sites = {site.name: site for site in make_sites(heart, "natural")}
    sizes = {name: sum(len(part) for part in site.index.values()) for name, site in sites.items()}
    assert sizes == {"cleveland": 303, "hungarian": 294, "long_beach": 200, "switzerland": 123}
    assert [len(sites["long_beach"].index[part]) for part in ("train", "val", "test")] == [120, 40, 40]


def test_public_rows_are_common_unlabelled_and_at_no_site(digits: Dataset) -> None:
    sites = make_sites(digits, "dirichlet", 5, public=200)
    taken = np.concatenate([part for site in sites for part in site.index.values()])
    left = np.setdiff1d(np.arange(len(digits)), taken)
    assert len(left) == 200
    assert all(np.array_equal(site.public, digits.X[left]) for site in sites)
    assert make_sites(digits, "dirichlet", 5)[0].public is None


def test_public_patients_are_at_no_site(heart: Dataset) -> None:
    patients = np.arange(len(heart)) // 4
    sites = make_sites(replace(heart, group=patients), "dirichlet", 3, public=50)
    at_sites = {int(patients[row]) for site in sites for part in site.index.values() for row in part}
    public = len(sites[0].public) if sites[0].public is not None else 0
    assert 50 <= public < 54
    assert len(at_sites) == len(np.unique(patients)) - public // 4


@pytest.mark.parametrize("public", [-1, 1797, 5000])
def test_more_public_rows_than_there_are_are_refused(digits: Dataset, public: int) -> None:
    with pytest.raises(PartitionError, match=f"public={public}"):
        make_sites(digits, public=public)


def test_a_vertical_site_sees_its_columns_only(heart: Dataset) -> None:
    for site in make_sites(heart, "vertical", 4, share_of_columns=0.4, public=20):
        names = [feature.name for feature in site.features]
        assert len(names) == 5
        places = [[f.name for f in heart.features].index(name) for name in names]
        for X in (site.train.X, site.val.X, site.test.X, site.public):
            assert not isinstance(X, Sequences)
            assert X is not None
            assert X.shape[1] == 5
        assert np.array_equal(site.train.X, heart.X[site.index["train"]][:, places], equal_nan=True)


def test_models_go_round_or_to_everyone(digits: Dataset) -> None:
    cycle = make_sites(digits, "quantity", 3, recipes=("forest", "mlp"), assign="cycle")
    assert [site.recipes for site in cycle] == [("forest",), ("mlp",), ("forest",)]
    assert make_sites(digits, "quantity", 2, recipes=["forest", "mlp"])[1].recipes == ("forest", "mlp")
    with pytest.raises(DataError, match="use 'all' or 'cycle'"):
        make_sites(digits, assign="round")  # type: ignore[arg-type]


def test_a_site_draws_the_same_numbers_in_another_process(heart: Dataset) -> None:
    site = make_sites(heart, "natural", seed=5)[0]
    code = (
        "from peerwise.data import load, make_sites;"
        "import sys; sys.stdout.write(str(make_sites(load('heart_disease'), 'natural', seed=5)[0].seed_for('train')))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert int(answer.stdout) == site.seed_for("train")
    assert site.rng("train").integers(1 << 30) == site.rng("train").integers(1 << 30)
    assert site.seed_for("train") != site.seed_for("folds")


def test_sequences_keep_static_and_series_together() -> None:
    number = np.arange(90, dtype=np.float32)
    X = Sequences(number[:, None], np.repeat(number[:, None, None], 4, axis=1))
    data = Dataset("stays", "sequence", X, np.arange(90) % 2, ("alive", "died"))
    for site in make_sites(data, "dirichlet", 3, alpha=5.0, public=6):
        assert isinstance(site.train.X, Sequences)
        assert np.array_equal(site.train.X.static[:, 0], site.index["train"])
        assert np.array_equal(site.train.X.series[:, 2, 0], site.index["train"])


def test_groups_are_split_neither_over_sites_nor_within_one(heart: Dataset) -> None:
    patients = np.random.default_rng(0).integers(0, 300, len(heart))
    seen: dict[int, tuple[str, str]] = {}
    for site in make_sites(replace(heart, group=patients), "dirichlet", 4):
        for part, rows in site.index.items():
            for patient in patients[rows].tolist():
                assert seen.setdefault(patient, (site.name, part)) == (site.name, part)


def test_a_time_column_orders_every_site(heart: Dataset) -> None:
    moments = np.random.default_rng(0).random(len(heart))
    for site in make_sites(replace(heart, time=moments), "natural"):
        assert moments[site.index["train"]].max() < moments[site.index["val"]].min()
        assert moments[site.index["val"]].max() < moments[site.index["test"]].min()


def test_rows_of_one_class_only_are_refused(heart: Dataset) -> None:
    with pytest.raises(DataError, match=r"all 509 rows are of one class \['disease'\]"):
        make_sites(heart.take(heart.y == 1), "natural")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.zeros(919, np.int64)}, "920 rows of inputs but 919 labels"),
        ({"y": np.full(920, 2)}, "labels run from 2 to 2, expected codes 0 to 1"),
        ({"y": np.full(920, -1)}, "labels run from -1"),
        ({"y": np.zeros(920)}, "y is float64, expected integer codes"),
        ({"classes": ("disease",), "y": np.zeros(920, np.int64)}, r"1 class \['disease'\]; at least two"),
        ({"kind": "image"}, r"kind is 'image'; a table is \(n, features\)"),
        ({"kind": "sequence"}, "needs Sequences"),
        ({"features": ()}, ""),
        ({"site": np.array(["a"])}, "'site' has 1 values for 920 rows"),
        ({"natural_split": np.full(920, 3, np.int8)}, r"split holds \[3\]"),
    ],
)
def test_a_data_set_checks_itself(heart: Dataset, change: dict[str, object], words: str) -> None:
    if not words:
        assert replace(heart, **change).features == ()  # type: ignore[arg-type]
        return
    with pytest.raises(DataError, match=words):
        replace(heart, **change)  # type: ignore[arg-type]


def test_a_copy_with_other_values_shares_the_rest(heart: Dataset) -> None:
    site = make_sites(heart, "natural", seed=4)[0]
    moved = site.replace(seed=5, state={})
    assert (moved.seed, site.seed) == (5, 4)
    assert moved.data is site.data
    assert moved.state is not site.state
    blind = site.replace(val=site.val.take(slice(0, 0)), keep=work_anew)
    assert (len(blind.val), blind.train) == (0, site.train)
    assert blind.state is site.state
    with pytest.raises(TypeError, match="vall"):
        site.replace(vall=site.val)


def test_a_site_does_not_change_but_for_its_state(heart: Dataset) -> None:
    site = make_sites(heart, "natural")[0]
    for name in (each.name for part in (site.data, site.context) for each in fields(part)):
        with pytest.raises(AttributeError, match=name):
            setattr(site, name, None)
    site.state = {"w": 1}
    assert site.state == {"w": 1}


def test_what_a_site_is_made_from_is_read_there(heart: Dataset) -> None:
    first = make_sites(heart, "natural", recipes=("logistic",), seed=4)[0]
    given = {name: getattr(first, name) for name in inspect.signature(Site).parameters}
    given |= {"device": "cuda", "state": {"w": 1}, "opener": print, "secret": bytes(16), "class_balance": "balanced"}
    for site in (Site(**given), Site(*given.values())):
        assert all(getattr(site, name) is value for name, value in given.items())


def test_a_site_travels_without_what_works_in_one_process_alone(heart: Dataset) -> None:
    site = make_sites(heart, "natural", seed=4)[0].replace(keep=lambda parts, work: {}, opener=lambda data, name: None)
    there = pickle.loads(pickle.dumps(site))  # noqa: S301
    assert (there.keep, there.opener) == (work_anew, None)
    assert there.rng("x").integers(2**40) == site.rng("x").integers(2**40)
    assert np.array_equal(there.train.X, site.train.X, equal_nan=True)


@pytest.mark.parametrize("shares", [([0, 100], [50, 150]), ([0, 150], [149, 299]), ([0, 300], [0, 2])])
def test_rows_that_a_partition_gives_to_two_sites_are_refused(digits: Dataset, shares: Any) -> None:
    few = digits.take(slice(0, 300))

    def overlapping(dataset: Dataset, sites: int, rng: np.random.Generator) -> list[Share]:
        return [Share(np.arange(*span), f"site-{place}") for place, span in enumerate(shares)]

    with pytest.raises(DataError, match=r"gives the same rows to several sites.*test='common'"):
        make_sites(few, overlapping)
    assert len(make_sites(digits, "vertical", 2, same_rows=True, test="common")) == 2


def test_a_site_that_a_partition_calls_by_no_text_is_refused(digits: Dataset) -> None:
    def swapped(data: Dataset, sites: int, rng: np.random.Generator) -> list[Share]:
        return [Share("north", np.arange(10))]  # type: ignore[arg-type]

    with pytest.raises(PartitionError, match=r"calls a site \[0 1 2.*expected .*Share\(rows, name\)"):
        make_sites(digits, swapped, 1)


def test_a_row_that_a_partition_gives_twice_to_one_site_is_refused(digits: Dataset) -> None:
    def doubled(dataset: Dataset, sites: int, rng: np.random.Generator) -> list[Share]:
        return [Share(np.array([0, 1, 2, 3, 3]), "north"), Share(np.array([4, 5, 6]), "south")]

    with pytest.raises(PartitionError, match="gives site 'north' a row twice"):
        make_sites(digits, doubled, test="common")
