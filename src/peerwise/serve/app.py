"""The service as an ASGI app, over the desks of a room."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from peerwise.errors import BadOutputs, PeerwiseError
from peerwise.serve import shapes
from peerwise.serve.counting import Counts
from peerwise.serve.documents import ABOUT, SECURITY, guarded, refusals, rows_taken
from peerwise.serve.guard import Guard, Log
from peerwise.serve.reading import CSV
from peerwise.serve.refusal import Refusal
from peerwise.serve.responses import refused
from peerwise.serve.room import Room
from peerwise.serve.routes import Routes
from peerwise.serve.settings import Settings

GIVES_CSV = {"description": "The answers", "content": {CSV: {"schema": {"type": "string"}}}}


def make_app(room: Room, settings: Settings, counts: Counts, log: Log) -> Guard:
    """What a web server runs; the room may still be opening."""
    app = FastAPI(
        title="Peerwise",
        version=version("peerwise"),
        description=ABOUT,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they load from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_routes(app, Routes(room, settings, counts))
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(BadOutputs, _unanswerable)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(Exception, _fault)
    counts.watch_queue(lambda: room.inside)
    return Guard(app, settings, counts, log)


def _add_routes(app: FastAPI, routes: Routes) -> None:
    taken: dict[str, Any] = {"openapi_extra": rows_taken("age,sex,chol\r\n63,male,233\r\n41,female,\r\n")}
    bad = refusals(401, 413, 415, 422, 429, 503)
    app.post(
        "/v1/predict", responses={200: {"model": shapes.Predicted, **GIVES_CSV}, **bad}, summary="Answer rows", **taken
    )(routes.predict)
    app.post(
        "/v1/explain", responses={200: {"model": shapes.Explained}, **bad}, summary="Answer one row, and why", **taken
    )(routes.explain)
    few = refusals(401, 429, 503)
    for path, model, summary, answer in (
        ("/v1/bundle", shapes.Bundle, "What is served", routes.bundle),
        ("/v1/peers", shapes.Peers, "The sites whose models answer", routes.peers),
        ("/v1/cases", shapes.Cases, "The site's validation cases, to try", routes.cases),
    ):
        responses: dict[int | str, dict[str, Any]] = {200: {"model": model}, **few}
        app.get(path, responses=responses, summary=summary, openapi_extra=guarded())(answer)
    app.get("/v1/health", responses={200: {"model": shapes.Health}, 503: {"model": shapes.Health}})(routes.health)
    app.get("/metrics", include_in_schema=False)(routes.metrics)
    app.get("/", include_in_schema=False)(routes.page)
    app.get("/page/{name}", include_in_schema=False)(routes.page)


def _document(app: FastAPI) -> dict[str, Any]:
    if not app.openapi_schema:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        found.setdefault("components", {})["securitySchemes"] = SECURITY
        app.openapi_schema = found
    return app.openapi_schema


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refused(error)


def _unanswerable(request: Request, error: Exception) -> Response:
    """Of rows that the site's own models have nothing to say to, such as ones with gaps that they do not fill."""
    return refused(Refusal(422, f"the rows cannot be answered: {str(error).splitlines()[0]}"))


def _unknown(request: Request, error: Exception) -> Response:
    """Of paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    told = {
        404: "there is no such path: expected one of those in /v1/openapi.json.",
        405: "the path does not take this method: expected one of those in /v1/openapi.json.",
    }
    return refused(Refusal(error.status_code, told.get(error.status_code, error.detail), headers=error.headers))


def _fault(request: Request, error: Exception) -> Response:
    """The kind of it only: what else it says may hold values."""
    whose = "the models could not answer" if isinstance(error, PeerwiseError) else "a fault in the service"
    return refused(Refusal(500, f"{whose} ({type(error).__name__}): ask again; the service's log says where."))
