"""Named data sets and files. The first line of a loader's docstring describes the data set."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.cifar import cifar10, cifar100
from peerwise.data.loaders.coloured import coloured_digits
from peerwise.data.loaders.domains import office_caltech10, pacs
from peerwise.data.loaders.eicu import eicu
from peerwise.data.loaders.embedded import digits, heart_disease
from peerwise.data.loaders.folder import load_folder
from peerwise.data.loaders.idx import fashion_mnist, mnist
from peerwise.data.loaders.splitfile import load_split_file
from peerwise.data.loaders.svhn import svhn
from peerwise.data.loaders.table import load_table
from peerwise.data.loaders.uci import adult, covertype, credit_default
from peerwise.errors import DataError, choices

__all__ = ["DATASETS", "load", "load_folder", "load_split_file", "load_table"]

Loader = Callable[..., Dataset]

DATASETS: dict[str, Loader] = {
    "heart_disease": heart_disease,
    "digits": digits,
    "coloured_digits": coloured_digits,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "svhn": svhn,
    "adult": adult,
    "covertype": covertype,
    "credit_default": credit_default,
    "office_caltech10": office_caltech10,
    "pacs": pacs,
    "eicu": eicu,
}
FILES: dict[str, Loader] = {".csv": load_table, ".gz": load_table, ".parquet": load_table, ".npz": load_split_file}


def load(name: str | Path, data_dir: str | Path | None = None, **options: Any) -> Dataset:
    """A data set by name, or from a file or folder: .csv, .csv.gz and .parquet (``target=`` needed), .npz, images.

    Files are read from ``data_dir``, else from the folder in the environment variable PEERWISE_DATA, else fetched from
    the official place into the user's cache.
    """
    if str(name) in DATASETS:
        loader = DATASETS[str(name)]
        _check_options(loader, str(name), options, given=1)
        return loader(data_dir, **options)
    path = Path(name)
    if path.suffix in FILES or path.is_dir():
        loader = load_folder if path.is_dir() else FILES[path.suffix]
        _check_options(loader, path.name, options, given=1)
        return loader(path, **options)
    raise DataError(
        choices(name, DATASETS, "data set") + " Or give a .csv, .parquet or .npz file, or a folder of images."
    )


def _check_options(loader: Loader, name: str, options: dict[str, Any], given: int) -> None:
    parameters = list(inspect.signature(loader).parameters.values())[given:]
    known = [parameter.name for parameter in parameters]
    for option in options:
        if option not in known:
            what = choices(option, known, "option") if known else f"unknown option {option!r}, there are none."
            raise DataError(f"{name}: {what}")
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in options:
            raise DataError(f"{name}: say which {parameter.name}, e.g. load({name!r}, {parameter.name}=...).")
