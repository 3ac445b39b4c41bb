"""Office-Caltech10 and PACS: the same classes seen in four domains."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.files import first_of, missing, user_folder
from peerwise.data.loaders.folder import load_folder
from peerwise.data.loaders.svhn import read_mat
from peerwise.data.rows import Feature, Kind
from peerwise.errors import BrokenFile

Arrays = dict[str, NDArray[Any]]
OFFICE = "https://github.com/jindongwang/transferlearning/tree/master/data"
PACS = "https://github.com/facebookresearch/DomainBed"
OFFICE_FILES = {"amazon": "amazon", "caltech": "Caltech10", "dslr": "dslr", "webcam": "webcam"}
OFFICE_CLASSES = (
    "back_pack",
    "touring_bike",
    "calculator",
    "head_phones",
    "computer_keyboard",
    "laptop_101",
    "computer_monitor",
    "computer_mouse",
    "coffee_mug",
    "video_projector",
)


def office_caltech10(data_dir: str | Path | None = None) -> Dataset:
    """Office objects by SURF features, 2,533 rows x 800, 10 classes, sites: amazon, caltech, dslr, webcam."""
    layout = "office_caltech10_surf/office_caltech10_surf.npz, or office_caltech10_surf/*_SURF_L10.mat"
    folder = user_folder(data_dir)
    if folder is None:
        raise missing("office_caltech10", None, layout, OFFICE)
    stem = "office_caltech10_surf"
    path = first_of(folder, f"{stem}/{stem}.npz", f"{stem}.npz")
    if path is not None:
        arrays = read_npz(path)
    else:
        inner = first_of(folder, stem) or folder
        if not all((inner / f"{file}_SURF_L10.mat").exists() for file in OFFICE_FILES.values()):
            raise missing("office_caltech10", folder, layout, OFFICE)
        arrays = _office_mat(inner)
    features = tuple(Feature(f"surf{place:03d}") for place in range(800))
    licence = "research use; Saenko et al. 2010, Griffin et al. 2007, Gong et al. 2012"
    return _dataset("office_caltech10", "table", arrays, features, OFFICE, licence)


def pacs(data_dir: str | Path | None = None) -> Dataset:
    """Photographs, paintings, cartoons and sketches, 9,991 colour images of 32 x 32, 7 classes, sites: the styles."""
    layout = "pacs/pacs_32px.npz, or PACS/{art_painting,cartoon,photo,sketch}/CLASS/*"
    folder = user_folder(data_dir)
    if folder is None:
        raise missing("pacs", None, layout, PACS)
    path = first_of(folder, "pacs/pacs_32px.npz", "pacs_32px.npz")
    if path is not None:
        return _dataset("pacs", "image", read_npz(path), (), PACS, "research use; Li et al. 2017")
    images = first_of(folder, "PACS/art_painting", "pacs/art_painting", "art_painting")
    if images is None:
        raise missing("pacs", folder, layout, PACS)
    return load_folder(images.parent, size=32, name="pacs")


def read_npz(path: Path) -> Arrays:
    """All arrays of an .npz file; nothing in it is ever executed."""
    try:
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, AttributeError) as problem:
        raise BrokenFile(f"{path} is truncated or no .npz of plain arrays ({problem}); fetch it again.") from problem


def _office_mat(folder: Path) -> Arrays:
    arrays: Arrays = {"class_names": np.array(OFFICE_CLASSES)}
    for domain, file in OFFICE_FILES.items():
        x, y = read_mat(folder / f"{file}_SURF_L10.mat", "fts", "labels")
        arrays[f"x_{domain}"], arrays[f"y_{domain}"] = x, y.reshape(-1).astype(np.int64) - 1
    return arrays


def _dataset(
    name: str, kind: Kind, arrays: Arrays, features: tuple[Feature, ...], source: str, licence: str
) -> Dataset:
    """One data set from arrays x_DOMAIN, y_DOMAIN and class_names; images come with their channels last."""
    domains = sorted(key[2:] for key in arrays if key.startswith("x_"))
    lacking = [key for key in ("class_names", *(f"y_{domain}" for domain in domains)) if key not in arrays]
    if not domains or lacking:
        raise BrokenFile(f"{name}: the file lacks {lacking or 'x_DOMAIN'}; it holds {sorted(arrays)}.")
    X = np.concatenate([arrays[f"x_{domain}"] for domain in domains])
    return Dataset(
        name=name,
        kind=kind,
        X=np.ascontiguousarray(X.transpose(0, 3, 1, 2)) if kind == "image" else X.astype(np.float32),
        y=np.concatenate([arrays[f"y_{domain}"] for domain in domains]).astype(np.int64),
        classes=tuple(str(label) for label in arrays["class_names"]),
        features=features,
        site=np.repeat(domains, [len(arrays[f"y_{domain}"]) for domain in domains]),
        source=source,
        licence=licence,
    )
