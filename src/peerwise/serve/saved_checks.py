"""What stands in a saved learner's folder, held against itself: whoever changed it is told so, and nobody is served
answers under wrong names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peerwise.errors import ParcelError
from peerwise.serve.settings import MOST_VALUES

Tree = dict[str, Any]


def check_tree(tree: Tree, folder: Path) -> None:
    for what, right, expected in _checks(tree):
        if not right:
            raise ParcelError(f"{folder} was changed: {what} cannot be used, expected {expected}. Save it again.")


def _checks(tree: Tree) -> Iterator[tuple[str, bool, str]]:
    """Each rests on those before it."""
    names, classes, models = tree["names"], tree["classes"], tree["models"]
    yield "'names'", _are_distinct(names, str), "a different name for each model"
    yield "'own'", _are_distinct(tree["own"], int), "places of models"
    yield "'own'", all(0 <= place < len(names) for place in tree["own"]), f"places from 0 to {len(names) - 1}"
    yield "'classes'", _are_distinct(classes, str, int, float, bool) and bool(classes), "each class once"
    yield "'kind'", tree["kind"] in ("logits", "probabilities"), "logits or probabilities"
    yield "'models'", isinstance(models, list) and len(models) in (0, len(names)), "one for each name"
    for model in models:
        yield "'models'", isinstance(model, dict) and set(model) == {"file", "classes"}, "a file and classes for each"
        yield "a model", model["file"] is None or isinstance(model["file"], bytes), "an ONNX file"
        known = _are_distinct(model["classes"], str, int, float, bool) and set(model["classes"]) <= set(classes)
        yield "a model's classes", known, "some of the learner's, each once"
    shape = tree["row_shape"]
    sized = shape is None or (isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape))
    yield "'row_shape'", sized, "sizes"
    yield "'row_shape'", shape is None or math.prod(shape) <= MOST_VALUES, f"at most {MOST_VALUES:,} values a row"
    if tree["columns"] is not None:
        yield from _of_columns(tree["columns"])


def _of_columns(columns: Any) -> Iterator[tuple[str, bool, str]]:
    whole = isinstance(columns, list) and bool(columns)
    yield "'columns'", whole, "a list"
    for column in columns:
        right = isinstance(column, dict) and set(column) == {"name", "type", "values"}
        yield "a column", right, "its name, type and values"
        yield "a column", isinstance(column["name"], str) and isinstance(column["type"], str), "text"
        yield "a column's values", column["values"] is None or _are_distinct(column["values"], str), "each once"
    yield "'columns'", len({column["name"] for column in columns}) == len(columns), "each name once"


def _are_distinct(found: Any, *kinds: type) -> bool:
    return isinstance(found, list) and all(type(each) in kinds for each in found) and len(set(found)) == len(found)
