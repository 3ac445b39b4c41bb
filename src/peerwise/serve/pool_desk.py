"""A trust learner over a pool of models, as `peerwise fit` or `save` wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.models import one_thread
from peerwise.models.outputs import count_rows
from peerwise.models.worker import Worker
from peerwise.serve.desk import About, Served
from peerwise.serve.known_rows import KnownRows
from peerwise.serve.panel import Panel
from peerwise.serve.worker_desk import WorkerDesk
from peerwise.space import softmax
from peerwise.trust import TrustLearner
from peerwise.trust.base import some_rows
from peerwise.trust.competence import CompetenceLearner
from peerwise.trust.explanation import remark
from peerwise.trust.frugal import Cascade
from peerwise.trust.prediction_sets import PredictionSets


class PoolDesk(WorkerDesk):
    """``sets`` and ``frugal_sets`` are calibrated on what is said with all models, and with the ``cascade``."""

    def __init__(
        self,
        about: About,
        learner: TrustLearner,
        panel: Panel,
        worker: Worker,
        peers: list[dict[str, Any]],
        *,
        sets: PredictionSets,
        known: KnownRows | None = None,
        cascade: Cascade | None = None,
        frugal_sets: PredictionSets | None = None,
    ) -> None:
        super().__init__(about, worker, peers)
        self._learner, self._panel, self._known = learner, panel, known
        self._sets, self._cascade, self._frugal_sets = sets, cascade, frugal_sets

    def answer(self, X: Any, *, frugal: bool = False) -> Served:
        if frugal and self._cascade is not None:
            return self._frugally(X, self._cascade)
        outputs, failed = self._panel.ask(range(len(self._panel.names)), X)
        filled, wanting = self._filled(outputs)
        with one_thread():
            said, decision = self._learner.answer_outputs(filled, X)
        own = self._own(filled)
        said = np.where(wanting[:, None], said if own is None else own, said)
        return Served(
            probabilities=said,
            answers=self._learner.answers(said),
            own=own,
            trust=np.where(wanting[:, None], self._home(), decision.trust),
            consulted=np.ones(decision.trust.shape, np.bool_),
            fallback=decision.fallback | wanting,
            failed=failed,
        )

    def sets(self, *, frugal: bool = False) -> PredictionSets:
        return self._sets if not frugal or self._frugal_sets is None else self._frugal_sets

    def explain(self, X: Any) -> dict[str, Any] | None:
        outputs, _ = self._panel.ask(range(len(self._panel.names)), X)
        filled, wanting = self._filled(outputs)
        if not isinstance(self._learner, CompetenceLearner) or wanting.any():
            return None
        with one_thread():
            found = self._learner.explain_outputs(filled, X)
        models = [asdict(say) | {"says": str(say.answer)} for say in found.models]
        near = [asdict(case) | {"label": str(case.label)} for case in found.neighbours]
        return {
            "models": [{key: value for key, value in say.items() if key not in ("own", "answer")} for say in models],
            "neighbours": near if self._known is None else [self._known.described(case) for case in near],
            "fallback": found.fallback,
            "note": remark(found),
            "agreed": found.agreed,
            "agreement": found.agreement,
            "influence": found.influence,
        }

    def cases(self) -> list[dict[str, Any]]:
        return [] if self._known is None else self._known.cases()

    def is_alive(self) -> bool:
        return self._worker.pid is not None or len(self._panel.own) == len(self._panel.names)

    def _frugally(self, X: Any, cascade: Cascade) -> Served:
        failed: dict[str, str] = {}
        kept = np.full((count_rows(X), len(self._panel.names), len(self.about.classes)), np.nan, np.float32)

        def ask(columns: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.float32]:
            said, why = self._panel.ask(columns, some_rows(X, rows))
            failed.update(why)
            kept[np.ix_(rows, np.asarray(columns))] = said
            return said

        with one_thread():
            found = cascade.answer(ask, count_rows(X), X)
        return Served(
            probabilities=found.probabilities,
            answers=self._learner.answers(found.probabilities),
            own=self._own(np.nan_to_num(kept)),
            trust=found.trust,
            consulted=found.consulted,
            fallback=found.fallback,
            failed=failed,
        )

    def _filled(self, outputs: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Without gaps, and the rows that had some: models without an answer there say that all is alike."""
        unanswered: NDArray[np.bool_] = np.asarray(np.isnan(outputs).any(axis=2))
        if not unanswered.any():
            return outputs, np.zeros(len(outputs), np.bool_)
        flat = 0.0 if self._learner.kind_ == "logits" else 1.0 / outputs.shape[2]
        return np.where(unanswered[:, :, None], np.float32(flat), outputs), np.asarray(unanswered.any(axis=1))

    def _own(self, outputs: NDArray[np.float32]) -> NDArray[np.float64] | None:
        """The own model: the mean of the site's own models' probabilities."""
        if not self._panel.own:
            return None
        said = outputs[:, self._panel.own]
        said = softmax(said) if self._learner.kind_ == "logits" else said
        return np.asarray(said.astype(np.float64).mean(axis=1))

    def _home(self) -> NDArray[np.float64]:
        """All trust in the own models, or in all where there are none."""
        home = np.zeros(len(self._panel.names))
        home[self._panel.own or slice(None)] = 1.0
        return np.asarray(home / home.sum())
