"""Any other method that `peerwise fit` can write: it answers as `peerwise predict` does, and tells what it can."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.federation import answer_codes, answer_with_details
from peerwise.methods import Method
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.serve.desk import About, Served
from peerwise.serve.known_rows import KnownRows
from peerwise.serve.worker_desk import WorkerDesk
from peerwise.trust.prediction_sets import PredictionSets


class MethodDesk(WorkerDesk):
    """Where a method has no trust, no models are named; none of these can be frugal."""

    def __init__(
        self,
        about: About,
        method: Method,
        site: Site,
        worker: Worker,
        peers: list[dict[str, Any]],
        *,
        known: KnownRows,
        sets: PredictionSets,
    ) -> None:
        super().__init__(about, worker, peers)
        self._method, self._site, self._known, self._sets = method, site, known, sets

    def answer(self, X: Any, *, frugal: bool = False) -> Served:
        with one_thread():
            said, details = answer_with_details(self._method, self._site, X)
        trust = details.get("trust")
        return Served(
            probabilities=said,
            answers=answer_codes(self._method, self._site, said),
            own=details.get("own"),
            trust=trust,
            consulted=None if trust is None else np.ones(trust.shape, np.bool_),
            fallback=details.get("fallback"),
            failed=dict(details.get("left_out", {})),
        )

    def sets(self, *, frugal: bool = False) -> PredictionSets:
        return self._sets

    def explain(self, X: Any) -> dict[str, Any] | None:
        return None

    def cases(self) -> list[dict[str, Any]]:
        return self._known.cases()

    def is_alive(self) -> bool:
        return True  # the worker starts when it is first needed
