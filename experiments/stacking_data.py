"""The three tables of the stacking study, prepared as its paper does, and its federations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Dataset, Feature, load, partition_rows

DATASETS = ("adult", "covertype", "credit_default")
NATURAL = {"adult": "site", "covertype": "site", "credit_default": "EDUCATION"}
SCENARIOS: dict[str, list[dict[str, Any]]] = {
    "quantity": [{"power": power, "min_rows": 500} for power in (0.25, 0.5, 0.75, 1.0)],
    "equal_label_skew": [{"alpha": alpha, "all_rows": False} for alpha in (0.5, 1.0, 10.0, 100.0)],
    "vertical": [{"share_of_columns": share, "same_rows": True} for share in (0.25, 0.5, 0.75)],
    "natural": [{}],
}


@dataclass(frozen=True)
class Sizes:
    """``rows`` of all sites together at most, by scenario (none said: all); ``least`` rows of a natural site."""

    sites: int
    trees: int
    rows: dict[str, int]
    repeats: int
    least: int


FULL = Sizes(10, 100, {"vertical": 50_000}, 5, 500)  # as published
FAST = Sizes(6, 20, {"quantity": 6_000, "equal_label_skew": 10_000, "vertical": 1_500, "natural": 8_000}, 1, 200)


@dataclass(frozen=True)
class Member:
    """One site: its rows and the columns that it sees."""

    name: str
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]


@dataclass(frozen=True)
class Federation:
    """All rows with categories as columns of 0 and 1 (``is_number`` marks the others), and who has which of them."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    is_number: NDArray[np.bool_]
    members: list[Member]


def federation(name: str, scenario: str, setting: dict[str, Any], seed: int, sizes: Sizes) -> Federation:
    rng = np.random.default_rng([seed, DATASETS.index(name)])
    data, column = _prepared(name), NATURAL[name]
    if scenario == "natural":
        data = _by_column(data, column)
        setting = {**setting, "column": column}
    most = sizes.rows.get(scenario, len(data))
    if len(data) > most:
        data = data.take(np.sort(rng.choice(len(data), most, replace=False)))
    if scenario == "natural":
        data = _large_enough(data, column, sizes.least)
    shares = partition_rows(data, scenario, None if scenario == "natural" else sizes.sites, rng, **setting)
    if scenario == "natural":
        data = _without(data, [column])
    X, owner, is_number = _one_hot(data)
    members = [
        Member(
            share.name,
            share.rows,
            np.arange(X.shape[1]) if share.features is None else np.flatnonzero(np.isin(owner, share.features)),
        )
        for share in shares
    ]
    return Federation(X, data.y, is_number, members)


def settings_of(scenario: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for setting in SCENARIOS[scenario]:
        yield str(next(iter(setting.values()), "all")), setting


def _prepared(name: str) -> Dataset:
    """Adult without fnlwgt, country and rows with missing values; Covertype with its two commonest classes, soil types
    as one column, and without the area; credit default as it is."""
    data = load(name)
    if name == "adult":
        data = _without(data, ["fnlwgt"])
        data = _without(data.take(np.flatnonzero(~np.isnan(data.X).any(axis=1))), ["native_country"])
    if name == "covertype":
        data = data.take(np.flatnonzero(data.y < 2))
        soils = [place for place, feature in enumerate(data.features) if feature.name.startswith("Soil_Type")]
        soil = data.X[:, soils].argmax(axis=1).astype(np.float32)
        merged = Feature("Soil_Type", tuple(str(place) for place in range(1, len(soils) + 1)))
        numbers = [place for place, f in enumerate(data.features) if not f.name.startswith(("Soil_", "Wilderness_"))]
        data = replace(
            data,
            X=np.column_stack([data.X[:, numbers], soil]),
            features=(*(data.features[place] for place in numbers), merged),
            classes=data.classes[:2],
        )
    return data


def _by_column(data: Dataset, column: str) -> Dataset:
    """Rows whose natural site is known."""
    values = data.column(column)
    assert values is not None
    return data.take(np.flatnonzero(~np.isin(values, ["unknown", "missing"])))


def _large_enough(data: Dataset, column: str, least: int) -> Dataset:
    """Natural sites of at least so many rows that have both classes."""
    values = data.column(column)
    assert values is not None
    keep = [
        name
        for name in np.unique(values)
        if (values == name).sum() >= least and np.bincount(data.y[values == name], minlength=2).min() >= 10
    ]
    return data.take(np.flatnonzero(np.isin(values, keep)))


def _without(data: Dataset, names: list[str]) -> Dataset:
    keep = [place for place, feature in enumerate(data.features) if feature.name not in names]
    return replace(data, X=data.X[:, keep], features=tuple(data.features[place] for place in keep))


def _one_hot(data: Dataset) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]]:
    """The columns, which feature each is of, and whether it is a number."""
    columns, owner, is_number = [], [], []
    for place, feature in enumerate(data.features):
        values = data.X[:, place]
        made = [values == code for code in range(len(feature.categories))] if feature.is_category else [values]
        columns += made
        owner += [place] * len(made)
        is_number += [not feature.is_category] * len(made)
    return np.column_stack(columns).astype(np.float32), np.array(owner), np.array(is_number)
