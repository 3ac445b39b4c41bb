"""FedDES: for every single row, which models of the pool to select, and how much to trust each."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from peerwise.errors import ConfigError, DataError, ParcelError
from peerwise.models import one_thread
from peerwise.space import DecisionSpace
from peerwise.space.outputs import Array, flat
from peerwise.trust.base import Decision, Labelled
from peerwise.trust.competence import THRESHOLD, CompetenceLearner
from peerwise.trust.kernel import Floats, Smooth
from peerwise.trust.posterior import TINY, ByInput, Linear, as_probabilities

if TYPE_CHECKING:
    from peerwise.trust.feddes_paper import FedDESPaper

BALANCE = 0.3


class FedDES(CompetenceLearner):
    """Federated dynamic ensemble selection: for each row, the models to select and the trust in each of them.

    As in the paper (Mueller & Street, 2026, arXiv 2603.28006; `FedDES.paper`) the pool's M models map a row to its
    decision vector, and the site learns from its own labelled rows which models are right where. It differs in how it
    learns: by kernel ridge and logistic regression instead of a graph neural network, and the answer as well as the
    competences.

    phi(x) = the square roots of all M * C probabilities. One kernel ridge regression over phi (`Smooth`) estimates

        q(c | x), the probability of each class            s(m | x), the probability that model m is right

    and q is estimated twice more: by logistic regression over phi, and by kernel ridge regression over the inputs
    themselves, which know what the models have missed (``features="decision"``, or fitting on outputs without X,
    leaves that out; so do inputs that hold no numbers). Of the trust, each estimate of q has one part and the
    competence has one. The mean of all q, class by class, is shared among the models that say c in proportion to
    their s; the competence's part among all models in proportion to s. Votes are hard but for a rest of 1 / (n + 1)
    that n rows cannot rule out (spread over all C classes), so that

        p(c) = n / (n + 1) * sum of the trust in the models that say c + 1 / (n + 1) / C

    and an answer is always one that some model gives. Where no model says anything that q knows, the own models share
    its part (without any, all models). ``fallback`` marks rows where no model has s > 0.5.

    ``balance`` divides the trust in a model by the frequency of what it says to that power: 0 is best for accuracy, 1
    for balanced accuracy. None is 0.3, the least at which both gained in every setting it was chosen on; in a
    federation whose models count every class alike however rare (`Site.rare_outcomes`) it is 1. A class that the site
    has never seen counts as a frequent one.

    Validation rows are learned from like all others: nothing here has to be stopped. ``k`` neighbours of every class
    are shown by `explain` (row numbers from len(y) on are validation rows). ``random_state`` draws the landmarks of
    sites with more than 1,000 rows. ``docs/ablation.md`` has what was tried. A fitted FedDES holds up to 1,000 of the
    site's rows (all of fewer), standardised, unless ``features="decision"``: it is made to stay at its site.

    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(120, random_state=0)
    >>> clf = FedDES(random_state=0).fit(X, y)
    >>> clf.trust(X).shape, bool(np.allclose(clf.trust(X).sum(axis=1), 1))
    ((120, 3), True)
    """

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        features: Literal["decision", "both"] = "both",
        balance: float | None = None,
        k: int = 5,
        random_state: int | None = None,
    ) -> None:
        super().__init__(pool, own=own, vote="hard")
        self.features = features
        self.balance = balance
        self.k = k
        self.random_state = random_state

    @staticmethod
    def paper(pool: Any = None, **changes: Any) -> FedDESPaper:
        """FedDES exactly as published, with the site's raw inputs as sample features where they are given."""
        from peerwise.trust.feddes_paper import FedDESPaper

        return FedDESPaper(pool, **changes)

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "k")
        if self.features not in ("decision", "both"):
            raise ConfigError(f"features={self.features!r}: expected 'decision' or 'both'.")
        number = isinstance(self.balance, Real) and not isinstance(self.balance, bool)
        if self.balance is not None and not (number and 0 <= self.balance <= 1):
            raise ConfigError(f"balance={self.balance!r}: expected a number from 0 to 1, or None.")

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        parts = [rows, validation] if validation is not None else [rows]
        logits, y = np.concatenate([part.logits for part in parts]), np.concatenate([part.y for part in parts])
        with one_thread():
            self.space_ = DecisionSpace.fit(logits, y, k=self.k, calibrated=False)
            features, classes = _features(self.space_.probabilities), logits.shape[2]
            targets = np.concatenate([np.eye(classes)[y], self.space_.correct], axis=1).astype(np.float32)
            self.smooth_ = Smooth.fit(features, targets, y, classes, self._seed())
            self.linear_ = Linear.fit(features, y, classes)
            seen = [(part.X, part.y) for part in parts if part.X is not None and self.features == "both"]
            self.by_input_ = ByInput.fit(seen, classes, self._seed()) if seen else None

    def _competence(self, logits: Array, X: Any) -> Floats:
        return self._estimates(logits, X)[1]

    def _estimates(self, logits: Array, X: Any) -> tuple[list[Floats], Floats]:
        """Every q (n, classes), and s (n, models)."""
        if self.by_input_ is not None and X is None:
            raise DataError("X is missing: this learner was fitted with inputs and needs them, or features='decision'.")
        with one_thread():
            features, classes = _features(self.space_.project(logits)), logits.shape[2]
            found = self.smooth_(features)
            posteriors = [as_probabilities(found[:, :classes], self.smooth_.mean[:classes]), self.linear_(features)]
            if self.by_input_ is not None:
                posteriors.append(self.by_input_(X))
        return posteriors, np.clip(found[:, classes:], 0.0, 1.0)

    def _decide(self, logits: Array, X: Any) -> Decision:
        posteriors, competence = self._estimates(logits, X)
        says = logits.argmax(axis=2)
        posterior = np.mean(posteriors, axis=0)
        by_answer = self._shared(posterior, competence + TINY, says)
        total = competence.sum(axis=1, keepdims=True)
        by_competence = np.where(total > 0, competence / np.where(total > 0, total, 1.0), by_answer)
        trust = (len(posteriors) * by_answer + by_competence) / (len(posteriors) + 1)
        if power := BALANCE if self.balance is None else self.balance:
            count = np.bincount(self.space_.y, minlength=logits.shape[2])
            # A class that the site has never seen gets no advantage from being rare.
            trust = trust / np.where(count > 0, count / count.max(), 1.0)[says] ** power
        unreliable = np.asarray((competence <= THRESHOLD).all(axis=1))
        return Decision(trust / trust.sum(axis=1, keepdims=True), competence, unreliable, posterior)

    def _shared(self, posterior: Floats, weight: Floats, says: Any) -> Floats:
        """Each class's probability, shared among the models that say it in proportion to their weight."""
        rows = np.arange(len(says))[:, None]
        saying = np.zeros_like(posterior)
        np.add.at(saying, (rows, says), weight)
        trust = posterior[rows, says] * weight / saying[rows, says]
        total = trust.sum(axis=1, keepdims=True)
        home = np.zeros(says.shape[1])
        home[self.own_ or slice(None)] = 1.0
        return np.asarray(np.where(total > 0, trust / np.where(total > 0, total, 1.0), home / home.sum()))

    def _votes(self, logits: Array) -> Array:
        rest = np.float32(1 / (len(self.space_.y) + 1))
        return np.asarray((1 - rest) * super()._votes(logits) + rest / logits.shape[2])

    def _fitted_tree(self) -> dict[str, Any]:
        by_input = self.by_input_.to_tree() if self.by_input_ is not None else None
        parts = {"smooth": self.smooth_.to_tree(), "linear": self.linear_.to_tree(), "by_input": by_input}
        return {**super()._fitted_tree(), **parts}

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        self.smooth_, self.linear_ = Smooth.from_tree(tree["smooth"]), Linear.from_tree(tree["linear"])
        self.by_input_ = ByInput.from_tree(tree["by_input"]) if tree["by_input"] is not None else None
        models, classes = self.space_.probabilities.shape[1:]
        wanted = (models * classes, classes + models, classes)
        found = (self.smooth_.landmarks.shape[1], len(self.smooth_.mean), self.linear_.classes)
        answers = classes if self.by_input_ is None else len(self.by_input_.smooth.mean)
        if found != wanted or self.linear_.weights.shape[1] != models * classes or answers != classes:
            raise ParcelError("the saved learner does not fit its models and classes: it was changed or cut short.")


def _features(probabilities: Array) -> Array:
    return np.asarray(np.sqrt(flat(probabilities)))
