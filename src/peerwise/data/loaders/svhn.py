"""Street View House Numbers: MATLAB files of cropped digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.files import Remote, fetch, first_of, missing, user_folder
from peerwise.errors import BrokenFile

ADDRESS = "http://ufldl.stanford.edu/housenumbers/"
FILES = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
LAYOUT = "svhn/{train_32x32.mat,test_32x32.mat}"


def svhn(data_dir: str | Path | None = None) -> Dataset:
    """House numbers from the street, 99,289 colour images of 32 x 32, 10 classes."""
    parts = [_read(path) for path in _find(data_dir)]
    return Dataset(
        name="svhn",
        kind="image",
        X=np.concatenate([images for images, _ in parts]),
        y=np.concatenate([labels for _, labels in parts]),
        classes=tuple("0123456789"),
        columns={"official_split": np.repeat(["train", "test"], [len(labels) for _, labels in parts])},
        source=ADDRESS,
        licence="non-commercial use; Netzer et al. 2011",
    )


def _find(data_dir: str | Path | None) -> list[Path]:
    folder = user_folder(data_dir)
    if folder is None:
        remotes = [Remote(ADDRESS + name, "md5:" + checksum, name) for name, checksum in FILES.items()]
        return [fetch("svhn", remote, layout=LAYOUT, address=ADDRESS) for remote in remotes]
    found = [path for name in FILES if (path := first_of(folder, f"svhn/{name}", f"SVHN/{name}", name)) is not None]
    if len(found) < len(FILES):
        raise missing("svhn", folder, LAYOUT, ADDRESS)
    return found


def read_mat(path: Path, *names: str) -> list[NDArray[Any]]:
    """Arrays of a MATLAB file by name; a truncated file or one without them is refused."""
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=list(names))
    except Exception as problem:  # scipy raises a different kind for every way a file can be broken
        raise BrokenFile(f"{path} is truncated or no MATLAB file ({problem}); fetch it again.") from problem
    lacking = [name for name in names if name not in content]
    if lacking:
        raise BrokenFile(f"{path} holds no array {', '.join(lacking)}; this is not the official file.")
    return [np.asarray(content[name]) for name in names]


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images, labels = read_mat(path, "X", "y")
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.shape[3] != labels.size:
        raise BrokenFile(f"{path}: X is {images.shape}, y {labels.shape}; expected (32, 32, 3, n) and (n, 1).")
    # the official files call the digit zero 10
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.reshape(-1).astype(np.int64) % 10
