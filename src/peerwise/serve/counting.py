"""Figures about the service for Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PREFIX = "peerwise"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counts:
    """What is counted; nothing of what was asked or answered, nor of whom."""

    def __init__(self) -> None:
        own = CollectorRegistry()
        self._registry = own
        self.requests = Counter(f"{PREFIX}_requests", "Requests answered", ["path", "status"], registry=own)
        self.seconds = Histogram(
            f"{PREFIX}_request_seconds", "Time to the end of the answer", ["path"], buckets=SECONDS, registry=own
        )
        self.rows = Counter(f"{PREFIX}_rows", "Rows answered", registry=own)
        self.unsure = Counter(f"{PREFIX}_unsure_answers", "Answers that were unsure", registry=own)
        self.consulted = Counter(f"{PREFIX}_models_consulted", "Answers of single models that were used", registry=own)
        self.restarts = Counter(
            f"{PREFIX}_worker_restarts", "Guarded processes that had to be started anew", registry=own
        )
        self.reloads = Counter(f"{PREFIX}_reloads", "New bundles", ["result"], registry=own)
        for result in ("ok", "failed"):
            self.reloads.labels(result)
        self._queue = Gauge(f"{PREFIX}_requests_inside", "Requests being answered or waiting", registry=own)
        self._bundle = Gauge(
            f"{PREFIX}_bundle_info", "The bundle that answers", ["digest", "site", "method"], registry=own
        )

    def watch_queue(self, inside: Callable[[], int]) -> None:
        self._queue.set_function(inside)

    def answered(self, found: dict[str, Any]) -> None:
        answers = found["answers"]
        self.rows.inc(len(answers))
        self.unsure.inc(sum(answer["unsure"] for answer in answers))
        self.consulted.inc(sum(len(answer["consulted"]) for answer in answers))

    def serves(self, digest: str, site: str, method: str) -> None:
        self._bundle.clear()
        self._bundle.labels(digest, site, method).set(1)

    def text(self) -> bytes:
        return generate_latest(self._registry)
