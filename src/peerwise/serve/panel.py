"""The models of a pool, opened once and asked many times: a site's own ones in this process, peers' in the worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import reason
from peerwise.methods.pool_models import no_answer, said_by_row
from peerwise.models import OnnxModel
from peerwise.models.onnx_model import OnnxAnswers
from peerwise.models.outputs import count_rows
from peerwise.models.worker import Worker, WorkerModel
from peerwise.models.worker.together import Outcome, logits_together, probabilities_together

Array = NDArray[np.float32]


class Panel:
    """``logits``: whether models are asked for logits, or for probabilities; ``places``: for each model the columns of
    its classes among all classes."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        own: Collection[str],
        places: Sequence[NDArray[np.int64]],
        classes: int,
        worker: Worker,
        *,
        logits: bool,
    ) -> None:
        self.names = list(files)
        self.own = [place for place, name in enumerate(self.names) if name in own]
        self._places, self._classes, self._worker, self._logits = places, classes, worker, logits
        self._models: list[OnnxAnswers] = [
            OnnxModel(data, name=name) if name in own else worker.open(data, name) for name, data in files.items()
        ]

    def ask(self, columns: Sequence[int], X: Any) -> tuple[Array, dict[str, str]]:
        """What these models say, ``(n, columns, classes)``, NaN where a peer's model has no answer; and which these
        are, and why."""
        rows = count_rows(X)
        failed: dict[str, str] = {}
        found = np.empty((rows, len(columns), self._classes), np.float32)
        if not rows:
            return found, failed
        together = self._together(columns, X)
        for place, column in enumerate(columns):
            outcome = together.get(column)
            if isinstance(outcome, np.ndarray):
                found[:, place] = self._spread(column, outcome)
            elif column in self.own:
                found[:, place] = self._said(column, X)
            else:
                found[:, place], error = self._at_best(column, X)
                if error is not None:
                    failed[self.names[column]] = reason(error)
        return found, failed

    def _together(self, columns: Sequence[int], X: Any) -> dict[int, Outcome]:
        peers = {column: model for column in columns if isinstance(model := self._models[column], WorkerModel)}
        ask = logits_together if self._logits else probabilities_together
        return dict(zip(peers, ask(self._worker, list(peers.values()), X), strict=True))

    def _at_best(self, column: int, X: Any) -> tuple[Array, Exception | None]:
        try:
            return said_by_row(lambda rows: self._said(column, rows), X, self._classes)
        except Exception as error:  # of a peer's model: the own ones answer instead
            return no_answer(count_rows(X), self._classes), error

    def _said(self, column: int, X: Any) -> Array:
        model = self._models[column]
        return self._spread(column, model.predict_logits(X) if self._logits else model.predict_proba(X))

    def _spread(self, column: int, said: NDArray[np.float64]) -> Array:
        full = np.zeros((len(said), self._classes), np.float32)
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and no answer
            full[:, self._places[column]] = said
        full[~np.isfinite(full).all(axis=1)] = np.nan
        return full
