"""What all members of a federation agree on: classes, features with units and ranges, metric, public rows."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import tomli_w

from peerwise.data.rows import Feature, Kind
from peerwise.data.task import values
from peerwise.errors import ConfigError

FORMAT = 1
LONGEST_TEXT = 4_000_000  # characters
MOST_FEATURES = 10_000
MOST_ROWS = 100_000_000  # of a public set
MOST_NUMBERS = 16_000_000  # of one row of an image or a sequence
KINDS = ("table", "image", "sequence")
# The names that `peerwise.metrics.scores` gives its figures.
METRICS = (
    "accuracy",
    "balanced_accuracy",
    "auroc",
    "auprc",
    "sensitivity",
    "specificity",
    "ece",
    "log_loss",
    "brier",
)
PUBLIC = ("name", "sha256", "rows")
AXES: dict[str, dict[str, tuple[str, ...]]] = {
    "image": {"x": ("channels", "height", "width")},
    "sequence": {"static": ("columns",), "series": ("times", "columns")},
}


@dataclass(frozen=True)
class TaskFeature:
    """One column of a table: a number with its unit and the range it can be in, or a category with its values in code
    order."""

    name: str
    type: Literal["number", "category"] = "number"
    unit: str = ""
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values.name(self.name, "the name of a feature")
        what = f"feature {self.name!r}"
        values.one_of(self.type, ("number", "category"), "type", what)
        if self.type == "category":
            object.__setattr__(self, "values", values.names(self.values, f"{what}, values", 1))
            if self.unit != "" or self.low is not None or self.high is not None:
                raise ConfigError(f"{what} is a category: expected no unit, low or high. Leave them out.")
            return
        if self.values != ():
            raise ConfigError(f"{what} is a number: expected no values. Leave them out, or say type = 'category'.")
        if self.unit != "":
            values.name(self.unit, f"{what}, unit")
        for end in ("low", "high"):
            object.__setattr__(self, end, values.limit(getattr(self, end), f"{what}, {end}"))
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigError(f"{what} goes from {self.low:g} to {self.high:g}: expected low below high.")

    def content(self) -> dict[str, Any]:
        if self.type == "category":
            return {"name": self.name, "type": self.type, "values": list(self.values)}
        known = {"unit": self.unit or None, "low": self.low, "high": self.high}
        return {"name": self.name, "type": self.type} | {
            key: value for key, value in known.items() if value is not None
        }


@dataclass(frozen=True)
class PublicRows:
    """Unlabelled rows that every site has: their name, the sha256 of the inputs (`peerwise.data.digest`), how many."""

    name: str
    sha256: str
    rows: int

    def __post_init__(self) -> None:
        values.name(self.name, "public, name")
        values.sha256(self.sha256, "public, sha256")
        values.whole(self.rows, "public, rows", MOST_ROWS)


@dataclass(frozen=True)
class Task:
    """The agreement. ``features`` belong to a table; images have ``shape = {"x": (channels, height, width)}``,
    sequences ``{"static": (columns,), "series": (times, columns)}``. Classes, features and values of a category are
    known by name, and their order is the order of codes. ``positive`` is the class to be found, of more than two
    classes perhaps none."""

    name: str
    kind: Kind
    classes: tuple[str, ...]
    target: str
    features: tuple[TaskFeature, ...] = ()
    positive: str | None = None
    metric: str = "balanced_accuracy"
    shape: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    public: PublicRows | None = None

    def __post_init__(self) -> None:
        values.name(self.name, "name")
        values.one_of(self.kind, KINDS, "kind")
        object.__setattr__(self, "classes", values.names(self.classes, "classes", 2))
        values.name(self.target, "target")
        values.one_of(self.metric, METRICS, "metric")
        if self.positive is not None:
            values.one_of(self.positive, self.classes, "positive class")
        elif len(self.classes) == 2 or self.metric in ("sensitivity", "specificity"):
            raise ConfigError(
                f"positive is not given: expected the class to be found, one of {', '.join(self.classes[:10])}."
            )
        object.__setattr__(self, "features", tuple(self.features))
        if self.kind == "table":
            self._check_features()
        else:
            self._check_shape()

    def _check_features(self) -> None:
        if self.shape:
            raise ConfigError("shape is given for a table: expected features only. Leave shape out.")
        if not 1 <= len(self.features) <= MOST_FEATURES:
            raise ConfigError(
                f"features has {len(self.features)} entries: expected 1 to {MOST_FEATURES:,} for a table."
            )
        values.no_doubles([self.target, *(feature.name for feature in self.features)], "target and features")

    def _check_shape(self) -> None:
        if self.features:
            raise ConfigError(f"features are given for kind {self.kind!r}: expected a shape only. Leave features out.")
        axes = AXES[self.kind]
        found = values.known_keys(dict(self.shape), list(axes), list(axes), "shape")
        for part, names in axes.items():
            size = found[part]
            if not isinstance(size, list | tuple) or len(size) != len(names):
                raise ConfigError(f"shape, {part} is {size!r}: expected [{', '.join(names)}].")
            for number, axis in zip(size, names, strict=True):
                values.whole(number, f"shape, {part}, {axis}", MOST_NUMBERS)
            if math.prod(size) > MOST_NUMBERS:
                raise ConfigError(f"shape, {part} is {list(size)}: expected at most {MOST_NUMBERS:,} numbers a row.")
        object.__setattr__(self, "shape", {part: tuple(found[part]) for part in axes})

    # ---- text ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, text: str) -> Task:
        """The task that this TOML text holds; anything unknown, lacking, twice or out of range is refused."""
        if len(text) > LONGEST_TEXT:
            raise ConfigError(f"the task has {len(text):,} characters: expected at most {LONGEST_TEXT:,}.")
        try:
            found = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # a TOML error is a ValueError
            raise ConfigError(f"the task is no TOML ({error}): expected key = value lines.") from error
        given = found.pop("format", None)
        if type(given) is not int or given != FORMAT:
            raise ConfigError(
                f"the task has format {given!r}: this version of Peerwise reads format {FORMAT} only. Install the "
                f"version that the founder uses, or ask for the task in format {FORMAT}."
            )
        return _task(found)

    def text(self) -> str:
        """The same TOML for the same content."""
        return tomli_w.dumps(self._content())

    @cached_property
    def digest(self) -> str:
        """sha256 of the content, whatever its comments, spaces and order of keys: the federation's name for itself."""
        content = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "kind": self.kind,
            "classes": list(self.classes),
            "positive": self.positive,
            "target": self.target,
            "metric": self.metric,
            "shape": {part: list(size) for part, size in self.shape.items()} or None,
            "public": None if self.public is None else dict(vars(self.public)),
            "features": [feature.content() for feature in self.features] or None,
        }
        return {key: value for key, value in content.items() if value is not None}

    # ---- what it means ---------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[Feature, ...]:
        """The features as a data set has them."""
        return tuple(Feature(feature.name, feature.values) for feature in self.features)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """What one row looks like to a model."""
        return dict(self.shape) or {"x": (len(self.features),)}

    @property
    def ranges(self) -> dict[str, list[float]]:
        """[low, high] of the numbers that have both."""
        ends = {feature.name: (feature.low, feature.high) for feature in self.features}
        return {name: [low, high] for name, (low, high) in ends.items() if low is not None and high is not None}

    @property
    def positive_code(self) -> int | None:
        return None if self.positive is None else self.classes.index(self.positive)


def _task(found: dict[str, Any]) -> Task:
    known = ("name", "kind", "classes", "positive", "target", "metric", "shape", "public", "features")
    given = dict(values.known_keys(found, known, ("name", "kind", "classes", "target", "metric"), "the task"))
    features = given.pop("features", [])
    if not isinstance(features, list):
        raise ConfigError(f"features is a {type(features).__name__}: expected [[features]], one for each column.")
    if len(features) > MOST_FEATURES:
        raise ConfigError(f"features has {len(features):,} entries: expected at most {MOST_FEATURES:,}.")
    shape = given.pop("shape", {})
    if not isinstance(shape, dict):
        raise ConfigError(f"shape is {shape!r}: expected a table, such as x = [1, 28, 28].")
    public = given.pop("public", None)
    if public is not None:
        public = PublicRows(**values.known_keys(public, PUBLIC, PUBLIC, "public"))
    return Task(
        features=tuple(_feature(one, place) for place, one in enumerate(features, 1)),
        shape=shape,
        public=public,
        **given,
    )


def _feature(found: Any, place: int) -> TaskFeature:
    known = ("name", "type", "unit", "low", "high", "values")
    return TaskFeature(**values.known_keys(found, known, ("name", "type"), f"feature {place}"))
