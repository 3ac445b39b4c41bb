"""A service that says whatever a test wants it to: for what a real one does not do on demand (being busy, hostile
names, a bundle of another kind). It serves the real page and keeps to the API of the real service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import peerwise.serve

TOKEN = "stand-in-token"
POLICY = "default-src 'self'"
PAGE = Path(peerwise.serve.__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {path.name: path for path in PAGE.iterdir() if path.suffix in KINDS}


def model(name: str, site: str, own: bool = False) -> dict[str, Any]:
    return {"name": f"{name}@{site}", "site": site, "own": own, "version": "2026-11-17T19:47:06Z", "sha256": "ab" * 32}


def number(name: str, unit: str = "", low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"name": name, "type": "number", "unit": unit, "low": low, "high": high, "values": []}


def category(name: str, *values: str) -> dict[str, Any]:
    return {"name": name, "type": "category", "unit": "", "low": None, "high": None, "values": list(values)}


def bundle(**changed: Any) -> dict[str, Any]:
    """Of two sites with a small table, unless something is changed."""
    sites = changed.pop("sites", ["north", "south"])
    return {
        "digest": "5e" * 32,
        "site": sites[0],
        "method": "peerwise",
        "task": "ward",
        "kind": "table",
        "classes": ["healthy", "ill"],
        "positive": "ill",
        "target": "outcome",
        "inputs": {"x": [3]},
        "features": [
            number("age", "years", 18, 100),
            number("sugar", "mmol/l"),
            category("pain", "no", "some", "much"),
        ],
        "models": [model(kind, site, site == sites[0]) for site in sites for kind in ("forest", "logistic")],
        "made": 1_790_000_000,
        "calibration_rows": 60,
        "frugal": True,
        "level": 0.9,
        "sets": "marginal",
        "validation": None,
        "has_cases": False,
        "limits": {"body_bytes": 1_000_000, "rows": 1000},
        **changed,
    }


@dataclass
class Says:
    """What it answers; ``failures`` are used up first, one a request to the API: (status, message, Retry-After)."""

    bundle: dict[str, Any] = field(default_factory=bundle)
    unsure: str = ""
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    peers: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)

    def reply(self, path: str, query: dict[str, list[str]], kind: str, body: bytes) -> Any:
        if path == "/v1/bundle":
            return self.bundle
        if path == "/v1/peers":
            return {"site": self.bundle["site"], "rows": 61, "peers": self.peers}
        if path == "/v1/cases":
            at = int(query["offset"][0])
            return {"total": len(self.cases), "cases": self.cases[at : at + int(query["limit"][0])]}
        self.asked.append((path, kind, body))
        return self.answers(path, 1 if kind != "text/csv" else body.decode().strip().count("\n"))

    def answers(self, path: str, rows: int) -> dict[str, Any]:
        names, models = self.bundle["classes"], self.bundle["models"]
        shares = [2.0 ** -(place + 1) for place in range(len(names))]
        probabilities = {name: share / sum(shares) for name, share in zip(names, shares, strict=True)}
        sites = list(dict.fromkeys(each["site"] for each in models))
        trust = {site: 1 / len(sites) for site in sites}
        one = {
            "answer": names[0],
            "unsure": bool(self.unsure),
            "why": self.unsure,
            "set": names[:2] if self.unsure else names[:1],
            "note": "",
            "probabilities": probabilities,
            "own": probabilities,
            "trust": trust,
            "consulted": [each["name"] for each in models],
        }
        told = {
            "bundle": self.bundle["digest"],
            "site": self.bundle["site"],
            "level": 0.9,
            "calibration_rows": 60,
            "sets": "marginal",
            "record": {
                "sure": {"answers": 41, "wrong": 3, "text": "3 of 41 sure answers were wrong"},
                "unsure": {"answers": 19, "wrong": 8, "text": "8 of 19 unsure answers were wrong"},
            },
            "notes": [],
            "models": {each["name"]: each for each in models},
            "answers": [{"row": row + 1, **one} for row in range(rows)],
        }
        return told if path == "/v1/predict" else {**told, "explanation": self.explanation(names, models, trust)}

    def explanation(self, names: list[str], models: list[Any], trust: dict[str, float]) -> dict[str, Any]:
        evidence = [
            {"site": site, "own": site == self.bundle["site"], "trust": share, "right_nearby": 1, "of_nearby": 7}
            for site, share in trust.items()
        ]
        said = {"says": names[0], "confidence": 0.8, "trust": 1 / len(models), "right_nearby": 1, "of_nearby": 7}
        near = {"distance": 0.1, "weight": 0.2}  # of a bundle without the site's rows
        return {
            "models": [{**each, **said, "competence": 0.5} for each in models],
            "neighbours": [{"row": row, "label": names[row % 2], **near} for row in range(5)],
            "fallback": False,
            "note": "",
            "evidence": [{**each, "text": "wrong on 6 of 7 such cases"} for each in evidence],
        }


@contextmanager
def stand_in(says: Says) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.respond(b"")

        def do_POST(self) -> None:
            self.respond(self.rfile.read(int(self.headers["Content-Length"])))

        def respond(self, body: bytes) -> None:
            url = urlsplit(self.path)
            name = "index.html" if url.path == "/" else url.path.removeprefix("/page/")
            if name in FILES:
                return self.send(200, FILES[name].read_bytes(), KINDS[FILES[name].suffix])
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return self.refuse(401, "no token, or a wrong one: expected the one that was printed", "")
            if says.failures:
                return self.refuse(*says.failures.pop(0))
            told = says.reply(url.path, parse_qs(url.query), self.headers["Content-Type"] or "", body)
            self.send(200, json.dumps(told).encode(), "application/json")

        def refuse(self, status: int, message: str, wait: str) -> None:
            error = {"error": {"status": status, "message": message}}
            self.send(status, json.dumps(error).encode(), "application/json", {"Retry-After": wait} if wait else {})

        def send(self, status: int, content: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {"Content-Type": kind, "Content-Security-Policy": POLICY, **(headers or {})}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
