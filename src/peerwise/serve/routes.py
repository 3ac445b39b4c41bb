"""The paths of the service."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from peerwise.serve import page_files
from peerwise.serve.answering import as_csv, described, explained, plain, predicted
from peerwise.serve.bodies import body_of, kind_of, wants_csv
from peerwise.serve.counting import CONTENT_TYPE, Counts
from peerwise.serve.desk import Desk
from peerwise.serve.reading import CSV, Asked, Reader
from peerwise.serve.refusal import Faults, Refusal
from peerwise.serve.responses import answered, encoded
from peerwise.serve.room import Room, Shift
from peerwise.serve.settings import Settings

MOST_CASES = 500  # of one page
NOTES = 4000  # characters of a header


class Routes:
    """One method a path."""

    def __init__(self, room: Room, settings: Settings, counts: Counts) -> None:
        self._room, self._settings, self._counts = room, settings, counts
        self._started = time.monotonic()

    # ---- rows ------------------------------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        as_table = wants_csv(request)

        def work(asked: Asked, desk: Desk) -> tuple[dict[str, Any], Response]:
            found = predicted(desk, asked)
            if not as_table:
                return found, answered(encoded(found))
            notes = json.dumps(found["notes"])  # in ASCII, as a header has to be
            told = notes if len(notes) <= NOTES else json.dumps([f"{len(found['notes'])} notes"])
            return found, answered(as_csv(desk.about, found).encode(), CSV, peerwise_notes=told)

        return await self._asked(request, work, one=False)

    async def explain(self, request: Request) -> Response:
        def work(asked: Asked, desk: Desk) -> tuple[dict[str, Any], Response]:
            found = explained(desk, asked)
            return found, answered(encoded(found))

        return await self._asked(request, work, one=True)

    async def _asked(self, request: Request, work: Any, *, one: bool) -> Response:
        async with self._room.place():
            kind, query = kind_of(request), dict(request.query_params)
            body = await body_of(request, self._settings.body_bytes)

            def answer(shift: Shift, desk: Desk) -> tuple[dict[str, Any], Response]:
                reader = shift.kept.get("reader") or shift.kept.setdefault(
                    "reader", Reader(shift.about, self._settings)
                )
                before = desk.restarts
                try:
                    found: tuple[dict[str, Any], Response] = work(reader.read(kind, body, query, one=one), desk)
                finally:
                    self._counts.restarts.inc(desk.restarts - before)
                return found

            found, response = await self._room.ask(answer)
        request.state.rows = len(found["answers"])
        self._counts.answered(found)
        return response

    # ---- the bundle ------------------------------------------------------------------------------------------------

    async def bundle(self) -> Response:
        return await self._told(lambda shift, desk: encoded(_bundle(desk, self._settings)))

    async def peers(self) -> Response:
        def told(shift: Shift, desk: Desk) -> bytes:
            rows = (desk.about.validation or {}).get("rows")
            return encoded({"site": desk.about.site, "rows": rows, "peers": plain(desk.peers())})

        return await self._told(told)

    async def cases(self, request: Request) -> Response:
        asked = dict(request.query_params)
        offset, limit = _whole(asked, "offset", 0, 10**9), _whole(asked, "limit", 50, MOST_CASES)

        def told(shift: Shift, desk: Desk) -> bytes:
            found = desk.cases()
            if not found:
                raise Refusal(404, "the site's validation rows are not at hand here: expected a site's whole folder.")
            return encoded({"total": len(found), "cases": plain(found[offset : offset + limit])})

        return await self._told(told)

    async def _told(self, work: Any) -> Response:
        async with self._room.place():
            return answered(await self._room.ask(work))

    # ---- the service -----------------------------------------------------------------------------------------------

    async def health(self) -> Response:
        shift = self._room.shift
        status = "starting" if shift is None else "ok" if any(desk.is_alive() for desk in shift.desks) else "failing"
        digest = None if shift is None else shift.about.digest
        seconds = round(time.monotonic() - self._started, 1)
        response = answered(encoded({"status": status, "bundle": digest, "uptime_seconds": seconds}))
        response.status_code = 200 if status == "ok" else 503
        return response

    async def metrics(self) -> Response:
        return answered(self._counts.text(), CONTENT_TYPE)

    async def page(self, request: Request) -> Response:
        name = request.path_params.get("name", page_files.INDEX)
        found = page_files.files().get(name)
        if found is None:
            raise Refusal(404, "the page has no such file: expected the address that the service printed.")
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers={"ETag": found.etag, "Cache-Control": "no-cache"})
        return answered(found.content, found.kind, ETag=found.etag, Cache_Control="no-cache")


def _bundle(desk: Desk, settings: Settings) -> dict[str, Any]:
    about = desk.about
    told = {name: getattr(about, name) for name in ("digest", "site", "method", "task", "kind", "positive", "target")}
    return told | {
        "classes": list(about.classes),
        "inputs": {name: list(shape) for name, shape in about.inputs.items()},
        "features": [asdict(feature) for feature in about.features],
        "models": [{"name": model.name, **described(model)} for model in about.models],
        "made": about.made,
        "calibration_rows": about.calibration_rows,
        "frugal": about.frugal,
        "level": settings.level,
        "sets": about.sets,
        "validation": plain(about.validation),
        "own_models_answer": about.own_models_answer,
        "has_cases": bool(desk.cases()),
        "limits": {"body_bytes": settings.body_bytes, "rows": settings.rows},
    }


def _whole(query: dict[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most:
        return int(text)
    faults = Faults()
    faults.add(name, text, f"a whole number from 0 to {most:,}")
    faults.check()
    raise AssertionError
