"""One answer opened: the nearest known cases, what each model says, how reliable it is here, and its weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data.rows import Sequences
from peerwise.errors import DataError
from peerwise.space import softmax
from peerwise.space.neighbours import Neighbourhood
from peerwise.space.outputs import Array
from peerwise.trust.base import Decision

if TYPE_CHECKING:
    from peerwise.trust.competence import CompetenceLearner

SHOWN = 6
PULLS = 3  # sites that moved the answer most
LEAST_PULL = 0.005  # of probability
NEARBY = 7  # the heaviest neighbours, on which a reader is told how often each model was right
LEAST = 0.005  # the weight of a neighbour that counts as near


@dataclass(frozen=True)
class ModelSay:
    """One model's part in an answer; ``right_nearby`` counts the heaviest neighbours that it answers rightly."""

    name: str
    own: bool
    answer: Any
    confidence: float
    competence: float
    trust: float
    right_nearby: int
    of_nearby: int


@dataclass(frozen=True)
class NearbyCase:
    """One known row that the answer rests on: its row number in fit (validation rows, where they are learned from, come
    after), label, distance and weight."""

    row: int
    label: Any
    distance: float
    weight: float


@dataclass(frozen=True)
class Explanation:
    """Print it to read it; models come by trust, neighbours by weight. ``own``: what the own models alone would have
    answered, with ``own_probability``; None where there are none. ``influence``: by site, how much of the answer's
    probability is owed to it (`TrustLearner.influence`); empty where it is not known."""

    answer: Any
    probabilities: dict[Any, float]
    fallback: bool
    models: tuple[ModelSay, ...]
    neighbours: tuple[NearbyCase, ...]
    influence: dict[str, float] = field(default_factory=dict)
    own: Any = None
    own_probability: float = math.nan

    def __str__(self) -> str:
        lines = [f"answer: {self.answer} (p = {self.probabilities[self.answer]:.2f}); {self.agreement}"]
        lines += ["no model is reliable here"] if self.fallback else []
        if self.agreed:
            return "\n".join([*lines, self._nearest()])
        lines += [f"own models alone: {self.own} (p = {self.own_probability:.2f})"] if self.own is not None else []
        lines += [f"pulled by: {self.pulled}"] if self.pulled else []
        voters = sum(say.trust > 0 for say in self.models)
        lines += [f"{voters} of {len(self.models)} models have a say"] if voters < len(self.models) else []
        head = f"{'model':<28} {'says':<14} {'trust':>6} {'competence':>11} {'right nearby':>13}"
        lines += ["", head]
        for say in self.models[:SHOWN]:
            name = f"{say.name} (own)" if say.own else say.name
            nearby = f"{say.right_nearby} of {say.of_nearby}"
            lines.append(f"{name:<28} {say.answer!s:<14} {say.trust:>6.2f} {say.competence:>11.2f} {nearby:>13}")
        if len(self.models) > SHOWN:
            lines.append(f"... and {len(self.models) - SHOWN} more models")
        lines += ["", self._nearest()]
        lines.append("competence is what the learner estimates; right nearby counts the nearest known cases")
        return "\n".join(lines)

    @property
    def agreed(self) -> bool:
        """Whether every model gives the same answer."""
        return all(say.answer == self.answer for say in self.models)

    @property
    def agreement(self) -> str:
        """Whether the models disagree, in words."""
        if self.agreed:
            return f"all {len(self.models)} models say {self.answer}" if len(self.models) > 1 else "there is one model"
        against = sum(say.answer != self.answer for say in self.models)
        return f"{against} of {len(self.models)} models say otherwise"

    @property
    def pulled(self) -> str:
        """Which sites moved the answer's probability most, and where to, in words; empty where none did."""
        most = sorted(self.influence.items(), key=lambda item: -abs(item[1]))[:PULLS]
        return ", ".join(
            f"{site} {'for' if share > 0 else 'against'} it ({share:+.2f})"
            for site, share in most
            if abs(share) >= LEAST_PULL
        )

    def _nearest(self) -> str:
        near = self.neighbours[: self.models[0].of_nearby]
        cases = ", ".join(f"row {case.row} ({case.label}, {case.weight:.2f})" for case in near)
        return f"nearest known cases (label, weight): {cases}"


def explain_row(
    learner: CompetenceLearner,
    decision: Decision,
    probabilities: NDArray[np.float64],
    logits: Array,
    near: Neighbourhood,
    influence: dict[str, float] | None = None,
    row_numbers: NDArray[np.int64] | None = None,
) -> Explanation:
    """Put one row's decision into words and numbers. ``row_numbers``: the rows of `fit` that those of the learner's
    space are, where some were left out."""
    classes = learner.classes_.tolist()
    index, weight, distance = near.index[0], near.weight[0], near.distance[0]
    there = np.flatnonzero(index >= 0)
    there = there[np.argsort(-weight[there], kind="stable")]
    nearby = there[:NEARBY][weight[there[:NEARBY]] >= LEAST]
    right = learner.space_.correct[index[nearby]].sum(axis=0)
    votes = learner.space_.project(logits[None])[0]
    competence = decision.competence[0] if decision.competence is not None else decision.trust[0]
    says = [
        ModelSay(
            name=name,
            own=m in learner.own_,
            answer=classes[int(logits[m].argmax())],  # as it votes: a very flat calibration can lose its first place
            confidence=float(votes[m].max()),
            competence=float(competence[m]),
            trust=float(decision.trust[0, m]),
            right_nearby=int(right[m]),
            of_nearby=len(nearby),
        )
        for m, name in enumerate(learner.model_names_)
    ]
    own = softmax(logits[None, learner.own_])[0].mean(axis=0) if learner.own_ else None
    labels = learner.space_.y[index[there]]
    numbers = index if row_numbers is None else row_numbers[index]
    cases = [
        NearbyCase(int(numbers[s]), classes[label], float(distance[s]), float(weight[s]))
        for s, label in zip(there, labels, strict=True)
    ]
    return Explanation(
        answer=classes[int(learner.answers(probabilities[None])[0])],
        probabilities=dict(zip(classes, probabilities.tolist(), strict=True)),
        fallback=bool(decision.fallback[0]),
        models=tuple(sorted(says, key=lambda say: (-say.trust, -say.competence))),
        neighbours=tuple(cases),
        influence=influence or {},
        own=None if own is None else classes[int(own.argmax())],
        own_probability=math.nan if own is None else float(own.max()),
    )


def remark(opened: Explanation) -> str:
    """Why others are believed, where the own models are mostly wrong on the nearest known cases; else nothing."""
    own = [say for say in opened.models if say.own and say.of_nearby]
    if not own or any(say.answer == opened.answer for say in own):
        return ""
    best = max(own, key=lambda say: say.right_nearby)
    wrong = best.of_nearby - best.right_nearby
    return f"own model wrong on {wrong} of {best.of_nearby} such cases" if 2 * wrong > best.of_nearby else ""


def one_row(x: Any, example: Any) -> Any:
    """``x`` as a batch of one, whether it came as a single row (shaped like a row of fit's X) or as a batch of one."""
    if isinstance(x, pd.Series):
        frame = x.to_frame().T
        x = frame.astype(example.dtypes.to_dict()) if isinstance(example, pd.DataFrame) else frame.infer_objects()
    elif isinstance(x, Sequences) and np.ndim(x.series) == 2:
        x = Sequences(x.static[None], x.series[None])
    elif isinstance(example, np.ndarray) and np.ndim(x) == example.ndim - 1:
        x = np.asarray(x)[None]
    if len(x) != 1:
        raise DataError(f"explain takes one row, got {len(x)}: pass X[i:i + 1].")
    return x
