"""Images and sequences of a request."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Sequences
from peerwise.errors import choices
from peerwise.serve.refusal import Faults, Refusal, short

MOST_PIXELS = 25_000_000  # of a picture as it comes, before it is made smaller
FILTERS = threading.Lock()  # those of warnings are of all threads: two that change them would not change them back
FORMATS = {1: "L", 3: "RGB"}  # by channels
Shape = tuple[int, ...]


# ---- pixels as numbers ---------------------------------------------------------------------------------------------


def pictures(rows: list[dict[str, Any]], names: list[str], shape: Shape) -> tuple[NDArray[np.uint8], list[str]]:
    """(rows, channels, height, width) from ``pixels``; of grey images the channel may be left out."""
    faults = Faults()
    found = []
    for name, row in zip(names, rows, strict=True):
        _only(faults, name, row, ("pixels",))
        found.append(_pixels(faults, f"{name}.pixels", row.get("pixels"), shape))
    faults.check()
    return np.stack(found), []


def _pixels(faults: Faults, field: str, value: Any, shape: Shape) -> NDArray[np.uint8]:
    sizes = [list(shape[1:]), list(shape)] if shape[0] == 1 else [list(shape)]
    expected = f"a nested list of the size {' or '.join(map(str, sizes))}, whole numbers from 0 to 255"
    numbers = _array(value)
    if numbers is None or list(numbers.shape) not in sizes:
        faults.add(field, value if numbers is None else f"of the size {list(numbers.shape)}", expected)
    elif ((numbers < 0) | (numbers > 255) | (numbers != np.round(numbers))).any() or np.isnan(numbers).any():
        wrong = numbers[~((numbers >= 0) & (numbers <= 255) & (numbers == np.round(numbers)))]
        faults.add(field, "a list with a gap" if np.isnan(wrong[0]) else f"a list with {wrong[0]:g}", expected)
    else:
        return numbers.reshape(shape).astype(np.uint8)
    return np.zeros(shape, np.uint8)


# ---- sequences -----------------------------------------------------------------------------------------------------


def sequences(rows: list[dict[str, Any]], names: list[str], shapes: Mapping[str, Shape]) -> tuple[Sequences, list[str]]:
    """``static`` and ``series``; null is a missing value."""
    faults = Faults()
    parts: dict[str, list[NDArray[np.float32]]] = {"static": [], "series": []}
    for name, row in zip(names, rows, strict=True):
        _only(faults, name, row, tuple(parts))
        for part, found in parts.items():
            found.append(_numbers(faults, f"{name}.{part}", row.get(part), shapes[part]))
    faults.check()
    return Sequences(np.stack(parts["static"]), np.stack(parts["series"])), []


def _numbers(faults: Faults, field: str, value: Any, shape: Shape) -> NDArray[np.float32]:
    numbers = _array(value)
    expected = f"a nested list of the size {list(shape)}, numbers or null"
    if numbers is None or numbers.shape != shape:
        faults.add(field, value if numbers is None else f"of the size {list(numbers.shape)}", expected)
        return np.zeros(shape, np.float32)
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    if np.isinf(small).any():
        faults.add(field, f"a list with {numbers[np.isinf(small)][0]:g}", f"{expected}, at most 3.4e38")
    return small


def _only(faults: Faults, name: str, row: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in row:
        if key not in known:
            faults.add(f"{name}.{short(key)}", row[key], f"no such field ({choices(key[:200], known, 'field')})")


def _array(value: Any) -> NDArray[np.float64] | None:
    """A nested list as numbers, NaN for null; None for what is none, or has lists of different lengths."""
    if not isinstance(value, list):
        return None
    try:
        found = np.asarray(value)
        if found.dtype == object:  # with gaps, or with something else
            if not all(each is None or _is_number(each) for each in found.ravel().tolist()):
                return None
            return found.astype(np.float64)
    except (ValueError, OverflowError):
        return None
    return found.astype(np.float64) if found.dtype.kind in "iuf" else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---- picture files -------------------------------------------------------------------------------------------------


def picture_file(body: bytes, shape: Shape) -> tuple[NDArray[np.uint8], list[str]]:
    """A PNG or JPEG file, in the colours and the size of the task."""
    from PIL import Image, ImageOps

    channels, height, width = shape
    if channels not in FORMATS:
        raise Refusal(415, f"the task's images have {channels} channels: expected their pixels as JSON, not a file.")
    try:
        with FILTERS, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(body), formats=("PNG", "JPEG"))
        if picture.width * picture.height > MOST_PIXELS:  # before anything is unpacked
            raise Image.DecompressionBombError
        upright = ImageOps.exif_transpose(_eight_bits(picture))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refusal(
            413, f"the picture has more than {MOST_PIXELS:,} pixels: expected at most that. Make it smaller."
        ) from None
    except (OSError, ValueError, SyntaxError) as error:
        kind = type(error).__name__
        raise Refusal(422, f"the picture cannot be read ({kind}): expected a whole PNG or JPEG file.") from None
    notes = []
    if upright.size != (width, height):
        notes.append(f"the picture of {upright.width} x {upright.height} pixels was resized to {width} x {height}.")
    made = upright.convert(FORMATS[channels]).resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(made, np.uint8)
    return (pixels[None, None] if channels == 1 else pixels.transpose(2, 0, 1)[None]), notes


def _eight_bits(picture: Any) -> Any:
    """Deep grey values keep their upper eight bits: converted, they would all be white."""
    from PIL import Image

    if not picture.mode.startswith("I"):
        picture.load()
        return picture
    return Image.fromarray((np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
