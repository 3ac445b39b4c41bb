"""What a service needs beside what was learned: how sure answers are, and which models can be spared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site, digest
from peerwise.errors import ParcelError
from peerwise.federation import answer, answer_codes
from peerwise.methods import Method, OneShot
from peerwise.methods.one_shot import labelled_logits, pool_logits_of, pool_names
from peerwise.methods.stacking_rows import train_and_val
from peerwise.trust import PeerwiseClassifier, TrustLearner, learner_from_tree
from peerwise.trust.frugal import Cascade
from peerwise.trust.prediction_sets import PredictionSets


@dataclass(frozen=True, eq=False)
class Assurance:
    """``sets`` and ``frugal_sets`` (None where there is no cascade) are calibrated on the site's test rows, which
    nothing else is done with at a real site. ``rows``: `rows_digest` of the rows that were learned from. ``stages``:
    the cascade's tree, None where all models are always asked."""

    sets: PredictionSets
    frugal_sets: PredictionSets | None
    stages: dict[str, Any] | None
    rows: str

    def to_tree(self) -> dict[str, Any]:
        frugal = None if self.frugal_sets is None else self.frugal_sets.to_tree()
        return {"sets": self.sets.to_tree(), "frugal_sets": frugal, "stages": self.stages, "rows": self.rows}

    @classmethod
    def from_tree(cls, tree: dict[str, Any], classes: int) -> Self:
        if set(tree) != {"sets", "frugal_sets", "stages", "rows"}:
            raise ParcelError(
                f"the bundle has {', '.join(sorted(tree))}: expected prediction sets. Run 'peerwise fit'."
            )
        frugal = None if tree["frugal_sets"] is None else PredictionSets.from_tree(tree["frugal_sets"], classes)
        return cls(PredictionSets.from_tree(tree["sets"], classes), frugal, tree["stages"], tree["rows"])

    @property
    def has_cascade(self) -> bool:
        return self.stages is not None

    def cascade(self, kind: type[TrustLearner]) -> Cascade | None:
        return None if self.stages is None else Cascade.from_tree(kind, self.stages)


def assured(method: Method, site: Site, *, by_class: bool = False) -> Assurance:
    """From the site's state after it has learned. The cascade is fitted to train and validation rows."""
    test = site.test
    said = answer(method, site, test.X)
    sets = PredictionSets.fit(said, test.y, answer_codes(method, site, said), by_class=by_class)
    # Others, such as a graph neural network, would have to be trained dozens of times.
    cascade = (
        _cascade(method, site)
        if isinstance(method, OneShot) and isinstance(method.learner, PeerwiseClassifier)
        else None
    )
    frugal = None
    if cascade is not None:
        said = _frugal_answers(cascade, site) if len(test) else np.zeros((0, len(site.classes)))
        frugal = PredictionSets.fit(said, test.y, answer_codes(method, site, said), by_class=by_class)
    return Assurance(sets, frugal, None if cascade is None else cascade.to_tree(), rows_digest(site))


def rows_digest(site: Site) -> str:
    return f"{digest(site.train.X, site.train.y)} {digest(site.val.X, site.val.y)}"


def _cascade(method: OneShot, site: Site) -> Cascade | None:
    _, own = pool_names(site)
    rows, logits = train_and_val(site), labelled_logits(site)
    if not np.isfinite(logits).all():  # of a model that answered these rows when the learner was fitted
        return None
    return Cascade.fit(
        method.new_learner(site, own),
        logits,
        rows.y,
        rows.X,
        own=own,
        group=rows.group,
        seed=site.seed_for("cascade"),
        full=learner_from_tree(type(method.learner), site.state["learner"]),
    )


def _frugal_answers(cascade: Cascade, site: Site) -> NDArray[np.float64]:
    logits = pool_logits_of(site, site.test.X)

    def ask(columns: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(logits[np.ix_(rows, np.asarray(columns))])

    return cascade.answer(ask, len(site.test), site.test.X).probabilities
