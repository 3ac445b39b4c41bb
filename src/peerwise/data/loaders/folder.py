"""A folder of images: one folder a class, or one folder a domain with one folder a class in each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from peerwise.data.dataset import Dataset
from peerwise.errors import BrokenFile, DataError, MissingData

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})


def load_folder(path: str | Path, *, size: int = 32, channels: int = 3, name: str | None = None) -> Dataset:
    """Images under ``class/`` or ``domain/class/``, brought to ``size`` x ``size`` pixels; a domain is a site."""
    root = Path(path)
    if not root.is_dir():
        raise MissingData(f"{root} is no folder; give one with a folder of images a class.")
    if channels not in (1, 3) or size < 1:
        raise DataError(
            f"channels={channels}, size={size}; use 1 (grey) or 3 (colour) channels, and a size of at least 1."
        )
    files = _files(root)
    depths = {len(file.relative_to(root).parts) for file in files}
    if (not depths <= {2} and not depths <= {3}) or not files:
        raise DataError(
            f"{root} holds {len(files)} images at depths {sorted(depths)}; "
            "lay them out all as class/image.png, or all as domain/class/image.png."
        )
    labels = [file.parent.name for file in files]
    classes = tuple(sorted(set(labels)))
    code = {label: place for place, label in enumerate(classes)}
    return Dataset(
        name=name or root.name,
        kind="image",
        X=np.stack([_read(file, size, channels) for file in files]),
        y=np.array([code[label] for label in labels], dtype=np.int64),
        classes=classes,
        site=np.array([file.parent.parent.name for file in files]) if depths == {3} else None,
        columns={"file": np.array([str(file.relative_to(root)) for file in files])},
        source=root.name,
    )


def _files(root: Path) -> list[Path]:
    found = (file for file in root.rglob("*") if file.suffix.lower() in ENDINGS and not file.name.startswith("."))
    return sorted(file for file in found if file.is_file())


def _read(file: Path, size: int, channels: int) -> NDArray[np.uint8]:
    try:
        with Image.open(file) as image:
            picture = image.convert("L" if channels == 1 else "RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as problem:
        raise BrokenFile(f"{file} is truncated or no image ({problem}); replace or remove it.") from problem
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.LANCZOS)
    pixels = np.asarray(picture, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
