"""A site's own file, read as the task has it: the same rows, whatever the site calls its columns and values."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerwise.data import Dataset, Feature, Site, load, make_sites, site_of
from peerwise.data.loaders.table import text_cells
from peerwise.data.task import ColumnMap, Task, TaskFeature, check_rows, inputs_of, read_inputs, read_rows, task_from
from peerwise.errors import BrokenFile, ConfigError, DataError, MissingData

HOSPITALS = ("cleveland", "hungarian", "long_beach", "switzerland")
GERMAN = ColumnMap(
    columns={"sex": "Geschlecht", "age": "Alter", "diagnosis": "Befund"},
    codes={
        "sex": {"M": "male", "W": "female"},
        "thal": {"3": "normal", "6": "fixed defect", "7": "reversible defect"},
        "diagnosis": {"0": "healthy", "1": "disease"},
    },
)


@pytest.fixture(scope="module")
def heart() -> Dataset:
    return load("heart_disease")


@pytest.fixture(scope="module")
def task(heart: Dataset) -> Task:
    return task_from(heart, positive="disease", metric="auroc", target="diagnosis")


def by_name(data: Dataset) -> pd.DataFrame:
    """The rows as a person would write them: categories and classes by name, gaps empty."""
    columns: dict[str, object] = {}
    for place, feature in enumerate(data.features):
        column = np.asarray(data.X)[:, place]
        names = [None if np.isnan(v) else feature.categories[int(v)] for v in column] if feature.is_category else column
        columns[feature.name] = names
    return pd.DataFrame(columns).assign(diagnosis=[data.classes[code] for code in data.y])


def in_german(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with other names and codes, columns in another order; thal as 3.0, as tables with gaps have it."""
    codes = {column: {name: local for local, name in known.items()} for column, known in GERMAN.codes.items()}
    frame = frame.assign(**{column: frame[column].map(known) for column, known in codes.items()})
    frame["thal"] = frame["thal"].astype(float)
    frame = frame.rename(columns=dict(GERMAN.columns)).assign(ward="B2")
    return frame[sorted(frame.columns)]


def assert_same_parts(one: Site, other: Site) -> None:
    for part in ("train", "val", "test"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert mine.X.dtype == theirs.X.dtype
        assert mine.X.tobytes() == theirs.X.tobytes()
        assert mine.y.dtype == theirs.y.dtype
        assert np.array_equal(mine.y, theirs.y)
    assert (one.name, one.kind, one.classes, one.features, one.seed, one.recipes) == (
        other.name,
        other.kind,
        other.classes,
        other.features,
        other.seed,
        other.recipes,
    )


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("hospital", HOSPITALS)
def test_a_hospital_alone_has_the_parts_that_a_simulation_gives_it(
    heart: Dataset, task: Task, tmp_path: Path, hospital: str, ending: str
) -> None:
    own = by_name(heart.take(np.flatnonzero(np.asarray(heart.site) == hospital)))
    for mapping, frame in ((ColumnMap(), own), (GERMAN, in_german(own))):
        path = tmp_path / f"rows.{ending}"
        if ending == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
        rows = read_rows(task, path, mapping)
        for seed in (0, 1, 17):
            whole = {site.name: site for site in make_sites(heart, "natural", seed=seed, recipes=("forest",))}
            assert_same_parts(site_of(rows, hospital, seed=seed, recipes=["forest"]), whole[hospital])


def test_a_site_alone_keeps_patients_together_as_a_simulation_does(heart: Dataset, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = by_name(heart).assign(hospital=np.asarray(heart.site), patient=rng.integers(0, 300, len(heart)))
    frame.to_csv(tmp_path / "all.csv", index=False)
    whole = load(tmp_path / "all.csv", target="diagnosis", site="hospital", group="patient")
    task = task_from(whole, target="diagnosis", positive="disease")
    frame[frame.hospital == "cleveland"].drop(columns="hospital").to_csv(tmp_path / "one.csv", index=False)
    rows = read_rows(task, tmp_path / "one.csv", group="patient")
    site = site_of(rows, "cleveland", seed=5)
    assert_same_parts(site, {one.name: one for one in make_sites(whole, "natural", seed=5)}["cleveland"])
    groups = [set(np.asarray(getattr(site, part).group).tolist()) for part in ("train", "val", "test")]
    assert sum(len(part) for part in groups) == len(set.union(*groups))


def test_a_split_file_fixes_the_parts_of_a_site_alone_too(heart: Dataset) -> None:
    from dataclasses import replace

    split = np.random.default_rng(0).integers(0, 3, len(heart)).astype(np.int8)
    whole = replace(heart, natural_split=split)
    site = site_of(whole.take(np.flatnonzero(np.asarray(heart.site) == "long_beach")), "long_beach")
    assert_same_parts(site, {one.name: one for one in make_sites(whole, "natural")}["long_beach"])


def test_a_site_without_rows_is_refused(heart: Dataset) -> None:
    with pytest.raises(DataError, match="no rows for site 'empty'"):
        site_of(heart.take(np.arange(0)), "empty")


# ---- a small ward, and all that can be wrong with it ----------------------------------------------------------------

WARD = Task(
    name="ward",
    kind="table",
    classes=("survived", "died"),
    target="outcome",
    positive="died",
    features=(
        TaskFeature("age", "number", "years", 0, 120),
        TaskFeature("glucose", "number", "mg/dl", 20, 800),
        TaskFeature("sex", "category", values=("female", "male")),
    ),
)
GOOD = "age,glucose,sex,outcome\n61,110.5,male,died\n35,?,female,survived\n,90,NA,survived\n"


def saved(folder: Path, text: str) -> Path:
    path = folder / "ward.csv"
    path.write_text(text, encoding="utf-8")
    return path


def serious(path: Path, **roles: str) -> list[str]:
    return [
        problem.text
        for problem in check_rows(WARD, path, group=roles.get("group"), time=roles.get("time"))
        if problem.serious
    ]


def test_rows_are_read_by_name_and_gaps_are_normal(tmp_path: Path) -> None:
    path = saved(tmp_path, GOOD)
    assert check_rows(WARD, path) == []
    rows = read_rows(WARD, path)
    expected = np.array([[61, 110.5, 1], [35, np.nan, 0], [np.nan, 90, np.nan]], dtype=np.float32)
    assert np.array_equal(np.asarray(rows.X), expected, equal_nan=True)
    assert rows.y.tolist() == [1, 0, 0]
    assert rows.features == (Feature("age"), Feature("glucose"), Feature("sex", ("female", "male")))


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = saved(tmp_path, "Age,sex,outcome,room\n61,Male,dead,4\n35,x,,5\n")
    found = check_rows(WARD, path)
    assert [problem.serious for problem in found] == [True, True, True, True, True, False]
    told = " ".join(problem.text for problem in found)
    assert "column 'age' is not there; is it 'Age'?" in told
    assert "columns = { 'age' = '...' }" in told
    assert "column 'glucose' is not there." in told
    assert "'Male' (1 row, like 'male'), 'x' (1 row)" in told
    assert "expected 'female', 'male'" in told
    assert "target 'outcome' has 'dead' (1 row" in told
    assert "missing in 1 row" in told
    assert "'room'" in told
    with pytest.raises(DataError, match=r"ward.csv does not fit the task. column 'age'.*'Male'.*missing in 1 row"):
        read_rows(WARD, path)


def test_many_problems_are_cut_short_in_an_error(tmp_path: Path) -> None:
    task = Task("wide", "table", ("a", "b"), "y", tuple(TaskFeature(f"f{i}") for i in range(9)), "b")
    with pytest.raises(DataError, match=r"And 5 more, which 'peerwise doctor' lists\."):
        read_rows(task, saved(tmp_path, "z\n1\n"))


def test_another_unit_is_noticed_and_not_converted(tmp_path: Path) -> None:
    few = saved(tmp_path, "age,glucose,sex,outcome\n61,110,male,died\n35,95,male,survived\n35,5.1,male,survived\n")
    found = check_rows(WARD, few)
    assert [problem.serious for problem in found] == [False]
    assert "1 of 3 values outside 20 to 800 mg/dl: is it in another unit?" in found[0].text
    assert np.asarray(read_rows(WARD, few).X)[2, 1] == np.float32(5.1)
    most = saved(tmp_path, "age,glucose,sex,outcome\n61,6.1,male,died\n35,4.9,male,survived\n35,95,male,survived\n")
    assert "2 of 3 values outside" in serious(most)[0]


@pytest.mark.parametrize("cell", ["12,5", "abc", "1_000", "inf", "1e39", "٣", "0x10", "nan5"])
def test_what_is_no_number_is_refused_with_its_text(tmp_path: Path, cell: str) -> None:
    path = saved(tmp_path, f'age,glucose,sex,outcome\n"{cell}",90,male,died\n35,90,male,survived\n')
    assert f"column 'age' has '{cell}' (1 row): expected numbers such as 12.5" in serious(path)[0]


def test_local_codes_may_stand_for_missing_values_and_win_over_names(tmp_path: Path) -> None:
    mapping = ColumnMap(codes={"sex": {"male": "female", "9": ""}, "age": {"-9": ""}, "outcome": {"0": "survived"}})
    path = saved(tmp_path, "age,glucose,sex,outcome\n-9,90,male,died\n35,90,9,0\n36,90,9.0,0\n")
    rows = read_rows(WARD, path, mapping)
    assert np.array_equal(np.asarray(rows.X)[:, [0, 2]], [[np.nan, 0], [35, np.nan], [36, np.nan]], equal_nan=True)
    assert rows.y.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        (ColumnMap(columns={"aeg": "x"}), "did you mean 'age'"),
        (ColumnMap(columns={"age": ""}), "expected the name of a column"),
        (ColumnMap(columns={"age": "x", "sex": "x"}), "gives 'x' for both"),
        (ColumnMap(columns={"age": "glucose"}), "gives 'glucose' for both"),
        (ColumnMap(codes={"sx": {}}), "did you mean 'sex'"),
        (ColumnMap(codes={"sex": {"M": "mael"}}), "did you mean 'male'"),
        (ColumnMap(codes={"outcome": {"1": "deid"}}), "did you mean 'died'"),
        (ColumnMap(codes={"sex": {"1": 1}}), "expected a text in quotes"),  # type: ignore[dict-item]
    ],
)
def test_a_slip_in_the_mapping_is_refused(tmp_path: Path, mapping: ColumnMap, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_rows(WARD, saved(tmp_path, GOOD), mapping)


def test_a_ward_is_not_refused_for_one_odd_cell_when_it_is_to_be_answered(tmp_path: Path) -> None:
    path = saved(tmp_path, "sex,glucose,age,bed\nunknown,90,61,3\nmale,1000,x,4\n")
    cases = read_inputs(WARD, path)
    assert np.array_equal(
        np.asarray(cases.X), np.array([[61, 90, np.nan], [np.nan, 1000, 1]], np.float32), equal_nan=True
    )
    told = " ".join(cases.notes)
    assert "'unknown' (1 row), taken as missing" in told
    assert "'x' (1 row), taken as missing" in told
    assert "1 of 2 values outside" in told
    assert "'bed'" in told
    assert len(read_inputs(WARD, saved(tmp_path, GOOD))) == 3
    with pytest.raises(DataError, match="column 'age' is not there"):
        read_inputs(WARD, saved(tmp_path, "sex,glucose\nmale,90\n"))


def test_groups_and_times_are_no_features_and_must_be_whole(tmp_path: Path) -> None:
    text = GOOD.replace("outcome\n", "outcome,patient,seen\n").replace("died\n", "died,900719925474099301,2024-01-31\n")
    text = text.replace("female,survived\n", "female,survived,900719925474099302,2024-02-01\n")
    path = saved(tmp_path, text.replace("NA,survived\n", "NA,survived,900719925474099302.0,2024-03-01\n"))
    rows = read_rows(WARD, path, group="patient", time="seen")
    assert np.asarray(rows.group).tolist() == ["900719925474099301", "900719925474099302", "900719925474099302"]
    assert (np.diff(np.asarray(rows.time)) > np.timedelta64(0)).all()
    assert len(rows.features) == 3
    gap = saved(tmp_path, text.replace("NA,survived\n", "NA,survived,,never\n"))
    told = " ".join(serious(gap, group="patient", time="seen"))
    assert "column 'patient' is missing in 1 of 3 rows" in told
    assert "holds neither numbers nor dates" in told
    assert "column 'sex' is a group or a time" in serious(path, group="sex")[0]
    assert "column 'pat', named as group or time, is not there" in serious(path, group="pat")[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "truncated, damaged or empty"),
        ("age,glucose,sex,outcome\n", "no rows"),
        ("age,glucose,sex,outcome\n61,90,male\n", "line 2 has 3 cells, the first one 4"),
        ("age,glucose,sex,outcome\n61,90,male,died,7\n", "line 2 has 5 cells, the first one 4"),
        ("age,age,sex,outcome\n61,90,male,died\n", "column 'age' is there twice"),
        ("age;glucose;sex;outcome\n61;90;male;died\n", "separated by ';'"),
    ],
)
def test_a_damaged_file_is_told_as_such(tmp_path: Path, text: str, told: str) -> None:
    assert told in " ".join(serious(saved(tmp_path, text)))


def test_a_file_that_is_not_there_or_not_in_utf8_is_refused_by_its_kind(tmp_path: Path) -> None:
    with pytest.raises(MissingData):
        read_rows(WARD, tmp_path / "nowhere.csv")
    path = tmp_path / "latin.csv"
    path.write_bytes("age,glucose,sex,outcome\n61,90,männlich,died\n".encode("latin-1"))
    with pytest.raises(BrokenFile):
        read_rows(WARD, path)


def test_a_spreadsheets_first_invisible_character_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert check_rows(WARD, path) == []
    assert len(read_rows(WARD, path)) == 3


def test_a_class_that_a_site_lacks_is_only_noted(tmp_path: Path) -> None:
    found = check_rows(WARD, saved(tmp_path, "age,glucose,sex,outcome\n61,90,male,died\n"))
    assert [(problem.serious, "no row is of 'survived'" in problem.text) for problem in found] == [(False, True)]


@pytest.mark.parametrize("cell", ["5", "+5", "1.", ".5", "1e5", "-0", " 5", "1e-400", "3.3e38", "0.1", "16777217", ""])
def test_a_number_is_read_exactly_however_it_is_written(tmp_path: Path, cell: str) -> None:
    path = saved(tmp_path, f"age,glucose,sex,outcome\n{cell},90,male,died\n{cell},x,male,died\n7,90,male,survived\n")
    expected = np.float32(cell or "nan")
    for mapping in (ColumnMap(), ColumnMap(codes={"age": {"no such cell": ""}})):  # at once, and cell by cell
        found = np.asarray(read_inputs(WARD, path, mapping).X)[:2, 0]
        assert found.tobytes() == np.array([expected] * 2).tobytes()


def test_cells_that_are_at_hand_read_as_the_file_does(task: Task, heart: Dataset, tmp_path: Path) -> None:
    text = by_name(heart).head(20).assign(chol="much", ward="B2").to_csv(index=False)
    (tmp_path / "ward.csv").write_text(text)
    there = read_inputs(task, tmp_path / "ward.csv")
    here = inputs_of(task, text_cells(io.StringIO(text, newline="")), "ward.csv")
    assert np.asarray(here.X).tobytes() == np.asarray(there.X).tobytes()
    assert here.notes == there.notes
    assert any("'much'" in note for note in here.notes)
    with pytest.raises(DataError, match=r"the rows does not fit the task\. column 'age' is not there"):
        inputs_of(task, text_cells(["chol\n", "1\n"]), "the rows")


def test_what_is_no_table_is_not_read_to_its_end() -> None:
    def endless() -> Iterator[str]:
        yield "age,chol\n"
        while True:
            yield "1\n"

    with pytest.raises(ValueError, match="line 2 has 1 cells, the first one 2"):
        text_cells(endless())
