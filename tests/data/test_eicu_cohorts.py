"""eICU: who is in a cohort, with which label, and what is said of their hours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eicu_tables import Tables, stay, twenty_stays, write

from peerwise.data import Dataset, Sequences, load, make_sites
from peerwise.errors import DataError

DATA = os.environ.get("PEERWISE_DATA")
needs_demo = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "eicu_demo").exists(), reason="PEERWISE_DATA names no folder with eicu_demo"
)
pytest.importorskip("duckdb")
SMALL = {"min_stays": 1, "min_events": 0}


def read(folder: Path, **options: Any) -> Dataset:
    return load("eicu", folder, **{**SMALL, **options})


def rows(data: Dataset) -> Sequences:
    assert isinstance(data.X, Sequences)
    return data.X


def value(data: Dataset, patient: str, name: str) -> Any:
    """A static number, or the hours of a channel."""
    assert data.group is not None
    place, column = list(data.group).index(patient), [feature.name for feature in data.features].index(name)
    width = rows(data).static.shape[1]
    return rows(data).static[place, column] if column < width else rows(data).series[place, :, column - width]


def test_mortality_is_of_adults_whose_end_is_known_and_who_stayed_through_the_window(tmp_path: Path) -> None:
    told = [
        stay(1, hospitaldischargestatus="Expired", age="> 89"),
        stay(2, age="17"),
        stay(3, age=""),
        stay(4, hospitaldischargestatus=""),
        stay(5, unitdischargeoffset=24 * 60 - 1),
        stay(6, unitdischargeoffset=24 * 60, age="18"),
    ]
    data = read(write(tmp_path, {"patient": told}), window=24)
    assert data.group is not None
    assert data.group.tolist() == ["p1", "p6"]
    assert data.y.tolist() == [1, 0]
    assert data.classes == ("survived", "died")
    assert (value(data, "p1", "age"), value(data, "p6", "age")) == (90, 18)


def test_shock_is_the_first_vasopressor_after_the_window_and_before_the_unit_is_left(tmp_path: Path) -> None:
    tables: Tables = {
        "patient": [stay(number, hospitalid=1 if number < 20 else 2) for number in [*range(1, 16), 20]],
        "infusiondrug": [
            stay(1, infusionoffset=240),
            stay(2, infusionoffset=239),
            stay(3, infusionoffset=500, drugname="Dobutamine (ml/hr)"),
            stay(4, infusionoffset=500, drugrate="0"),
            stay(5, infusionoffset=6000),  # the unit is left at minute 6000
            stay(6, infusionoffset=-5),
            stay(13, infusionoffset=500, drugrate="OFF"),
            stay(14, infusionoffset=500, drugrate="ERROR"),
            stay(15, infusionoffset=500, drugrate=""),  # given, at a rate that was not written down
        ],
        "medication": [
            stay(7, drugstartoffset=300),
            stay(8, drugstartoffset=300, drugordercancelled="Yes"),
            stay(9, drugstartoffset=300, prn="Yes"),
            stay(10, drugstartoffset=300, routeadmin="NASAL", drugname="PHENYLEPHRINE SPRAY"),
            stay(11, drugstartoffset=300, drugname="", drughiclseqno="2051", routeadmin="INTRAVENOUS"),
            stay(12, drugstartoffset=300, drugname="LIDOCAINE-EPINEPHRINE", drughiclseqno="1"),
        ],
    }
    data = read(write(tmp_path, tables), task="shock")
    assert data.group is not None
    # Nobody of hospital 2 has any row, so that nothing can be said of it; 2 and 6 were in shock too early.
    assert dict(zip(data.group.tolist(), data.y.tolist(), strict=True)) == {
        "p1": 1, "p3": 0, "p4": 0, "p5": 0, "p7": 1, "p8": 0, "p9": 0, "p10": 0, "p11": 1, "p12": 0,
        "p13": 0, "p14": 0, "p15": 1,
    }  # fmt: skip


def test_an_hour_has_its_mean_and_a_level_holds_until_it_is_measured_again(tmp_path: Path) -> None:
    tables = twenty_stays()
    tables["vitalAperiodic"] = [
        stay(1, observationoffset=-1, noninvasivemean=50),  # before admission
        stay(1, observationoffset=60, noninvasivemean=80),
        stay(1, observationoffset=119, noninvasivemean=100),
        stay(1, observationoffset=119, noninvasivemean=100),  # the same row twice counts once
        stay(1, observationoffset=90, noninvasivemean=1000),  # nobody's pressure
        stay(1, observationoffset=239, noninvasivemean=70),
        stay(1, observationoffset=240, noninvasivemean=20),  # the window is over
    ]
    data = read(write(tmp_path, tables), window=4)
    np.testing.assert_array_equal(value(data, "p1", "cuff_mean"), [np.nan, 90, 90, 70])
    np.testing.assert_array_equal(value(data, "p1", "cuff_mean_measured"), [0, 1, 0, 1])


def test_amounts_are_added_up_and_nothing_is_nothing(tmp_path: Path) -> None:
    tables = twenty_stays()
    tables["intakeOutput"] = [
        stay(1, intakeoutputoffset=0, cellvaluenumeric=100),
        stay(1, intakeoutputoffset=59, cellvaluenumeric=50.5),
        stay(1, intakeoutputoffset=59, cellvaluenumeric=50.5),
        stay(1, intakeoutputoffset=130, cellvaluenumeric=10, intakeoutputentryoffset=9999),  # written down too late
    ]
    data = read(write(tmp_path, tables), window=4)
    np.testing.assert_array_equal(value(data, "p1", "urine"), [150.5, 0, 0, 0])
    np.testing.assert_array_equal(value(data, "p2", "urine"), [0, 0, 0, 0])


def test_every_table_is_used_where_it_is_there(tmp_path: Path) -> None:
    data = read(write(tmp_path, twenty_stays()), window=24)
    told = {"heart_rate": 80, "nurse_heart_rate": 80, "lactate": 2, "exam_eyes": 4, "peep": 5, "drip_sedation": 1}
    assert {name: value(data, "p3", name)[0] for name in told} == told
    assert value(data, "p3", "admitted_for_sepsis") == 1
    assert value(data, "p3", "gender=Female") == 1
    assert value(data, "p3", "unittype=MICU") == 1
    assert np.isnan(value(data, "p3", "apache_wbc")), "-1 stands for what was not measured"
    assert data.source.endswith("done without: none")


def test_a_stay_without_any_row_is_kept_with_nothing_known(tmp_path: Path) -> None:
    tables = twenty_stays() | {"vitalAperiodic": []}
    data = read(write(tmp_path, tables), window=4)
    assert np.isnan(value(data, "p4", "cuff_mean")).all()
    assert len(data) == 20


def test_sites_are_hospitals_or_regions_that_are_large_enough(tmp_path: Path) -> None:
    tables = twenty_stays()
    tables["patient"] += [stay(100 + number, hospitalid=3) for number in range(8)]  # nobody died there
    write(tmp_path, tables)
    assert sites(read(tmp_path)) == {"1": 10, "2": 10, "3": 8}
    assert sites(read(tmp_path, min_stays=9)) == {"1": 10, "2": 10}
    assert sites(read(tmp_path, min_events=1)) == {"1": 10, "2": 10}
    assert sites(read(tmp_path, sites="region")) == {"South": 10, "West": 10}
    assert sites(read(tmp_path, top=2)) == {"1": 10, "2": 10}
    assert read(tmp_path, sites="region").columns["hospital"].tolist() == ["1"] * 10 + ["2"] * 10
    with pytest.raises(DataError, match=r"none of 3 sites has 150 stays.*largest has 10"):
        load("eicu", tmp_path)


def sites(data: Dataset) -> dict[str, int]:
    assert data.site is not None
    names, counts = np.unique(data.site, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_the_same_tables_give_the_same_numbers_in_any_order_of_rows(tmp_path: Path) -> None:
    tables = twenty_stays()
    once = read(write(tmp_path, tables), window=4)
    other = read(write(tmp_path / "turned", {name: told[::-1] for name, told in tables.items()}), window=4)
    np.testing.assert_array_equal(rows(once).static, rows(other).static)
    np.testing.assert_array_equal(rows(once).series, rows(other).series)


@needs_demo
@pytest.mark.parametrize(
    ("task", "window", "stays", "events"),
    [("mortality", 24, 1467, 124), ("mortality", 48, 837, 92), ("shock", 4, 1776, 109), ("shock", 12, 1572, 66)],
)
def test_the_demo_has_its_cohorts(task: str, window: int, stays: int, events: int) -> None:
    data = load("eicu", DATA, task=task, window=window, sites="region", min_stays=50)
    assert (len(data), int(data.y.sum())) == (stays, events)
    assert list(sites(data)) == ["Midwest", "Northeast", "South", "West"]
    assert rows(data).series.shape[:2] == (stays, window)
    assert "lab, nurseCharting, vitalPeriodic" in data.source


@needs_demo
def test_patients_of_the_demo_stay_together_and_events_are_shared_out_evenly() -> None:
    data = load("eicu", DATA, task="mortality", window=24, sites="region", min_stays=50)
    assert data.group is not None
    for seed in range(3):
        for site in make_sites(data, seed=seed):
            patients = [set(data.group[site.index[part]]) for part in ("train", "val", "test")]
            assert sum(map(len, patients)) == len(set.union(*patients))
            events = np.array([part.y.sum() for part in (site.train, site.val, site.test)])
            assert np.abs(events - events.sum() * np.array([0.6, 0.2, 0.2])).max() <= 1.5
