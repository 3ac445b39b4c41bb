"""Features by name: what a published model needs to know of its columns, and another site's rows as that model takes
them. Horizontal, vertical and hybrid federations are the same here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Feature, Inputs, Sequences, Site
from peerwise.errors import DataError, ParcelError
from peerwise.models.onnx_model import OnnxAnswers

# As it is sent and kept: "features" [[name, [category, ...]], ...] and "defaults" [value or None, ...] in their order,
# which no name of a column can spoil.
Schema = dict[str, Any]
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Match:
    """For each column that a model takes: the column here that feeds it (-1: none, then its default), and for a
    category the model's code of each code here (NaN: the model does not know that category, so it is missing)."""

    source: tuple[int, ...]
    defaults: NDArray[np.float32]
    codes: tuple[NDArray[np.float32] | None, ...]

    @property
    def changes_nothing(self) -> bool:
        return self.source == tuple(range(len(self.source))) and not any(code is not None for code in self.codes)

    def inputs(self, X: Inputs) -> Inputs:
        """These rows as the model takes them."""
        assert not isinstance(X, Sequences)
        found = np.repeat(self.defaults[None], len(X), axis=0)
        for place, (column, codes) in enumerate(zip(self.source, self.codes, strict=True)):
            if column >= 0:
                values = np.asarray(X[:, column], np.float32)
                found[:, place] = values if codes is None else _translated(values, codes)
        return found


def columns_at(site: Site) -> tuple[Feature, ...]:
    """The named columns of a site's table; images and sequences have none, and are taken as they are."""
    return site.features if site.kind == "table" else ()


def schema_of(site: Site, defaults: Mapping[str, float | None]) -> Schema:
    """What is published beside a model of this site's rows."""
    columns = columns_at(site)
    features = [[feature.name, list(feature.categories)] for feature in columns]
    return {"features": features, "defaults": [defaults[feature.name] for feature in columns]}


def defaults_of(site: Site, noise: float, rng: np.random.Generator) -> dict[str, float | None]:
    """One value a feature: for a number the median of the train rows + N(0, (noise x their standard deviation)^2), for
    a category its most frequent code; None, which stands for a missing value, where no value is known."""
    found: dict[str, float | None] = {}
    for place, feature in enumerate(columns_at(site)):
        column = np.asarray(site.train.X)[:, place].astype(np.float64)
        known = column[~np.isnan(column)]
        drawn = rng.normal()  # for every feature, so that none depends on what is missing in those before it
        if not len(known):
            found[feature.name] = None
        elif feature.is_category:
            found[feature.name] = float(np.bincount(known.astype(np.int64)).argmax())
        else:
            found[feature.name] = float(np.median(known) + noise * known.std() * drawn)
    return found


def read_schema(parcel: Mapping[str, Any], sender: str) -> Schema:
    """The features and defaults that a peer sent, checked."""
    features, defaults = parcel.get("features"), parcel.get("defaults")
    if not isinstance(features, list) or not isinstance(defaults, list) or len(features) != len(defaults):
        raise ParcelError(
            f"site {sender!r} sent no features that can be read: expected a list of names with categories, and a list "
            f"of as many defaults."
        )
    for feature in features:
        if not _is_feature(feature):
            raise ParcelError(
                f"site {sender!r} sent the feature {str(feature)[:80]}: expected a name with a list of categories, "
                f"each once."
            )
    names = [name for name, _ in features]
    if len(set(names)) < len(names):
        raise ParcelError(f"site {sender!r} sent features {str(names)[:200]}: expected every name once.")
    values = [
        _default(value, name, len(categories), sender)
        for value, (name, categories) in zip(defaults, features, strict=True)
    ]
    return {"features": [[name, list(categories)] for name, categories in features], "defaults": values}


def check_width(model: OnnxAnswers, wanted: int) -> None:
    """Refuse a model that does not take as many columns as its site says that it has, before any are made for it."""
    shapes = list(model.input_shapes.values())
    found = [shape[1] for shape in shapes if len(shape) == 2]
    if len(shapes) != 1 or found != [wanted]:
        takes = f"{found[0]} columns" if len(shapes) == 1 and found and found[0] > 0 else "no known number of columns"
        raise ParcelError(
            f"model {model.name!r} takes {takes}, and its site declares {wanted} features: expected as many."
        )


def match(schema: Schema, features: tuple[Feature, ...], sender: str) -> Match | None:
    """How rows with ``features`` become rows of the sender's models; None where they are taken as they are: they have
    no named columns, or the very same ones."""
    theirs = tuple(Feature(name, tuple(categories)) for name, categories in schema["features"])
    if not features:
        return None
    if not theirs:
        raise ParcelError(f"site {sender!r} sent no features: expected the names of its columns, as this is a table.")
    place = {feature.name: number for number, feature in enumerate(features)}
    codes: list[NDArray[np.float32] | None] = []
    for wanted in theirs:
        mine = features[place[wanted.name]] if wanted.name in place else wanted
        if mine.is_category != wanted.is_category:
            raise DataError(
                f"feature {wanted.name!r} is a {_kind(wanted)} at site {sender!r} and a {_kind(mine)} here: expected "
                f"the same type. Rename one of them, or recode it."
            )
        codes.append(None if mine.categories == wanted.categories else _codes(mine, wanted))
    source = tuple(place.get(feature.name, -1) for feature in theirs)
    defaults = np.array([np.nan if value is None else value for value in schema["defaults"]], np.float32)
    found = Match(source, defaults, tuple(codes))
    return None if found.changes_nothing and len(theirs) == len(features) else found


def _is_feature(feature: Any) -> bool:
    if not isinstance(feature, list | tuple) or len(feature) != 2:
        return False
    name, categories = feature
    if not isinstance(name, str) or not isinstance(categories, list | tuple):
        return False
    return all(isinstance(each, str) for each in categories) and len(set(categories)) == len(categories)


def _default(value: Any, name: str, categories: int, sender: str) -> float | None:
    """A value that float32 can hold; of a category, one of its codes."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if not is_number or (categories and value not in range(categories)):
        wanted = f"a code from 0 to {categories - 1}" if categories else "a number that float32 can hold"
        raise ParcelError(
            f"site {sender!r} sent the default {str(value)[:80]} of {name!r}: expected {wanted}, or none."
        )
    return float(value)


def _codes(mine: Feature, wanted: Feature) -> NDArray[np.float32]:
    known = {category: code for code, category in enumerate(wanted.categories)}
    return np.array([known.get(category, np.nan) for category in mine.categories], np.float32)


def _translated(values: NDArray[np.float32], codes: NDArray[np.float32]) -> NDArray[np.float32]:
    missing = np.isnan(values)
    places = np.where(missing, 0, values).astype(np.int64)
    unknown = missing | (places < 0) | (places >= len(codes))
    return np.where(unknown, np.float32(np.nan), codes[np.where(unknown, 0, places)])


def _kind(feature: Feature) -> str:
    return "category" if feature.is_category else "number"
