"""From the cells of a local table to numbers and codes; what cannot be read is listed, not guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from numpy.typing import NDArray

from peerwise.data.task.values import LARGEST, MISSING

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")


@dataclass(frozen=True)
class Read:
    """A column as float64, NaN where there is no value; the texts that mean nothing here, with the number of rows."""

    values: NDArray[np.float64]
    unknown: dict[str, int]


def numbers(cells: pd.Series[Any], codes: Mapping[str, str]) -> Read:
    if pd.api.types.is_numeric_dtype(cells) and not codes:
        found = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        with np.errstate(over="ignore"):
            endless = np.isinf(found.astype(np.float32))
        wrong, counts = np.unique(found[endless], return_counts=True)
        unknown = {str(value): int(count) for value, count in zip(wrong, counts, strict=True)}
        return Read(np.where(endless | np.isnan(found), np.nan, found), unknown)
    at_once = None if codes else _plain_numbers(cells)
    if at_once is not None:
        return Read(at_once, {})
    return _read(cells, lambda text: number_of(_meant(text, codes, ())))


def _plain_numbers(cells: pd.Series[Any]) -> NDArray[np.float64] | None:
    """Text cells read at once, which is much faster; None unless all are plain numbers or missing."""
    known = cells.where(~cells.isin(MISSING))
    try:
        read = pyarrow.array(known, pyarrow.string(), from_pandas=True).cast(pyarrow.float64())
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return None
    found: NDArray[np.float64] = read.to_numpy(zero_copy_only=False)
    plain = np.abs(found) <= LARGEST
    return found if (plain | known.isna().to_numpy()).all() else None


def codes_of(cells: pd.Series[Any], known: Sequence[str], codes: Mapping[str, str]) -> Read:
    """The place of each value among the known ones."""
    places = {value: float(place) for place, value in enumerate(known)}
    return _read(cells, lambda text: place_of(text, places, codes))


def place_of(text: str, places: Mapping[str, float], codes: Mapping[str, str]) -> float | None:
    """Where one text stands among the known values: NaN for a missing one, None for one that is not known."""
    meant = _meant(text, codes, places)
    return float("nan") if meant not in places and meant in MISSING else places.get(meant)


def named(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Names of groups, as text: as numbers, long ones would run into each other."""
    return _known(cells).map(lambda text: same[1] if (same := WHOLE.fullmatch(text)) else text, na_action="ignore")


def in_time(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers where all are, else dates or whatever there is."""
    if pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_datetime64_any_dtype(cells):
        return cells
    found = _known(cells)
    return found.map(float) if all(isinstance(text, str) and NUMBER.fullmatch(text) for text in found) else found


def _known(cells: pd.Series[Any]) -> pd.Series[Any]:
    found = cells.map(_text, na_action="ignore")
    return found.where(~found.isin(MISSING))


def _read(cells: pd.Series[Any], meaning: Callable[[str], float | None]) -> Read:
    """``meaning`` is asked once for each different text; None: it has none."""
    places, different = pd.factorize(cells)
    texts = [_text(cell) for cell in different]
    meanings = [meaning(text) for text in texts]
    found = np.array([np.nan if value is None else value for value in meanings] + [np.nan])
    counts = np.bincount(places[places >= 0], minlength=len(texts))
    unknown: dict[str, int] = {}
    for text, value, count in zip(texts, meanings, counts.tolist(), strict=True):
        if value is None:
            unknown[text] = unknown.get(text, 0) + count
    return Read(found[places], unknown)


def _text(cell: Any) -> str:
    return str(cell).strip()


def _meant(text: str, codes: Mapping[str, str], known: Any) -> str:
    """What a text stands for; "1.0", as tables with gaps have it, is also found as "1"."""
    same = WHOLE.fullmatch(text)
    for spelled in (text, same[1]) if same else (text,):
        if spelled in codes:
            return codes[spelled]
        if spelled in known:
            return spelled
    return text


def number_of(text: str) -> float | None:
    """NaN for a missing value, None for what is no number."""
    if text in MISSING:
        return float("nan")
    if not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) <= LARGEST else None
