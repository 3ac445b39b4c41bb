"""Named data sets and files. The first line of a loader's docstring describes the data set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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
from peerwise.registry import find_registered, is_import_path, is_registered, registered_names

__all__ = ["DATASETS", "load", "load_folder", "load_split_file", "load_table", "made_dataset"]

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
    """A data set by name or as ``module:function``, or from a file or folder: .csv, .csv.gz and .parquet (``target=``
    needed), .npz, images.

    Files are read from ``data_dir``, else from the folder in the environment variable PEERWISE_DATA, else fetched from
    the official place into the user's cache.
    """
    path = Path(name)
    if is_registered(str(name), "datasets") or (is_import_path(str(name)) and not path.exists()):
        return made_dataset(find_registered(str(name), "datasets"), str(name), data_dir, options)
    if path.suffix in FILES or path.is_dir():
        loader = load_folder if path.is_dir() else FILES[path.suffix]
        _check_options(loader, path.name, options, given=next(iter(inspect.signature(loader).parameters)))
        return loader(path, **options)
    raise DataError(
        choices(name, registered_names("datasets"), "data set")
        + " Or give a .csv, .parquet or .npz file, a folder of images, or a function as 'module:function'."
    )


def made_dataset(
    loader: Any, name: str, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """What a function returns that was given these options, and ``data_dir`` where it has such a parameter; or the data
    set itself."""
    if isinstance(loader, Dataset):
        return loader
    if not callable(loader):
        raise DataError(f"data set {name!r} is a {type(loader).__name__}: expected a function that returns a Dataset.")
    _check_options(loader, name, options or {}, given="data_dir")
    place = {"data_dir": data_dir} if "data_dir" in inspect.signature(loader).parameters else {}
    found = loader(**place, **(options or {}))
    if not isinstance(found, Dataset):
        raise DataError(f"data set {name!r} returned a {type(found).__name__}: expected a peerwise.Dataset.")
    return found


def _check_options(loader: Loader, name: str, options: Mapping[str, Any], given: str) -> None:
    every = [p for p in inspect.signature(loader).parameters.values() if p.name != given]
    parameters = [p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    known = [parameter.name for parameter in parameters]
    for option in options:
        if option not in known and not any(p.kind is p.VAR_KEYWORD for p in every):
            what = choices(option, known, "option") if known else f"unknown option {option!r}, there are none."
            raise DataError(f"{name}: {what}")
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in options:
            flag = "--target" if parameter.name == "target" else f"--set options.{parameter.name}="
            raise DataError(
                f"{name}: say which {parameter.name}, e.g. load({name!r}, {parameter.name}=...), or {flag} on the "
                f"command line."
            )
