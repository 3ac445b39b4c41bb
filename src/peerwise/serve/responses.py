"""How answers leave: JSON that every reader understands, and refusals in one shape."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from peerwise.serve.reading import JSON
from peerwise.serve.refusal import Refusal


def encoded(value: Any) -> bytes:
    """UTF-8; NaN and infinities are faults of ours."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def answered(content: bytes, kind: str = JSON, **headers: str) -> Response:
    return Response(content, media_type=kind, headers={name.replace("_", "-"): text for name, text in headers.items()})


def refused(refusal: Refusal) -> Response:
    return Response(encoded(refusal.content), refusal.status, refusal.headers, JSON)
