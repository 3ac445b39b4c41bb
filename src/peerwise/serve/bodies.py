"""What a request brings along, taken in within limits."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from peerwise.serve.reading import CSV, JSON
from peerwise.serve.refusal import Refusal

SECONDS = 30.0  # in which a body has to be here
READ_ON = 4  # times the limit are thrown away before a refusal: a client that is cut off while it sends hears nothing
CLOSE = {"Connection": "close"}  # whatever else is sent is not read
CODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


def kind_of(request: Request) -> str:
    """The content type, without what qualifies it."""
    kind, *rest = request.headers.get("content-type", "").lower().split(";")
    settings = dict(part.strip().partition("=")[::2] for part in rest)
    coding = settings.get("charset", "utf-8").strip('"')
    if coding not in CODINGS:
        raise Refusal(415, f"the body is in {coding[:40]!r}: expected UTF-8.")
    packed = request.headers.get("content-encoding", "identity").lower()
    if packed != "identity":
        raise Refusal(415, f"the body is packed with {packed[:40]!r}: expected it as it is.")
    if not kind.strip():
        raise Refusal(415, f"the request has no content type: expected {JSON}, {CSV} or that of an image.")
    return kind.strip()


def wants_csv(request: Request) -> bool:
    """Whether CSV comes before JSON among what is accepted."""
    for part in request.headers.get("accept", "").lower().split(","):
        kind = part.partition(";")[0].strip()
        if kind in (JSON, CSV):
            return kind == CSV
    return False


async def body_of(request: Request, most: int) -> bytes:
    """The whole body, but no more than so many bytes of it at any time."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _read(request, most)
    except TimeoutError:
        message = f"the body was not here within {SECONDS:g} seconds: send it faster, or less."
        raise Refusal(408, message, headers=CLOSE) from None
    except ClientDisconnect:
        raise Refusal(400, "the body was cut short: send it again.") from None


async def _read(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    async for part in request.stream():
        total += len(part)
        if total > READ_ON * most:
            break
        if total <= most:
            parts.append(part)
        else:
            parts.clear()
    if total > most:
        message = f"the body has more than {most:,} bytes: expected at most that. Send fewer rows at a time."
        raise Refusal(413, message, headers=CLOSE)
    return b"".join(parts)
