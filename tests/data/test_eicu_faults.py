"""eICU: tables that are missing or broken, options that cannot be, and a database larger than memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eicu_tables import twenty_stays, write

from peerwise import simulate
from peerwise.data import load
from peerwise.errors import BrokenFile, ConfigError, DataError, MissingData

pytest.importorskip("duckdb")
SMALL = {"min_stays": 1, "min_events": 0, "window": 4}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "eicu", twenty_stays())


def test_without_patients_there_is_nothing(folder: Path) -> None:
    (folder / "patient.csv.gz").unlink()
    with pytest.raises(MissingData, match=r"physionet.org.*PEERWISE_DATA"):
        load("eicu", folder, **SMALL)


def test_tables_that_are_missing_are_left_out_and_named(folder: Path) -> None:
    (folder / "lab.csv.gz").unlink()
    (folder / "vitalPeriodic.csv.gz").unlink()
    data = load("eicu", folder, **SMALL)
    assert data.source.endswith("lab, vitalPeriodic")
    assert not {"lactate", "heart_rate"} & {feature.name for feature in data.features}


def test_shock_needs_a_table_that_tells_of_drugs(folder: Path) -> None:
    (folder / "medication.csv.gz").unlink()
    with pytest.raises(DataError, match="all 20 rows are of one class"):
        simulate("eicu", data_dir=folder, options={**SMALL, "task": "shock"}, models=["cnn1d"], seeds=1)
    (folder / "infusiondrug.csv.gz").unlink()
    with pytest.raises(MissingData, match="neither infusionDrug nor medication"):
        load("eicu", folder, task="shock", **SMALL)


def test_regions_need_the_table_of_hospitals(folder: Path) -> None:
    (folder / "hospital.csv.gz").unlink()
    assert len(load("eicu", folder, **SMALL)) == 20
    with pytest.raises(MissingData, match="use sites='hospital'"):
        load("eicu", folder, sites="region", **SMALL)


def test_a_file_that_was_cut_short_is_refused_by_name(folder: Path) -> None:
    path = folder / "vitalAperiodic.csv.gz"
    rows = "".join(f"{number},{number % 20},{number % 240},120,70,90\n" for number in range(200_000))
    header = "id,patientunitstayid,observationoffset,noninvasivesystolic,noninvasivediastolic,noninvasivemean\n"
    whole = gzip.compress((header + rows).encode())
    path.write_bytes(whole)
    assert len(load("eicu", folder, **SMALL)) == 20
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BrokenFile, match=r"vitalAperiodic.csv.gz cannot be read.*fetch it again"):
        load("eicu", folder, **SMALL)


def test_a_file_that_is_no_table_is_refused_by_name(folder: Path) -> None:
    (folder / "lab.csv.gz").write_bytes(b"not gzip at all")
    with pytest.raises(BrokenFile, match=r"lab.csv.gz"):
        load("eicu", folder, **SMALL)


def test_a_table_with_other_columns_is_refused_with_what_it_lacks(folder: Path) -> None:
    (folder / "lab.csv.gz").write_bytes(gzip.compress(b"patientunitstayid,labname\n1,pH\n"))
    with pytest.raises(BrokenFile, match=r"lab.csv.gz lacks the columns labresultoffset, labresultrevisedoffset"):
        load("eicu", folder, **SMALL)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("task", "mortalty", "did you mean 'mortality'"),
        ("sites", "ward", "Choices: hospital, region"),
        ("window", 0, "window is 0: expected a whole number of at least 1"),
        ("window", 2.5, "window is 2.5"),
        ("min_stays", -1, "min_stays is -1"),
        ("min_events", "few", "min_events is 'few'"),
        ("top", 1, "top is 1: expected a whole number of at least 2"),
        ("top", 0, "top is 0: expected a whole number of at least 2"),
        ("memory", "much", "memory is 'much': expected an amount"),
        ("windw", 4, "did you mean 'window'"),
    ],
)
def test_a_wrong_option_is_told_with_what_was_expected(folder: Path, option: str, value: Any, said: str) -> None:
    with pytest.raises((ConfigError, DataError), match=said):
        load("eicu", folder, **{**SMALL, option: value})


def test_a_window_longer_than_any_stay_leaves_nobody(folder: Path) -> None:
    with pytest.raises(DataError, match="take a shorter window"):
        load("eicu", folder, **{**SMALL, "window": 1000})


def test_without_duckdb_it_says_what_to_install(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingData, match=r"pip install 'peerwise\[eicu\]'"):
        load("eicu", folder, **SMALL)


def test_three_sequence_models_a_hospital_are_compared(folder: Path) -> None:
    run = simulate(
        "eicu",
        data_dir=folder,
        options=SMALL,
        methods=["local", "peerwise", "fedproto"],
        training={"rounds": 2},
        folds=2,
        epochs=2,
        seeds=1,
        class_balance="balanced",
    )
    assert run.experiment.models == ("tcn", "cnn1d", "lstm")
    assert sorted(run.results["site"].unique()) == ["1", "2"]
    assert run.results["balanced_accuracy"].between(0, 1).all()


MEASURE = """
import resource, sys
from peerwise.data import load
load("eicu", sys.argv[1], min_stays=1, min_events=0, window=4)
small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
load("eicu", sys.argv[2], min_stays=1, min_events=0, window=4, memory="200MB")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - small) / 1024)
"""


@pytest.mark.slow
def test_a_table_larger_than_the_memory_given_is_read(tmp_path: Path) -> None:
    """3 million rows, 130 MB: it takes less memory than it was given beside what Python and DuckDB take anyway."""
    small, large = write(tmp_path / "small", twenty_stays()), write(tmp_path / "large", twenty_stays())
    numbers = np.random.default_rng(0).integers(40, 120, (1000, 6))
    lines = [",".join(map(str, row)) for row in numbers.tolist()]
    (large / "vitalPeriodic.csv.gz").unlink()
    with (large / "vitalPeriodic.csv").open("w") as file:
        names = "temperature,sao2,heartrate,respiration,systemicsystolic,systemicdiastolic,systemicmean"
        file.write(f"vitalperiodicid,patientunitstayid,observationoffset,{names}\n")
        for block in range(3000):
            file.writelines(f"{block},{place % 20},{place % 240},37,{line}\n" for place, line in enumerate(lines))
    found = subprocess.run([sys.executable, "-c", MEASURE, small, large], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 200
