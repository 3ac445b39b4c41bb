"""FedPAE: one fixed subset of the pool for all rows, found by a genetic search for strong and diverse models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ConfigError
from peerwise.space.competence import meta_labels
from peerwise.space.outputs import Array, softmax
from peerwise.trust.base import Labelled, Vote
from peerwise.trust.simple import FixedTrust

Chromosome = NDArray[np.bool_]
Diversity = Literal["auto", "determinant", "correlation", "double_fault"]
Measure = Callable[[NDArray[np.int64]], float]


class FedPAE(FixedTrust):
    """Peer-adaptive ensembles (Mueller, Street et al., IEEE BigData 2024): the static predecessor of
    `FedDES`. NSGA-II searches subsets of the M models, as M bits, that are best in two respects at once:

        strength = mean over the chosen models of their accuracy
        diversity = mean over rows of max(0, det G), G_ab = cosine of what a and b say besides the true class

    and of its first front (and the own models, so that the choice is never worse than they are on the rows it is made
    on) the subset whose votes are right most often is taken; of several the smaller, then the more
    diverse one. Its models share the trust alike. These rows are the validation rows or, where there are none, those
    given to ``fit``, with own columns out of fold.

    ``population`` subsets live through ``generations``, each with twice as many children: of two parents (90 %, every
    bit from either) or of one by mutation (5 %, each bit turned with 1 / M), else copies; too many models are dropped
    and a missing one is added by chance. The own models are the first of all subsets.

    ``diversity``: the determinant is 0 for more than C - 1 models, which is then the largest size. With two classes it
    would leave single models only, so that ``"auto"`` takes the determinant for three and more classes and
    ``"double_fault"`` for fewer: 1 - how often both of two models are wrong, over all pairs. ``"correlation"`` is 1 -
    the cosine of two models' centred probabilities. With these two any size goes. A single model has diversity 0.

    Departs from the paper: the own models are always a candidate at the end, and two classes are possible.
    """

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        population: int = 40,
        generations: int = 40,
        diversity: Diversity = "auto",
        vote: Vote = "soft",
        random_state: int | None = None,
    ) -> None:
        super().__init__(pool, own=own, vote=vote)
        self.population = population
        self.generations = generations
        self.diversity = diversity
        self.random_state = random_state

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(2, "population")
        self._whole_from(0, "generations")
        if self.diversity not in ("auto", "determinant", "correlation", "double_fault"):
            raise ConfigError(
                f"diversity={self.diversity!r}: expected 'auto', 'determinant', 'correlation' or 'double_fault'."
            )

    def _weights(self, rows: Labelled, validation: Labelled | None) -> NDArray[np.float64]:
        try:
            from peerwise.trust.genetic import pareto_front
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{error.name} is not installed, and FedPAE searches with it: pip install 'peerwise[fedpae]'."
            ) from error
        judged = validation if validation is not None else rows
        models, classes = judged.logits.shape[1:]
        probabilities = softmax(judged.logits)
        accuracy = meta_labels(judged.logits, judged.y).mean(axis=0)
        diversity, largest = self._diversity(probabilities, judged.y, models, classes)
        own = np.isin(np.arange(models), self.own_)

        def fitness(chosen: Chromosome) -> tuple[float, float]:
            places = np.flatnonzero(chosen)
            found = float(accuracy[places].mean()), diversity(places) if len(places) > 1 else 0.0
            return round(found[0], 9), round(found[1], 9)  # or the last bits of a sum would decide who beats whom

        sizes = (self.population, self.generations, max(1, min(largest, models)))
        front = pareto_front(fitness, own, *sizes, np.random.default_rng(self._seed()))
        best = self._best([own, *front] if own.any() else front, judged, fitness)
        return np.asarray(best / best.sum())

    def _diversity(self, p: Array, y: NDArray[np.int64], models: int, classes: int) -> tuple[Measure, int]:
        """How to measure it, and how many models can have any."""
        if self.diversity == "determinant" and classes < 3:
            raise ConfigError(
                f"diversity='determinant' with {classes} classes: expected at least 3, as fewer allow single models "
                f"only. Use diversity='auto'."
            )
        if self.diversity == "determinant" or (self.diversity == "auto" and classes > 2):
            return _determinant(p, y), classes - 1
        return _pairwise(_correlation(p) if self.diversity == "correlation" else _double_fault(p, y)), models

    def _best(
        self,
        candidates: Iterable[Chromosome],
        judged: Labelled,
        fitness: Callable[[Chromosome], tuple[float, float]],
    ) -> Chromosome:
        votes = self._votes(judged.logits).astype(np.float64)

        def worth(chosen: Chromosome) -> tuple[float, int, float]:
            answers = np.round(votes[:, chosen].mean(axis=1), 12).argmax(axis=1)  # as it will answer, ties and all
            return float((answers == judged.y).mean()), -int(chosen.sum()), fitness(chosen)[1]

        return max(candidates, key=worth)


def _determinant(p: Array, y: NDArray[np.int64]) -> Measure:
    """Of the directions of what models say besides the true class: 1 where they are at right angles, 0 where one
    follows from the others."""
    others = p.astype(np.float64)
    np.put_along_axis(others, y[:, None, None], 0, axis=2)
    others /= np.maximum(np.linalg.norm(others, axis=2, keepdims=True), 1e-12)

    def measure(places: NDArray[np.int64]) -> float:
        if len(places) >= p.shape[2]:
            return 0.0
        chosen = others[:, places]
        return float(np.maximum(np.linalg.det(chosen @ chosen.swapaxes(1, 2)), 0).mean())

    return measure


def _pairwise(distance: NDArray[np.float64]) -> Measure:
    """The mean over all pairs of the chosen models."""

    def measure(places: NDArray[np.int64]) -> float:
        pairs = distance[np.ix_(places, places)]
        return float((pairs.sum() - np.trace(pairs)) / (len(places) * (len(places) - 1)))

    return measure


def _correlation(p: Array) -> NDArray[np.float64]:
    flat = p.swapaxes(0, 1).reshape(p.shape[1], -1).astype(np.float64)
    flat -= flat.mean(axis=1, keepdims=True)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    return np.asarray(1 - flat @ flat.T)


def _double_fault(p: Array, y: NDArray[np.int64]) -> NDArray[np.float64]:
    wrong = (p.argmax(axis=2) != y[:, None]).astype(np.float64)
    return np.asarray(1 - wrong.T @ wrong / len(y))
