"""Image sets in their official formats, written small here, and what is refused in them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from peerwise.data import load, load_folder, make_sites
from peerwise.errors import BrokenFile, DataError, MissingData

RNG = np.random.default_rng(0)


def idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder: Path, packed: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    folder.mkdir(parents=True)
    images = RNG.integers(0, 256, (30, 28, 28), dtype=np.uint8)
    labels = (np.arange(30) % 10).astype(np.uint8)
    parts = {"train-images-idx3": images[:20], "train-labels-idx1": labels[:20]}
    parts |= {"t10k-images-idx3": images[20:], "t10k-labels-idx1": labels[20:]}
    for name, array in parts.items():
        data = idx(array)
        (folder / f"{name}-ubyte{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    return images


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "mnist"), ("fashion_mnist", "fashion-mnist")])
def test_idx_files_packed_or_not(tmp_path: Path, packed: bool, name: str, folder: str) -> None:
    images = write_mnist(tmp_path / folder, packed)
    data = load(name, tmp_path)
    assert np.array_equal(np.asarray(data.X), images[:, None])
    assert data.y.tolist() == [i % 10 for i in range(30)]
    assert data.columns["official_split"].tolist() == ["train"] * 20 + ["test"] * 10
    assert len(data.classes) == 10


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "mnist", packed=True)
    monkeypatch.setenv("PEERWISE_DATA", str(tmp_path))
    assert len(load("mnist")) == 30


@pytest.mark.parametrize("packed", [True, False])
def test_a_truncated_idx_file_is_refused(tmp_path: Path, packed: bool) -> None:
    write_mnist(tmp_path / "mnist", packed)
    path = next((tmp_path / "mnist").glob("train-images*"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BrokenFile, match=r"train-images.*truncated or damaged.*fetch it again"):
        load("mnist", tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00\x00", b"<html>not here</html>", b"\x00\x00\x08\x03\x00"])
def test_what_is_no_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    write_mnist(tmp_path / "mnist", packed=False)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(content)
    with pytest.raises(BrokenFile, match="t10k-labels"):
        load("mnist", tmp_path)


def test_images_and_labels_of_different_length_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", packed=False)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(3, np.uint8)))
    with pytest.raises(BrokenFile, match="do not belong together"):
        load("mnist", tmp_path)


def records(rows: int, labels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    data = RNG.integers(0, 256, (rows, labels + 3072), dtype=np.uint8)
    data[:, :labels] %= 10
    return data


def write_cifar10(folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    folder.mkdir(parents=True)
    data = records(17, 1)
    for name, rows in {"data_batch_1": data[:9], "data_batch_2": data[9:12], "test_batch": data[12:]}.items():
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    return data


def test_cifar10_reads_every_batch_that_is_there(tmp_path: Path) -> None:
    written = write_cifar10(tmp_path / "cifar-10-batches-bin")
    data = load("cifar10", tmp_path)
    assert np.array_equal(np.asarray(data.X), written[:, 1:].reshape(-1, 3, 32, 32))
    assert np.array_equal(data.y, written[:, 0])
    assert data.classes == tuple("abcdefghij")
    assert (data.columns["official_split"] == "test").sum() == 5


def test_cifar10_from_the_official_archive(tmp_path: Path) -> None:
    written = write_cifar10(tmp_path / "made" / "cifar-10-batches-bin")
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "made" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    before = sorted(tmp_path.rglob("*"))
    assert np.array_equal(load("cifar10", tmp_path).y, written[:, 0])
    assert sorted(tmp_path.rglob("*")) == before
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(BrokenFile, match="truncated or damaged"):
        load("cifar10", tmp_path)


def test_cifar100_has_fine_classes_and_coarse_ones_beside(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    train, test = records(8, 2), records(4, 2)
    (folder / "train.bin").write_bytes(train.tobytes())
    (folder / "test.bin").write_bytes(test.tobytes())
    (folder / "fine_label_names.txt").write_text("\n".join(f"fine{i}" for i in range(100)))
    (folder / "coarse_label_names.txt").write_text("\n".join(f"coarse{i}" for i in range(20)))
    data = load("cifar100", tmp_path)
    assert np.array_equal(data.y, np.concatenate([train, test])[:, 1])
    assert data.columns["coarse"][0] == f"coarse{train[0, 0]}"
    assert np.asarray(data.X).shape == (12, 3, 32, 32)


def test_a_truncated_cifar_record_is_refused(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-bin")
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(BrokenFile, match=r"data_batch_2.bin has 9212 bytes, no whole number of records of 3073 bytes"):
        load("cifar10", tmp_path)


def test_a_cifar_folder_without_class_names_says_which_file_is_missing(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / "batches.meta.txt").unlink()
    with pytest.raises(BrokenFile, match=r"batches.meta.txt is missing"):
        load("cifar10", tmp_path)


def write_svhn(folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    folder.mkdir()
    images = RNG.integers(0, 256, (32, 32, 3, 12), dtype=np.uint8)
    labels = np.array([*range(1, 11), 1, 2], dtype=np.uint8)[:, None]
    savemat(folder / "train_32x32.mat", {"X": images[..., :8], "y": labels[:8]})
    savemat(folder / "test_32x32.mat", {"X": images[..., 8:], "y": labels[8:]})
    return images


def test_svhn_calls_the_tenth_label_zero(tmp_path: Path) -> None:
    images = write_svhn(tmp_path / "svhn")
    data = load("svhn", tmp_path)
    assert data.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert np.array_equal(np.asarray(data.X)[5], images[..., 5].transpose(2, 0, 1))


def test_a_truncated_mat_file_is_refused(tmp_path: Path) -> None:
    write_svhn(tmp_path / "svhn")
    path = tmp_path / "svhn" / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(BrokenFile, match=r"test_32x32.mat is truncated or no MATLAB file"):
        load("svhn", tmp_path)
    savemat(path, {"Z": np.zeros(3)})
    with pytest.raises(BrokenFile, match="holds no array X, y"):
        load("svhn", tmp_path)


def write_images(root: Path, *folders: str, each: int = 3) -> None:
    for number, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        for place in range(each):
            Image.new("RGB", (40, 24), (number, place, 7)).save(root / folder / f"{place}.png")


def test_a_folder_a_class(tmp_path: Path) -> None:
    write_images(tmp_path / "pets", "dog", "cat")
    data = load(tmp_path / "pets", size=16)
    assert data.classes == ("cat", "dog")
    assert data.site is None
    X = np.asarray(data.X)
    assert X.shape == (6, 3, 16, 16)
    assert X.dtype == np.uint8
    assert X[0, :, 5, 5].tolist() == [1, 0, 7]
    assert load_folder(tmp_path / "pets", channels=1).X[0].shape == (1, 32, 32)  # type: ignore[union-attr]


def test_a_folder_a_domain_makes_natural_sites(tmp_path: Path) -> None:
    write_images(tmp_path / "PACS", *(f"{d}/{c}" for d in ("art_painting", "photo") for c in ("dog", "horse")))
    data = load("pacs", tmp_path)
    assert data.name == "pacs"
    assert data.classes == ("dog", "horse")
    assert [site.name for site in make_sites(data, "natural")] == ["art_painting", "photo"]


def test_a_mixed_folder_and_an_empty_one_are_refused(tmp_path: Path) -> None:
    write_images(tmp_path / "mixed", "dog", "photo/cat")
    with pytest.raises(DataError, match=r"depths \[2, 3\]; lay them out all as class/image.png"):
        load_folder(tmp_path / "mixed")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds 0 images"):
        load_folder(tmp_path / "empty")
    with pytest.raises(MissingData, match="is no folder"):
        load_folder(tmp_path / "nowhere")
    write_images(tmp_path / "one", "dog")
    with pytest.raises(DataError, match=r"1 class \['dog'\]"):
        load_folder(tmp_path / "one")


def test_a_truncated_image_is_refused_by_name(tmp_path: Path) -> None:
    write_images(tmp_path / "pets", "dog", "cat")
    content = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(content, "png")
    (tmp_path / "pets" / "dog" / "bad.png").write_bytes(content.getvalue()[:2000])
    with pytest.raises(BrokenFile, match=r"bad.png is truncated or no image"):
        load_folder(tmp_path / "pets")


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("mnist", "mnist/"),
        ("fashion_mnist", "fashion-mnist/"),
        ("cifar10", "cifar-10-batches-bin/"),
        ("cifar100", "cifar-100-binary/"),
        ("svhn", "svhn/"),
        ("pacs", "pacs/pacs_32px.npz"),
        ("office_caltech10", "office_caltech10_surf/"),
        ("adult", "adult/"),
        ("covertype", "covertype/"),
        ("credit_default", "credit_default/"),
    ],
)
def test_a_folder_without_the_data_says_where_to_get_it_and_how_to_lay_it_out(
    tmp_path: Path, name: str, layout: str
) -> None:
    with pytest.raises(MissingData, match=rf"get it from http.* lay it out as {layout}.*PEERWISE_DATA"):
        load(name, tmp_path)


@pytest.mark.parametrize("name", ["pacs", "office_caltech10", "credit_default"])
def test_what_is_never_fetched_says_so_without_a_folder(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    with pytest.raises(MissingData, match="no data folder is named; get it from http"):
        load(name)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingData, match=r"data_dir is .*nowhere', which is no folder"):
        load("mnist", tmp_path / "nowhere")
    monkeypatch.setenv("PEERWISE_DATA", str(tmp_path / "gone"))
    with pytest.raises(MissingData, match=r"PEERWISE_DATA is .*gone', which is no folder"):
        load("mnist")


def test_an_unknown_data_set_and_an_unknown_option_name_the_choices() -> None:
    with pytest.raises(DataError, match="unknown data set 'cifar': did you mean 'cifar10'"):
        load("cifar")
    with pytest.raises(DataError, match="digits: "):
        load("digits", size=3)
