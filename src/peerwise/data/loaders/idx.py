"""MNIST and Fashion-MNIST: IDX files, packed or not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.files import Remote, fetch, first_of, missing, read_bytes, user_folder
from peerwise.errors import BrokenFile

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot")


def mnist(data_dir: str | Path | None = None) -> Dataset:
    """Handwritten digits, 70,000 grey images of 28 x 28, 10 classes."""
    checksums = (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    )
    paths = _find(
        "mnist", data_dir, ("mnist", "MNIST/raw"), "https://ossci-datasets.s3.amazonaws.com/mnist/", checksums
    )
    licence = "CC BY-SA 3.0; LeCun, Cortes, Burges"
    return _dataset("mnist", paths, tuple("0123456789"), "http://yann.lecun.com/exdb/mnist/", licence)


def fashion_mnist(data_dir: str | Path | None = None) -> Dataset:
    """Pieces of clothing, 70,000 grey images of 28 x 28, 10 classes."""
    checksums = (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    )
    folders = ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")
    address = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
    paths = _find("fashion_mnist", data_dir, folders, address, checksums)
    return _dataset("fashion_mnist", paths, CLOTHES, "https://github.com/zalandoresearch/fashion-mnist", "MIT")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes."""
    data = read_bytes(path)
    if data[:3] != b"\x00\x00\x08" or not 1 <= max(data[3:4], default=0) <= 4 or len(data) < 4 + 4 * data[3]:
        raise BrokenFile(
            f"{path} is no IDX file of bytes (it begins with {data[:4].hex() or 'nothing'}); fetch it again."
        )
    start = 4 + 4 * data[3]
    shape = tuple(int(size) for size in np.frombuffer(data[4:start], dtype=">u4"))
    if len(data) - start != math.prod(shape):
        raise BrokenFile(
            f"{path} holds {len(data) - start} bytes of data, its header promises {math.prod(shape)}; "
            "it is truncated or damaged, fetch it again."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _find(
    name: str, data_dir: str | Path | None, folders: tuple[str, ...], address: str, checksums: tuple[str, ...]
) -> list[Path]:
    layout = f"{folders[0]}/{{{','.join(NAMES)}}}, each plain or .gz"
    folder = user_folder(data_dir)
    if folder is None:
        remotes = [Remote(address + n + ".gz", "md5:" + c, n + ".gz") for n, c in zip(NAMES, checksums, strict=True)]
        return [fetch(name, remote, layout=layout, address=address) for remote in remotes]
    places = [f"{place}/" for place in folders]
    if data_dir is not None:
        places.append("")  # files straight in the folder could be of either set: only where it was named for this call
    paths = [first_of(folder, *(p + n + end for p in places for end in (".gz", ""))) for n in NAMES]
    found = [path for path in paths if path is not None]
    if len(found) < len(NAMES):
        raise missing(name, folder, layout, address)
    return found


def _dataset(name: str, paths: list[Path], classes: tuple[str, ...], source: str, licence: str) -> Dataset:
    arrays: list[NDArray[Any]] = [read_idx(path) for path in paths]
    for images, labels, path in ((arrays[0], arrays[1], paths[0]), (arrays[2], arrays[3], paths[2])):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise BrokenFile(
                f"{path}: images are {images.shape} and labels {labels.shape}; the files do not belong together."
            )
    part = np.repeat(["train", "test"], [len(arrays[1]), len(arrays[3])])
    return Dataset(
        name=name,
        kind="image",
        X=np.concatenate([arrays[0], arrays[2]])[:, None],
        y=np.concatenate([arrays[1], arrays[3]]).astype(np.int64),
        classes=classes,
        columns={"official_split": part},
        source=source,
        licence=licence,
    )
