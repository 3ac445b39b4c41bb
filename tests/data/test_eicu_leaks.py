"""eICU: nothing after the window and nothing that tells of the end is a feature."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from eicu_tables import ENTERED, OFFSETS, stay, twenty_stays, write
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Dataset, Sequences, load

DATA = os.environ.get("PEERWISE_DATA")
pytest.importorskip("duckdb")
SMALL = {"min_stays": 1, "min_events": 0}
# By table, a row that says something else than those that are there.
OTHER: dict[str, dict[str, Any]] = {
    "vitalAperiodic": {"noninvasivemean": 77},
    "vitalPeriodic": {"heartrate": 177},
    "nurseCharting": {"nursingchartvalue": "177"},
    "lab": {"labresult": 17},
    "physicalExam": {"physicalexamvalue": "1"},
    "intakeOutput": {"cellvaluenumeric": 17},
    "respiratoryCharting": {"respchartvalue": "17"},
    "infusiondrug": {"drugname": "Insulin (units/hr)"},  # a pressor would be the label
    "admissionDx": {"admitdxpath": "admission diagnosis|Elective|Yes"},
    "pastHistory": {"pasthistorypath": "notes/Organ Systems/Neurologic/Dementia/dementia"},
}


def same_features(one: Dataset, other: Dataset) -> bool:
    assert isinstance(one.X, Sequences)
    assert isinstance(other.X, Sequences)
    return (
        one.features == other.features
        and np.array_equal(one.X.static, other.X.static, equal_nan=True)
        and np.array_equal(one.X.series, other.X.series, equal_nan=True)
    )


@pytest.fixture(scope="module")
def known(tmp_path_factory: Any) -> dict[str, Dataset]:
    folder = write(tmp_path_factory.mktemp("eicu"), twenty_stays())
    return {task: load("eicu", folder, task=task, window=4, **SMALL) for task in ("mortality", "shock")}


@settings(max_examples=12)
@given(data=st.data())
def test_no_row_after_the_window_changes_anything(known: dict[str, Dataset], data: Any) -> None:
    """Any table, any stay, any minute from the end of the window on: measured late, or only written down late."""
    table = data.draw(st.sampled_from(sorted(OFFSETS)))
    minute = data.draw(st.integers(240, 5999))
    late = stay(data.draw(st.integers(0, 19)), **OTHER[table])
    if table in ENTERED and data.draw(st.booleans()):
        late[ENTERED[table]] = minute
    else:
        late[OFFSETS[table]] = minute
    tables = twenty_stays()
    tables[table].append(late)
    with tempfile.TemporaryDirectory() as place:
        folder = write(Path(place), tables)
        for task, before in known.items():
            assert same_features(before, load("eicu", folder, task=task, window=4, **SMALL))


def test_a_row_within_the_window_does_change_something(known: dict[str, Dataset], tmp_path: Path) -> None:
    """The test above would pass if nothing were ever read."""
    for table, offset in OFFSETS.items():
        tables = twenty_stays()
        entered = {ENTERED[table]: 101} if table in ENTERED else {}
        tables[table].append(stay(3, **{**OTHER[table], offset: 100, **entered}))
        after = load("eicu", write(tmp_path / table, tables), task="mortality", window=4, **SMALL)
        assert not same_features(known["mortality"], after), table


@pytest.mark.parametrize(("task", "window"), [("shock", 4), ("shock", 12), ("mortality", 23)])
def test_worst_values_of_the_first_day_are_not_known_before_it_is_over(tmp_path: Path, task: str, window: int) -> None:
    """APACHE's values have no minute: the worst of 24 hours, one of which may be after the window."""
    tables = twenty_stays()
    before = load("eicu", write(tmp_path / "one", tables), task=task, window=window, **SMALL)
    tables["apacheApsVar"] = [stay(number, wbc=30, urine=5, meanbp=40) for number in range(20)]
    after = load("eicu", write(tmp_path / "two", tables), task=task, window=window, **SMALL)
    assert same_features(before, after)
    assert not any(feature.name.startswith("apache") for feature in before.features)


def test_worst_values_of_the_first_day_are_known_after_it(tmp_path: Path) -> None:
    tables = twenty_stays()
    tables["apacheApsVar"] = [stay(number, wbc=30) for number in range(20)]
    data = load("eicu", write(tmp_path, tables), window=24, **SMALL)
    assert isinstance(data.X, Sequences)
    names = [feature.name for feature in data.features]
    assert (data.X.static[:, names.index("apache_wbc")] == 30).all()


def leaking(column: str) -> bool:
    """What the publisher's columns tell of the end of a stay, by name."""
    told = ("discharge", "died", "actual", "predicted", "hspxlos", "unabridged", "los")
    return any(word in column.lower() for word in told)


def scrambled(folder: Path, rng: np.random.Generator) -> set[str]:
    """Turn every leaking column of every table upside down; those that make the cohort only as far as it stays."""
    done = set()
    for path in sorted(folder.glob("*.csv*")):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        for column in [column for column in frame if leaking(column)]:
            done.add(column)
            if column == "unitdischargeoffset":  # who stayed long enough stays longer
                minutes = frame[column].astype(int)
                frame[column] = (minutes + np.where(minutes >= 1440, 7777, 0)).astype(str)
            elif column == "hospitaldischargestatus":  # who has a label has another
                frame[column] = frame[column].replace({"Alive": "Expired", "Expired": "Alive"})
            else:
                frame[column] = rng.permutation(frame[column].to_numpy())
        frame.to_csv(path, index=False)
    return done


@pytest.mark.skipif(not DATA or not (Path(DATA) / "eicu_demo").exists(), reason="PEERWISE_DATA has no eicu_demo")
def test_no_column_that_tells_of_the_end_is_used(tmp_path: Path) -> None:
    source = Path(DATA or "") / "eicu_demo" / "csv"
    for name in ("patient", "hospital", "apacheApsVar", "apachePredVar", "apachePatientResult", "infusiondrug",
                 "admissionDx", "pastHistory", "vitalAperiodic"):  # fmt: skip
        shutil.copy(source / f"{name}.csv.gz", tmp_path)
    options = {"window": 24, "sites": "region", "min_stays": 50}
    before = load("eicu", tmp_path, **options)
    done = scrambled(tmp_path, np.random.default_rng(0))
    published = {"diedinhospital", "actualhospitalmortality", "predictedhospitalmortality", "dischargeweight"}
    assert published | {"var03hspxlos", "hospitaldischargeoffset", "unitdischargestatus"} <= done
    after = load("eicu", tmp_path, **options)
    assert same_features(before, after)
    np.testing.assert_array_equal(after.y, 1 - before.y)


def test_leaking_columns_are_not_even_read() -> None:
    from peerwise.data.loaders.eicu.tables import TABLES

    read = {name: [column for column in table.columns if leaking(column)] for name, table in TABLES.items()}
    assert read.pop("outcome") == ["hospitaldischargestatus", "unitdischargeoffset"]
    assert not any(read.values()), read
    assert "apachePatientResult" not in {table.file for table in TABLES.values()}
