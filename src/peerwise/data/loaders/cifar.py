"""CIFAR-10 and CIFAR-100: records of label bytes and 3072 pixel bytes."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path, PurePosixPath

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.files import Remote, fetch, first_of, missing, user_folder
from peerwise.errors import BrokenFile

PIXELS = 3 * 32 * 32
ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar.html"
LICENCE = "none stated; cite Krizhevsky 2009"
Files = dict[str, bytes]


def cifar10(data_dir: str | Path | None = None) -> Dataset:
    """Small photographs, up to 60,000 colour images of 32 x 32, 10 classes."""
    files = _find(
        "cifar10", data_dir, "cifar-10-batches-bin", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"
    )
    train = sorted(name for name in files if name.startswith("data_batch_") and name.endswith(".bin"))
    return _dataset("cifar10", files, train, "test_batch.bin", "batches.meta.txt", labels=1)


def cifar100(data_dir: str | Path | None = None) -> Dataset:
    """Small photographs, 60,000 colour images of 32 x 32, 100 fine classes (the coarse ones are a column)."""
    files = _find(
        "cifar100", data_dir, "cifar-100-binary", "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"
    )
    return _dataset("cifar100", files, ["train.bin"], "test.bin", "fine_label_names.txt", labels=2)


def _find(name: str, data_dir: str | Path | None, inner: str, archive: str, checksum: str) -> Files:
    layout = f"{inner}/*.bin with its .txt of class names, or {archive}"
    folder = user_folder(data_dir)
    if folder is None:
        remote = Remote(f"https://www.cs.toronto.edu/~kriz/{archive}", "md5:" + checksum, archive)
        return _unpack(fetch(name, remote, layout=layout, address=ADDRESS))
    path = first_of(folder, inner, f"{name}/{inner}", name, archive, f"{name}/{archive}")
    if path is None and data_dir is not None and any(folder.glob("*.bin")):
        path = folder
    if path is None:
        raise missing(name, folder, layout, ADDRESS)
    if path.is_file():
        return _unpack(path)
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.suffix in (".bin", ".txt")}


def _unpack(path: Path) -> Files:
    """The files of an archive, by their bare names; nothing is written."""
    files: Files = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    files[PurePosixPath(member.name).name] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        raise BrokenFile(f"{path} is truncated or damaged ({problem}); fetch it again.") from problem
    return files


def _dataset(name: str, files: Files, train: list[str], test: str, meta: str, labels: int) -> Dataset:
    batches = [*train, test]
    lacking = [file for file in (*batches, meta) if file not in files]
    if lacking or not train:
        raise BrokenFile(f"{name}: {', '.join(lacking) or 'data_batch_*.bin'} is missing beside {sorted(files)}.")
    records = np.concatenate([_records(name, file, files[file], labels) for file in batches])
    classes = tuple(files[meta].decode().split())
    columns = {
        "official_split": np.repeat(
            ["train", "test"], [len(records) - _count(files[test], labels), _count(files[test], labels)]
        )
    }
    if labels == 2:
        coarse = files.get("coarse_label_names.txt", b"").decode().split()
        columns["coarse"] = np.array(coarse)[records[:, 0]] if coarse else records[:, 0].astype(str)
    return Dataset(
        name=name,
        kind="image",
        X=records[:, labels:].reshape(-1, 3, 32, 32),
        y=records[:, labels - 1].astype(np.int64),
        classes=classes,
        columns=columns,
        source=ADDRESS,
        licence=LICENCE,
    )


def _count(data: bytes, labels: int) -> int:
    return len(data) // (PIXELS + labels)


def _records(name: str, file: str, data: bytes, labels: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    size = PIXELS + labels
    if not data or len(data) % size:
        raise BrokenFile(
            f"{name}: {file} has {len(data)} bytes, no whole number of records of {size} bytes; "
            "it is truncated or damaged, fetch it again."
        )
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
