"""PeerwiseClassifier over nets that may say "unknown": what becomes of that signal is a choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import BadOutputs, ConfigError
from peerwise.space import softmax
from peerwise.space.outputs import Array
from peerwise.trust.base import Decision, Labelled
from peerwise.trust.kernel import Floats
from peerwise.trust.peerwise import Metric, PeerwiseClassifier

Signal = Literal["none", "column", "mask"]
SIGNALS = ("none", "column", "mask")
TINY = 1e-30  # instead of the logarithm of nothing


class OpenPeerwise(PeerwiseClassifier):
    """PeerwiseClassifier on outputs (n, models, C + 1) whose last column is "unknown", u; labels are among the first C.

    ``signal``:

    * "none": the known columns, normalized; what a net leaves for unknown is not looked at
    * "column": the same, and u / C beside them (all divided by 1 + u / C), as one more column of the decision space. So
      small it is never what a net says: it is learned from and never answered with.
    * "mask": as "none"; then a model to which unknown is the likeliest has no trust, unless that is so of all of them,
      and the answer is the trust-weighted mean of what the others say.

    "column" is for rows like the site's own, where "mask" loses: PeerwiseClassifier knows better than a net's doubt
    whom to trust there. "mask" is for rows of classes that the site has never seen, which PeerwiseClassifier by itself
    can never answer with.

    Answers have C + 1 columns too, the last one always 0. Made for outputs that are at hand (`fit_outputs`).
    `peerwise.checks.check_trust_learner` has rows of every column, also of the last, which is refused here: it passes
    on a pool whose outputs get a column for unknown besides.
    """

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        signal: Signal = "column",
        features: Literal["decision", "both"] = "both",
        metric: Metric | None = None,
        k: int = 5,
        random_state: int | None = None,
    ) -> None:
        super().__init__(pool, own=own, features=features, metric=metric, k=k, random_state=random_state)
        self.signal = signal

    def check_settings(self) -> None:
        super().check_settings()
        if self.signal not in SIGNALS:
            raise ConfigError(f"signal={self.signal!r}: expected one of {', '.join(map(repr, SIGNALS))}.")

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        unknown = rows.logits.shape[2] - 1
        for part in (rows, validation):
            if part is not None and unknown in part.y:
                raise BadOutputs(f"labels hold {unknown}, which is 'unknown': expected codes of the {unknown} classes.")
        parts = [replace(part, logits=self._seen(part.logits)) for part in (rows, validation) if part is not None]
        super()._learn(parts[0], parts[1] if validation is not None else None)

    def _decide(self, logits: Array, X: Any) -> Decision:
        found = super()._decide(self._seen(logits), X)
        if self.signal != "mask":
            return found
        knows = logits[:, :, -1] <= logits[:, :, :-1].max(axis=2)
        left = np.where(knows | ~knows.any(axis=1, keepdims=True), found.trust, 0.0)
        return replace(found, trust=left / left.sum(axis=1, keepdims=True), posterior=None)

    def _probabilities(self, decision: Decision, logits: Array) -> Floats:
        if decision.posterior is None:
            return self._mix(decision.trust, logits)
        known = decision.posterior[:, : logits.shape[2] - 1]
        found = np.concatenate([known, np.zeros((len(known), 1))], axis=1)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def _without(self, logits: Array, X: Any, kept: NDArray[np.bool_]) -> Floats:
        if self.signal == "mask":
            return self._vote_of(logits, X, kept)
        found = super()._without(self._seen(logits), X, kept)[:, : logits.shape[2] - 1]
        return np.asarray(np.pad(found / found.sum(axis=1, keepdims=True), ((0, 0), (0, 1))))

    def answers(self, probabilities: Floats) -> NDArray[np.int64]:
        """Of C or C + 1 columns: the last one is never answered with."""
        known = len(self.classes_) - 1
        thresholds = self.thresholds_[:known] if self.metric == "balanced_accuracy" else 1.0
        return np.asarray((probabilities[:, :known] / thresholds).argmax(axis=1))

    def _votes(self, logits: Array) -> Array:
        votes = softmax(logits[:, :, :-1])
        return np.concatenate([votes, np.zeros_like(votes[:, :, :1])], axis=2)

    def _seen(self, logits: Array) -> Array:
        """What PeerwiseClassifier is shown of the outputs."""
        known = logits[:, :, :-1]
        if self.signal != "column":
            return known  # a softmax over them normalizes them
        beside = softmax(logits)[:, :, -1:] / known.shape[2]
        return np.asarray(np.log(np.maximum(np.concatenate([softmax(known), beside], axis=2), TINY)))
