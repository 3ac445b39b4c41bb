"""CSV and parquet tables, and what is refused in them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerwise.data import Feature, load, load_table, make_sites
from peerwise.errors import BrokenFile, DataError, MissingData


@pytest.fixture
def ward() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 90, 60).astype(float),
            "unit": rng.choice(["icu", "ward"], 60),
            "smoker": rng.random(60) < 0.5,
            "died": rng.choice(["no", "yes"], 60),
            "hospital": np.repeat([3, 1, 2], 20),
            "patient": np.arange(60) // 2,
            "admitted": pd.date_range("2020-01-01", periods=60).astype(str),
        }
    )


@pytest.fixture(params=["csv", "csv.gz", "parquet"])
def file(request: pytest.FixtureRequest, tmp_path: Path, ward: pd.DataFrame) -> Path:
    ward.loc[3, "age"], ward.loc[4, "unit"] = np.nan, None
    path = tmp_path / f"ward.{request.param}"
    if request.param == "parquet":
        ward.to_parquet(path)
    else:
        ward.to_csv(path, index=False)
    return path


def save(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "ward.csv", index=False)
    return folder / "ward.csv"


def test_columns_get_their_roles_and_missing_values_stay_missing(file: Path, ward: pd.DataFrame) -> None:
    data = load_table(file, "died", site="hospital", group="patient", time="admitted")
    assert data.name == "ward"
    assert data.classes == ("no", "yes")
    assert data.features == (Feature("age"), Feature("unit", ("icu", "ward")), Feature("smoker"))
    assert isinstance(data.X, np.ndarray)
    assert data.X.dtype == np.float32
    assert np.argwhere(np.isnan(data.X)).tolist() == [[3, 0], [4, 1]]
    assert [data.classes[code] for code in data.y] == ward["died"].tolist()
    assert data.time is not None
    assert (np.diff(data.time) > np.timedelta64(0)).all()
    assert [site.name for site in make_sites(data, "natural")] == ["1", "2", "3"]


def test_load_takes_a_path_too(file: Path) -> None:
    assert len(load(file, target="died", drop=["patient", "admitted"])) == 60
    with pytest.raises(DataError, match="say which target"):
        load(file)
    with pytest.raises(DataError, match="did you mean 'target'"):
        load(file, targt="died")


def test_a_question_mark_is_a_missing_number(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,0\n?,1\n,0\n")
    assert np.isnan(np.asarray(load_table(tmp_path / "t.csv", "y").X)[:, 0]).tolist() == [False, True, True]


def test_a_target_of_whole_numbers_keeps_its_names_and_order(tmp_path: Path) -> None:
    data = load_table(save(pd.DataFrame({"a": range(6), "y": [10.0, 9.0, 2.0, 10.0, 9.0, 2.0]}), tmp_path), "y")
    assert data.classes == ("2", "9", "10")
    assert data.y.tolist() == [2, 1, 0, 2, 1, 0]


def test_a_target_of_booleans_is_two_classes(tmp_path: Path) -> None:
    data = load_table(save(pd.DataFrame({"a": range(4), "y": [True, False, True, False]}), tmp_path), "y")
    assert data.classes == ("False", "True")
    assert data.y.tolist() == [1, 0, 1, 0]


def test_a_column_that_is_always_empty_stays(tmp_path: Path) -> None:
    data = load_table(save(pd.DataFrame({"a": [None] * 4, "b": range(4), "y": [0, 1, 0, 1]}), tmp_path), "y")
    assert np.isnan(np.asarray(data.X)[:, 0]).all()
    assert not data.features[0].is_category


def test_a_missing_target_column_names_the_columns_there_are(file: Path) -> None:
    with pytest.raises(DataError, match=r"unknown column 'dead'.*Choices: .*died.*hospital"):
        load_table(file, "dead")
    with pytest.raises(DataError, match="did you mean 'died'"):
        load_table(file, "dieed")


@pytest.mark.parametrize("role", ["site", "group", "time"])
def test_an_unknown_column_is_named_with_the_nearest(file: Path, role: str) -> None:
    with pytest.raises(DataError, match="unknown column 'hospitl': did you mean 'hospital'"):
        load_table(file, "died", **{role: "hospitl"})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="did you mean 'patient'"):
        load_table(file, "died", drop="patiente")


def test_missing_target_values_are_counted_and_located(tmp_path: Path, ward: pd.DataFrame) -> None:
    ward.loc[[4, 7, 9], "died"] = None
    with pytest.raises(
        DataError, match=r"'died' is missing in 3 of 60 rows \(first: 4, 7, 9\); fill them in or remove"
    ):
        load_table(save(ward, tmp_path), "died")


def test_one_class_in_total_is_refused(tmp_path: Path, ward: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"1 class \['no'\]; at least two"):
        load_table(save(ward.assign(died="no"), tmp_path), "died", drop=["admitted"])


def test_a_regression_target_is_refused(tmp_path: Path, ward: pd.DataFrame) -> None:
    stay = np.random.default_rng(0).random(60)
    with pytest.raises(DataError, match=r"'stay' has 60 different values in 60 rows.*classification only"):
        load_table(save(ward.assign(stay=stay), tmp_path), "stay")
    many = pd.concat([ward] * 10, ignore_index=True)
    with pytest.raises(DataError, match="'income' has 600 different values"):
        load_table(save(many.assign(income=range(600)), tmp_path), "income")


def test_a_column_of_names_is_refused_with_the_remedy(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": [f"person {i}" for i in range(80)], "a": range(80), "y": [0, 1] * 40})
    with pytest.raises(DataError, match=r"'name' has 80 different texts in 80 rows.*drop=\['name'\]"):
        load_table(save(frame, tmp_path), "y")


def test_an_infinite_value_is_refused_by_column(tmp_path: Path, ward: pd.DataFrame) -> None:
    ward.loc[0, "age"] = np.inf
    with pytest.raises(DataError, match="'age' has 1 infinite values"):
        load_table(save(ward, tmp_path), "died", drop=["admitted"])


@pytest.mark.parametrize("role", ["site", "group", "time"])
def test_a_row_without_its_site_group_or_time_is_refused(tmp_path: Path, ward: pd.DataFrame, role: str) -> None:
    ward["where"] = [None, *range(59)]
    with pytest.raises(DataError, match=r"'where' is missing in 1 of 60 rows \(first: 0\)"):
        load_table(save(ward, tmp_path), "died", drop=["admitted"], **{role: "where"})  # type: ignore[arg-type]


def test_a_time_that_is_none_is_refused(tmp_path: Path, ward: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'unit' holds neither numbers nor dates"):
        load_table(save(ward, tmp_path), "died", time="unit", drop=["admitted"])


def test_dates_among_the_features_are_refused(tmp_path: Path, ward: pd.DataFrame) -> None:
    path = tmp_path / "ward.parquet"
    ward.assign(admitted=pd.to_datetime(ward["admitted"])).to_parquet(path)
    with pytest.raises(DataError, match=r"'admitted' holds dates; leave it out.*or say time='admitted'"):
        load_table(path, "died")


def test_no_feature_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column is left as a feature"):
        load_table(save(pd.DataFrame({"y": [0, 1]}), tmp_path), "y")


@pytest.mark.parametrize("ending", ["parquet", "csv.gz"])
def test_a_truncated_table_is_refused(tmp_path: Path, ward: pd.DataFrame, ending: str) -> None:
    path = tmp_path / f"ward.{ending}"
    if ending == "parquet":
        ward.to_parquet(path)
    else:
        path.write_bytes(gzip.compress(ward.to_csv(index=False).encode()))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BrokenFile, match=f"ward.{ending} cannot be read as a table"):
        load_table(path, "died")


def test_an_empty_file_and_one_that_is_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(BrokenFile, match="empty"):
        load_table(tmp_path / "empty.csv", "y")
    with pytest.raises(MissingData, match=r"nothing.csv is not there"):
        load_table(tmp_path / "nothing.csv", "y")


@pytest.mark.parametrize("role", ["site", "group", "time", "drop"])
def test_a_target_with_another_role_is_refused(file: Path, role: str) -> None:
    with pytest.raises(DataError, match="column 'died' is the target and has another role"):
        load_table(file, "died", **{role: "died"})  # type: ignore[arg-type]
