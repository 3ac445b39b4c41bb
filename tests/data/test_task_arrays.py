"""Images and sequences in .npz files, and public rows, held against the task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerwise.data import Dataset, Sequences, digest, load, make_sites, site_of
from peerwise.data.task import (
    ColumnMap,
    PublicRows,
    Task,
    TaskFeature,
    check_rows,
    public_rows,
    read_inputs,
    read_public,
    read_rows,
    task_from,
)
from peerwise.errors import BrokenFile, ConfigError, DataError, MissingData

PHOTOS = Task("photos", "image", ("cat", "dog", "fox"), "animal", shape={"x": (1, 4, 5)})
STAYS = Task("stays", "sequence", ("home", "died"), "end", positive="died", shape={"static": (2,), "series": (6, 3)})


def saved(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "rows.npz", **arrays)
    return folder / "rows.npz"


def images(rows: int = 4) -> Any:
    return np.random.default_rng(0).integers(0, 256, (rows, 1, 4, 5), dtype=np.uint8)


def stays(rows: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"static": rng.normal(size=(rows, 2)), "series": rng.normal(size=(rows, 6, 3))}


def told(task: Task, path: Path, mapping: ColumnMap | None = None, **more: Any) -> str:
    return " ".join(p.text for p in check_rows(task, path, mapping or ColumnMap(), **more) if p.serious)


def test_images_come_with_class_names_or_codes_or_local_codes(tmp_path: Path) -> None:
    X = images()
    by_code = read_rows(PHOTOS, saved(tmp_path, X=X, y=np.array([2, 0, 1, 0])))
    by_name = read_rows(PHOTOS, saved(tmp_path, X=X[:, 0], y=np.array(["fox", "cat", "dog", "cat"])))
    mapping = ColumnMap(codes={"animal": {"10": "cat", "20": "dog", "30": "fox"}})
    by_local = read_rows(PHOTOS, saved(tmp_path, X=X, y=np.array([30, 10, 20, 10])), mapping)
    for rows in (by_code, by_name, by_local):
        assert rows.kind == "image"
        assert np.array_equal(np.asarray(rows.X), X)
        assert rows.y.tolist() == [2, 0, 1, 0]
    assert PHOTOS.inputs == {"x": (1, 4, 5)}


def test_sequences_come_as_float32_and_may_have_gaps(tmp_path: Path) -> None:
    arrays = stays()
    arrays["series"][1, 2, 0] = np.nan
    path = saved(tmp_path, **arrays, y=np.array(["home", "died", "home", "home"]), patient=np.array([7, 7, 8, 9]))
    rows = read_rows(STAYS, path, group="patient")
    assert isinstance(rows.X, Sequences)
    assert np.array_equal(rows.X.series, arrays["series"].astype(np.float32), equal_nan=True)
    assert rows.X.static.dtype == np.float32
    assert np.asarray(rows.group).tolist() == ["7", "7", "8", "9"]
    assert len(read_inputs(STAYS, path)) == 4
    assert STAYS.inputs == {"static": (2,), "series": (6, 3)}


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"X": images()}, "array 'y' is not there"),
        ({"y": [0, 1]}, "array 'X' is not there"),
        ({"X": images().astype(float), "y": [0] * 4}, "X is float64 (4, 1, 4, 5): expected uint8 (rows, 1, 4, 5)"),
        ({"X": images()[:, :, :3], "y": [0] * 4}, "X is uint8 (4, 1, 3, 5)"),
        ({"X": images(), "y": [0] * 3}, "different numbers of rows (X 4, y 3)"),
        ({"X": images(0), "y": np.empty(0, int)}, "no rows"),
        ({"X": images(), "y": [[0], [1], [2], [0]]}, "y is (4, 1): expected one label a row"),
        ({"X": images(), "y": [0, 1, 2, 3]}, "y has '3' (1 row): expected 'cat', 'dog', 'fox'"),
        ({"X": images(), "y": ["cat", "dig", "dog", "fox"]}, "'dig' (1 row, like 'dog')"),
        ({"X": images(), "y": [0, 1.5, 2, 1]}, "'1.5' (1 row)"),
        ({"X": images(), "y": ["cat", "", "dog", "fox"]}, "y is missing in 1 row"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_the_reason(
    tmp_path: Path, arrays: dict[str, Any], expected: str
) -> None:
    path = saved(tmp_path, **arrays)
    assert expected in told(PHOTOS, path)
    with pytest.raises(DataError, match="does not fit the task"):
        read_rows(PHOTOS, path)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"static": np.zeros((4, 3))}, "static is float64 (4, 3): expected numbers (rows, 2)"),
        ({"series": np.zeros((4, 6))}, "series is float64 (4, 6)"),
        ({"static": np.array([["a", "b"]] * 4)}, "static is <U1 (4, 2): expected numbers"),
        ({"static": np.full((4, 2), 1e300)}, "static has 8 infinite values"),
        ({"series": np.zeros((3, 6, 3))}, "different numbers of rows"),
    ],
)
def test_sequences_that_do_not_fit_are_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    assert expected in told(STAYS, saved(tmp_path, **{**stays(), "y": [0, 1, 0, 1], **changes}))


def test_a_file_with_objects_in_it_is_never_unpacked(tmp_path: Path) -> None:
    path = saved(tmp_path, X=images(), y=np.array([{"a": 1}, 2, 3, 4], dtype=object))
    with pytest.raises(BrokenFile, match=r"no \.npz of plain arrays"):
        read_rows(PHOTOS, path)
    with pytest.raises(MissingData):
        read_rows(PHOTOS, tmp_path / "nowhere.npz")


def test_other_arrays_are_ignored_and_named_and_renamed_columns_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, X=images(), y=[0, 1, 2, 0], notes=np.zeros(2))
    assert [(p.serious, "'notes'" in p.text) for p in check_rows(PHOTOS, path)] == [(False, True)]
    with pytest.raises(ConfigError, match="expected none for kind 'image'"):
        read_rows(PHOTOS, path, ColumnMap(columns={"animal": "y"}))


def test_a_draft_for_images_and_sequences_has_their_shape(tmp_path: Path) -> None:
    rows = read_rows(PHOTOS, saved(tmp_path, X=images(), y=[0, 1, 2, 0]))
    assert task_from(rows, target="animal") == PHOTOS
    rows = read_rows(STAYS, saved(tmp_path, **stays(), y=[0, 1, 0, 1]))
    assert task_from(rows, target="end") == STAYS


# ---- public rows -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def heart() -> Dataset:
    return load("heart_disease")


def write_table(path: Path, data: Dataset, X: Any, y: Any = None) -> Path:
    import pandas as pd

    columns: dict[str, Any] = {}
    for place, feature in enumerate(data.features):
        names = [*feature.categories, None]
        column = X[:, place]
        columns[feature.name] = (
            [names[-1 if np.isnan(v) else int(v)] for v in column] if feature.is_category else column
        )
    frame = pd.DataFrame(columns)
    (frame if y is None else frame.assign(target=[data.classes[code] for code in y])).to_csv(path, index=False)
    return path


def test_a_site_has_the_public_rows_of_a_simulation_from_its_file(heart: Dataset, tmp_path: Path) -> None:
    simulated = {site.name: site for site in make_sites(heart, "natural", seed=3, public=60)}["hungarian"]
    task = task_from(heart)
    path = write_table(tmp_path / "public.csv", heart, simulated.public)
    task = replace(task, public=public_rows(task, path, "heart-public"))
    assert task.public == PublicRows("heart-public", digest(np.asarray(simulated.public)), 60)
    task = Task.read(task.text())
    local = ColumnMap(columns={"age": "Alter"}, codes={"sex": {"M": "male"}})
    for mapping in (ColumnMap(), local):
        X, common = read_public(task, path, mapping)
        assert np.asarray(X).tobytes() == np.asarray(simulated.public).tobytes()
        assert (common.name, common.sha256, len(common.rows)) == ("heart-public", task.public.sha256, 60)  # type: ignore[union-attr]
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(path.read_text().replace("age,", "Alter,", 1).replace(",male,", ",M,"))
    assert np.asarray(read_public(task, renamed, local)[0]).tobytes() == np.asarray(simulated.public).tobytes()
    rest = np.sort(np.concatenate(list(simulated.index.values())))
    rows = read_rows(task, write_table(tmp_path / "own.csv", heart, np.asarray(heart.X)[rest], heart.y[rest]))
    site = site_of(rows, "hungarian", seed=3, public=read_public(task, path))
    assert np.asarray(site.public).tobytes() == np.asarray(simulated.public).tobytes()
    assert site.public_set is not None
    assert simulated.public_set is not None
    assert site.public_set.sha256 == simulated.public_set.sha256
    assert np.asarray(site.train.X).tobytes() == np.asarray(simulated.train.X).tobytes()


def test_other_public_rows_than_the_task_has_are_refused(heart: Dataset, tmp_path: Path) -> None:
    X = np.asarray(heart.X)
    task = task_from(heart)
    path = write_table(tmp_path / "public.csv", heart, X[:20])
    with pytest.raises(DataError, match="has no public rows"):
        read_public(task, path)
    task = replace(task, public=public_rows(task, path, "common"))
    for number, wrong in enumerate((X[:19], X[1:21], X[:20][::-1])):
        other = write_table(tmp_path / f"other{number}.csv", heart, wrong)
        with pytest.raises(DataError, match=rf"is not 'common': it has {len(wrong)} rows .* expected 20 rows"):
            read_public(task, other)
    with pytest.raises(DataError, match="column 'age' is not there"):
        read_public(replace(task, features=(*task.features, TaskFeature("new"))), _without_age(path))


def _without_age(path: Path) -> Path:
    path.write_text(path.read_text().replace("age,", "years,", 1))
    return path
