"""Membership attacks: how well a stranger who holds a row and the model tells whether the row was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Feature, Inputs, Rows, concatenate
from peerwise.errors import ConfigError, DataError
from peerwise.models.outputs import FLOOR, softmax
from peerwise.models.recipe import Recipe

SHADOWS = 16
BUDGET = 60.0
DRAWS = 400
FLOORS = (FLOOR, 0.01)
PRIOR = 4  # shadows' worth of all rows' variance in each row's own
FEW = 100  # with fewer non-members a false alarm rate of 1 % cannot be seen

Floats = NDArray[np.float64]


class HasLogits(Protocol):
    def predict_logits(self, X: Any) -> NDArray[Any]: ...


Fit = Callable[[Rows, int], HasLogits]  # rows and a seed


@dataclass(frozen=True)
class Attack:
    """What an attack reached. ``auc``: 0.5 is guessing, 1.0 knows every member; ``low`` to ``high`` holds it in 95 of
    100 draws of the rows. ``tpr_at_1``, ``tpr_at_10``: members found while 1 % or 10 % of the others are taken for one.
    """

    kind: Literal["threshold", "lira"]
    auc: float
    low: float
    high: float
    tpr_at_1: float
    tpr_at_10: float
    members: int
    non_members: int
    shadows: int
    seconds: float

    @property
    def few(self) -> bool:
        """Too few rows for ``tpr_at_1`` to mean much."""
        return self.non_members < FEW

    def facts(self) -> dict[str, Any]:
        """For the card, which says nothing exact about how many rows there are, nor how fast the machine is."""
        rounded = {name: round(value, 4) for name, value in asdict(self).items() if isinstance(value, float)}
        del rounded["seconds"]
        return {"kind": self.kind, **rounded, "few": self.few, "shadows": self.shadows}


def membership(
    model: HasLogits,
    train: Rows,
    held_out: Rows,
    *,
    fit: Fit | None = None,
    shadows: int = SHADOWS,
    budget: float = BUDGET,
    seed: int = 0,
) -> Attack:
    """The strongest attack that can be afforded: LiRA where ``fit`` is given and ``shadows`` fits are expected to take
    no more than ``budget`` seconds, by the time of the first; else by a threshold on the loss.

    ``held_out``: rows of the same source that the model was not trained on. Which attack is chosen depends on the
    machine, what it finds on ``seed`` alone; ``budget=math.inf`` always runs LiRA, ``budget=0`` never.
    """
    if fit is None or budget <= 0:
        return threshold(model, train, held_out, seed=seed)
    begin = perf_counter()
    fit(train, seed)
    if (perf_counter() - begin) * shadows > budget:
        return threshold(model, train, held_out, seed=seed)
    return lira(fit, together(train, held_out), shadows=shadows, seed=seed)


def threshold(model: HasLogits, train: Rows, held_out: Rows, *, seed: int = 0) -> Attack:
    """Members are those whose own class the model is surer of: score = log p(y | x).

    For a classifier that keeps to the classes of its rows this also finds members by class where train and held-out
    rows have different shares of them, so split these alike.
    """
    begin = perf_counter()
    _enough(len(train), len(held_out))
    inside, outside = (np.log(_own_class(model, rows)) for rows in (train, held_out))
    scores, member = np.concatenate([inside, outside]), np.repeat([True, False], [len(inside), len(outside)])
    figures = _figures(scores, member, np.arange(len(scores)), seed)
    return Attack("threshold", *figures, len(train), len(held_out), 0, perf_counter() - begin)


def lira(fit: Fit, rows: Rows, *, shadows: int = SHADOWS, seed: int = 0) -> Attack:
    """Likelihood-ratio attack on a recipe (Carlini et al., S&P 2022), every shadow model being attacked in turn.

    score = log N(phi; mu_in, s_in) - log N(phi; mu_out, s_out),   phi = log p(y | x) - log(1 - p(y | x))

    Each row, or each group of rows, is in a random half of the shadows' training rows. mu_in and mu_out are the row's
    own means over the other shadows with and without it; s_in and s_out are its own, drawn towards those of all rows
    as there are few shadows. Taken is the better of two readings, with p from 1e-7 or from 0.01 on: trees are often
    wholly sure, which no Gaussian fits. The figure is that of the recipe on half of ``rows``: a model of all of them
    gives away somewhat less. ``members`` and ``non_members`` count rows, each of which is both.
    """
    begin = perf_counter()
    _enough(len(rows), len(rows))
    if shadows < 4 or shadows % 2:
        raise ConfigError(f"{shadows} shadow models: expected an even number of at least 4, such as {SHADOWS}.")
    rng = np.random.default_rng(seed)
    unit = np.arange(len(rows)) if rows.group is None else np.unique(rows.group, return_inverse=True)[1]
    half = np.repeat([True, False], shadows // 2)
    member = rng.permuted(np.tile(half, (unit.max() + 1, 1)), axis=1)[unit].T
    own = np.array(
        [
            _own_class(fit(rows.take(np.flatnonzero(chosen)), seed + 1 + shadow), rows)
            for shadow, chosen in enumerate(member)
        ]
    )
    figures = max(
        _figures(_likelihood_ratios(_odds(own, floor), member).ravel(), member.ravel(), np.tile(unit, shadows), seed)
        for floor in FLOORS
    )
    return Attack("lira", *figures, len(rows), len(rows), shadows, perf_counter() - begin)


def recipe_fit(
    recipe: Recipe, *, classes: int, features: tuple[Feature, ...] = (), max_epochs: int | None = None
) -> Fit:
    """A recipe as the attack fits it. Give one that is trained by epochs the ``best_epoch`` of the model that leaves,
    as the shadows have no validation rows to stop by."""

    def fit(rows: Rows, seed: int) -> HasLogits:
        return recipe.fit(rows, None, classes=classes, features=features, seed=seed, max_epochs=max_epochs)

    return fit


def together(first: Rows, second: Rows) -> Rows:
    inputs: list[Inputs] = [first.X, second.X]
    groups = None
    if first.group is not None and second.group is not None:
        groups = np.concatenate([first.group, second.group])
    return Rows(concatenate(inputs), np.concatenate([first.y, second.y]), groups)


def _own_class(model: HasLogits, rows: Rows) -> Floats:
    own = softmax(model.predict_logits(rows.X))[np.arange(len(rows)), rows.y]
    return np.asarray(np.clip(own, FLOOR, 1.0))


def _odds(own: Floats, floor: float) -> Floats:
    return np.asarray(np.log(np.maximum(own, floor)) - np.log(np.maximum(1 - own, floor)))


def _likelihood_ratios(odds: Floats, member: NDArray[np.bool_]) -> Floats:
    """For every shadow and row, by what the other shadows say."""
    sides = []
    for chosen in (member, ~member):
        others = chosen.sum(axis=0) - chosen
        mean = ((odds * chosen).sum(axis=0) - odds * chosen) / others
        square = ((odds**2 * chosen).sum(axis=0) - odds**2 * chosen) / others
        variance = np.maximum(square - mean**2, 0.0) * others / np.maximum(others - 1, 1)
        variance = (others * variance + PRIOR * variance.mean()) / (others + PRIOR) + 1e-9
        sides.append(-((odds - mean) ** 2) / (2 * variance) - np.log(variance) / 2)
    return np.asarray(sides[0] - sides[1])


def _figures(
    scores: Floats, member: NDArray[np.bool_], unit: NDArray[np.int64], seed: int
) -> tuple[float, float, float, float, float]:
    """AUC with its interval by drawing units again, and the share of members found at 1 % and 10 % false alarms."""
    order = np.argsort(-scores, kind="stable")
    member, unit = member[order], unit[order]
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)  # of equal scores
    rng = np.random.default_rng([seed, 1])
    aucs = []
    for draw in range(DRAWS + 1):
        units = unit.max() + 1
        weight = np.bincount(rng.integers(units, size=units), minlength=units)[unit] if draw else np.ones(len(unit))
        found, false = (np.append(0.0, np.cumsum(weight * side)[ends]) for side in (member, ~member))
        if found[-1] and false[-1]:
            tpr, fpr = found / found[-1], false / false[-1]
            aucs.append(float(((tpr[1:] + tpr[:-1]) / 2 * np.diff(fpr)).sum()))
        if not draw:
            at_1, at_10 = (float(_at(rate, fpr, tpr)) for rate in (0.01, 0.1))
    low, high = np.quantile(aucs[1:], [0.025, 0.975])
    return aucs[0], float(low), float(high), at_1, at_10


def _at(rate: float, fpr: Floats, tpr: Floats) -> float:
    """On the line between two points of the curve, which is guessing among equal scores."""
    right = int(np.searchsorted(fpr, rate, side="right"))
    if right == len(fpr):
        return float(tpr[-1])
    left = right - 1
    return float(tpr[left] + (tpr[right] - tpr[left]) * (rate - fpr[left]) / (fpr[right] - fpr[left]))


def _enough(members: int, others: int) -> None:
    if members < 2 or others < 2:
        raise DataError(f"{members} members and {others} others: expected at least two each. Hold more rows out.")
