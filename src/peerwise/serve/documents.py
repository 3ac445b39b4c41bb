"""What the OpenAPI document says beside the shapes of answers: the bodies that are taken, and the refusals."""

from __future__ import annotations

from typing import Any

from peerwise.serve.reading import CSV, JSON, PICTURES
from peerwise.serve.settings import LEVELS
from peerwise.serve.shapes import Problem

ABOUT = (
    "Answers of a federation's models, and for every case whose model they come from. Rows are those of the bundle "
    "that is served (`GET /v1/bundle` says which): a table's features by name, an image's pixels, a sequence's numbers."
)
ROW = {"age": 63, "sex": "male", "chol": 233, "thal": None}
LEVEL = {"type": "number", "minimum": LEVELS[0], "maximum": LEVELS[1], "description": "Of the prediction sets."}
FRUGAL = {"type": "boolean", "default": False, "description": "Ask fewer models; a few answers may differ."}
BODY = {
    "type": "object",
    "description": "Either `row` or `rows`. null, or a name that is absent, is a missing value.",
    "properties": {
        "row": {"type": "object"},
        "rows": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "level": LEVEL,
        "frugal": FRUGAL,
    },
    "additionalProperties": False,
}
EXAMPLES = {
    "table": {"summary": "a row of a table", "value": {"row": ROW, "level": 0.95}},
    "batch": {"summary": "several rows", "value": {"rows": [ROW, {"age": 41, "sex": "female"}]}},
    "image": {"summary": "an image, (height, width) or (channels, height, width)", "value": {"row": {"pixels": [[0]]}}},
    "sequence": {"summary": "a sequence", "value": {"row": {"static": [63.0], "series": [[0.1], [None]]}}},
}
QUERY = [
    {"name": "level", "in": "query", "schema": LEVEL, "description": "With CSV and pictures; in the body with JSON."},
    {"name": "frugal", "in": "query", "schema": FRUGAL, "description": "With CSV and pictures; in the body with JSON."},
]
REFUSALS = {
    401: "No token, or another one.",
    413: "More bytes, rows or values than are taken at once.",
    415: "A content type that does not belong to these rows.",
    422: "Values that cannot be used; `fields` says which.",
    429: "Too many requests from this address; see Retry-After.",
    503: "Too many requests at once, or not ready yet; see Retry-After.",
}
SECURITY = {"token": {"type": "http", "scheme": "bearer"}}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem, "description": REFUSALS[status]} for status in statuses}


def guarded(**more: Any) -> dict[str, Any]:
    """Of a path that needs the token."""
    return {"security": [{"token": []}], **more}


def rows_taken(csv_rows: str) -> dict[str, Any]:
    """Of a path that takes rows."""
    pictures = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in PICTURES}
    table = {"schema": {"type": "string"}, "example": csv_rows}
    content = {JSON: {"schema": BODY, "examples": EXAMPLES}, CSV: table, **pictures}
    return guarded(requestBody={"required": True, "content": content}, parameters=QUERY)
