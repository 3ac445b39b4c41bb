"""The named tables and split files: facts that their publishers state."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from peerwise.data import DATASETS, load, load_split_file, make_sites
from peerwise.errors import BrokenFile, DataError, MissingData

DATA = os.environ.get("PEERWISE_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="PEERWISE_DATA names no folder with the real data")


def have(*names: str) -> Path:
    folder = Path(DATA or "")
    if not (folder / names[0]).exists():
        pytest.skip(f"{names[0]} is not in PEERWISE_DATA")
    return folder


def test_heart_disease_comes_with_the_package() -> None:
    data = load("heart_disease")
    assert data.site is not None
    hospitals = {name: int((data.site == name).sum()) for name in np.unique(data.site)}
    assert hospitals == {"cleveland": 303, "hungarian": 294, "long_beach": 200, "switzerland": 123}
    sick = {name: int(data.y[data.site == name].sum()) for name in hospitals}
    assert sick == {"cleveland": 139, "hungarian": 106, "long_beach": 149, "switzerland": 115}
    assert data.classes == ("healthy", "disease")
    names = [feature.name for feature in data.features]
    X = np.asarray(data.X)
    assert np.isnan(X[data.site == "switzerland", names.index("chol")]).all()
    assert np.nanmin(X[:, names.index("trestbps")]) > 0
    assert {f.name for f in data.features if f.is_category} == {"sex", "cp", "fbs", "restecg", "exang", "slope", "thal"}
    first = {name: X[0, place] for place, name in enumerate(names)}
    assert first["age"] == 63
    assert data.features[names.index("thal")].categories[int(first["thal"])] == "fixed defect"
    assert data.column("sex") is not None
    assert data.column("sex")[0] == "male"  # type: ignore[index]


def test_digits_need_no_download() -> None:
    data = load("digits")
    assert np.asarray(data.X).shape == (1797, 64)
    assert len({feature.name for feature in data.features}) == 64


def test_every_data_set_describes_itself_in_one_line() -> None:
    for loader in DATASETS.values():
        assert loader.__doc__
        assert len(loader.__doc__.splitlines()[0]) > 30


@needs_data
@pytest.mark.parametrize(
    ("name", "file", "shape", "kind", "sites"),
    [
        ("fashion_mnist", "fashion-mnist", (70_000, 1, 28, 28), "image", None),
        ("cifar10", "cifar-10-batches-bin", (18_000, 3, 32, 32), "image", None),
        ("adult", "adult", (48_842, 14), "table", [1096, 962, 2095, 43_832, 857]),
        ("covertype", "covertype", (581_012, 54), "table", [36_968, 253_364, 29_884, 260_796]),
        ("credit_default", "credit_default", (30_000, 23), "table", None),
        ("office_caltech10", "office_caltech10_surf", (2533, 800), "table", [958, 1123, 157, 295]),
        ("pacs", "pacs", (9991, 3, 32, 32), "image", [2048, 2344, 1670, 3929]),
    ],
)
def test_real_data_have_their_published_size(
    name: str, file: str, shape: tuple[int, ...], kind: str, sites: list[int] | None
) -> None:
    data = load(name, have(file))
    X = np.asarray(data.X)
    assert X.shape[1:] == shape[1:]
    assert len(X) == shape[0] or name == "cifar10"  # the official set has more batches than ours
    assert data.kind == kind
    assert X.dtype == (np.uint8 if kind == "image" else np.float32)
    assert data.source
    assert data.licence
    assert np.bincount(data.y, minlength=len(data.classes)).min() > 0
    assert sites is None or data.site is not None
    if sites is not None and data.site is not None:
        assert np.unique(data.site, return_counts=True)[1].tolist() == sites


@needs_data
def test_fashion_mnist_first_picture_is_an_ankle_boot() -> None:
    data = load("fashion_mnist", have("fashion-mnist"))
    assert data.classes[data.y[0]] == "ankle-boot"
    assert np.bincount(data.y).tolist() == [7000] * 10


@needs_data
def test_credit_clients_are_counted_as_published() -> None:
    data = load("credit_default", have("credit_default"))
    assert np.bincount(data.y).tolist() == [23_364, 6636]
    assert data.features[1].categories == ("male", "female")


ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, "
    "Not-in-family, White, Male, 2174, 0, 40, {}, {}\n"
)


def write_adult(folder: Path) -> None:
    folder.mkdir()
    train = ADULT.format("United-States", "<=50K") + ADULT.format("India", ">50K") + "\n"
    test = "|1x3 Cross validator\n" + ADULT.format("?", "<=50K.") + ADULT.format("Mexico", ">50K.") + "\n"
    (folder / "adult.data").write_text(train)
    (folder / "adult.test").write_text(test)


def test_adult_in_its_official_files(tmp_path: Path) -> None:
    write_adult(tmp_path / "adult")
    data = load("adult", tmp_path)
    assert data.classes == ("<=50K", ">50K")
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.site is not None
    assert data.site.tolist() == ["united_states", "asia", "unknown", "latin_america"]
    assert data.columns["official_split"].tolist() == ["train", "train", "test", "test"]


def test_adult_that_breaks_off_is_refused(tmp_path: Path) -> None:
    write_adult(tmp_path / "adult")
    path = tmp_path / "adult" / "adult.data"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(BrokenFile, match=r"adult.data .* row 1, which has no income"):
        load("adult", tmp_path)


def test_covertype_in_its_official_file(tmp_path: Path) -> None:
    rows = np.zeros((4, 55), dtype=int)
    rows[:, 0], rows[:, 54] = 2500, [1, 7, 2, 2]
    rows[np.arange(4), 10 + np.arange(4)] = 1
    text = "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    path = tmp_path / "covtype.data.gz"
    path.write_bytes(gzip.compress(text.encode()))
    data = load("covertype", tmp_path)
    assert data.y.tolist() == [0, 6, 1, 1]
    assert data.site is not None
    assert data.site.tolist() == ["rawah", "neota", "comanche_peak", "cache_la_poudre"]
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(BrokenFile, match=r"covtype.data.gz cannot be read"):
        load("covertype", tmp_path)


def test_office_in_its_official_files(tmp_path: Path) -> None:
    folder = tmp_path / "office_caltech10_surf"
    folder.mkdir()
    for file in ("amazon", "Caltech10", "dslr", "webcam"):
        savemat(folder / f"{file}_SURF_L10.mat", {"fts": np.ones((10, 800)), "labels": np.arange(1, 11)[:, None]})
    data = load("office_caltech10", tmp_path)
    assert np.asarray(data.X).shape == (40, 800)
    assert np.bincount(data.y).tolist() == [4] * 10
    assert [site.name for site in make_sites(data, "natural")] == ["amazon", "caltech", "dslr", "webcam"]


def test_a_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"age": [1]}).to_parquet(tmp_path / "adult.parquet")
    with pytest.raises(BrokenFile, match="adult: the table lacks workclass"):
        load("adult", tmp_path)


def write_split(path: Path, **change: object) -> Path:
    rng = np.random.default_rng(0)
    arrays: dict[str, object] = {
        "x": rng.integers(0, 256, (60, 28, 28), dtype=np.uint8),
        "y": np.arange(60) % 3,
        "client": np.arange(60) % 12,
        "split": (np.arange(60) // 12 % 3).astype(np.int8),
        "meta": json.dumps({"kind": "image", "num_classes": 4}),
    }
    arrays |= change
    np.savez(path, **{name: np.asarray(value) for name, value in arrays.items() if value is not None})
    return path


def test_a_split_file_fixes_sites_and_splits(tmp_path: Path) -> None:
    data = load(write_split(tmp_path / "made.npz"))
    assert np.asarray(data.X).shape == (60, 1, 28, 28)
    assert data.classes == ("0", "1", "2", "3")
    sites = make_sites(data)
    assert [site.name for site in sites][:3] == ["site-00", "site-01", "site-02"]
    assert sites[5].index["train"].tolist() == [5, 41]
    assert sites[5].index["val"].tolist() == [17, 53]
    assert sites[5].index["test"].tolist() == [29]


def test_a_numeric_split_file_is_a_table(tmp_path: Path) -> None:
    data = load_split_file(write_split(tmp_path / "made.npz", x=np.ones((60, 5))))
    assert data.kind == "table"
    assert [feature.name for feature in data.features] == ["x0", "x1", "x2", "x3", "x4"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"client": None}, BrokenFile, "lacks client"),
        ({"meta": "{"}, BrokenFile, "meta is no JSON"),
        ({"meta": "[1]"}, BrokenFile, "meta is a list"),
        ({"x": np.ones((60, 28, 28))}, BrokenFile, "x is float64"),
        ({"split": np.full(60, 7)}, DataError, r"split holds \[7\]"),
        ({"y": np.full(60, 9)}, DataError, "labels run from 9 to 9"),
        ({"y": np.zeros(59, int)}, DataError, "60 rows of inputs but 59 labels"),
    ],
)
def test_a_wrong_split_file_is_refused(
    tmp_path: Path, change: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        load_split_file(write_split(tmp_path / "made.npz", **change))


def test_a_truncated_split_file_and_one_with_objects_are_refused(tmp_path: Path) -> None:
    path = write_split(tmp_path / "made.npz")
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(BrokenFile, match=r"truncated or no .npz of plain arrays"):
        load_split_file(path)
    np.savez(tmp_path / "objects.npz", x=np.array([{}, {}], dtype=object))
    with pytest.raises(BrokenFile, match="plain arrays"):
        load_split_file(tmp_path / "objects.npz")
    with pytest.raises(MissingData, match="is not there"):
        load_split_file(tmp_path / "nowhere.npz")


@needs_data
def test_shared_split_files_keep_their_counts() -> None:
    folder = Path(DATA or "").parent / "splits"
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        pytest.skip("no split files beside the data")
    for path in paths:
        sites = make_sites(load_split_file(path))
        with np.load(path) as raw:
            assert len(sites) == json.loads(str(raw["meta"]))["num_clients"]
            for number, site in enumerate(sites):
                for code, part in enumerate((site.train, site.val, site.test)):
                    rows = (raw["client"] == number) & (raw["split"] == code)
                    assert np.array_equal(part.y, raw["y"][rows])
