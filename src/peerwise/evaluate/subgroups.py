"""Metrics by subgroup: does a method serve all people alike?"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from peerwise.errors import DataError
from peerwise.evaluate.own import own_answers
from peerwise.evaluate.paired import compare
from peerwise.evaluate.summary import REFERENCES
from peerwise.metrics import THRESHOLD, Labels, Probabilities, accuracy, scores
from peerwise.run import Run
from peerwise.run.score import answers_of


def by_subgroup(
    y: Labels,
    probabilities: Probabilities,
    subgroup: ArrayLike,
    own: NDArray[Any] | None = None,
    answers: Labels | None = None,
    *,
    positive: int | None = None,
    threshold: float = THRESHOLD,
) -> pd.DataFrame:
    """A line for each subgroup: ``rows``, all of `scores`, and against ``own`` (the own model's answers, class codes)
    ``own_accuracy`` and ``accuracy_gain`` from ``accuracy_gain_low`` to ``accuracy_gain_high`` (score interval; not
    corrected for the number of subgroups). ``answers``: class codes, the likeliest class by default."""
    answers = probabilities.argmax(axis=1) if answers is None else answers
    groups = np.asarray(subgroup).astype(str)
    if groups.shape != y.shape:
        raise DataError(f"subgroup has shape {groups.shape}: expected {y.shape}, a name for each row.")
    lines = []
    for name in sorted(set(groups.tolist()), key=_place):
        rows = groups == name
        line: dict[str, Any] = {"subgroup": name, "rows": int(rows.sum())}
        line |= scores(y[rows], probabilities[rows], answers[rows], positive=positive, threshold=threshold)
        if own is not None:
            found = compare(y[rows], answers[rows], own[rows])
            line |= {"own_accuracy": accuracy(y[rows], own[rows]), "accuracy_gain": found.gain}
            line |= {"accuracy_gain_low": found.low, "accuracy_gain_high": found.high}
        lines.append(line)
    return pd.DataFrame(lines)


def subgroup_tables(run: Run, positive: int | None, threshold: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One line per method and subgroup (all sites of a seed together, then the mean over seeds; where all sites are
    tested on the same rows, the mean over sites and seeds), and one per seed, method, site and subgroup, both with the
    ``bar`` that the method is held to; both empty for a run without subgroups."""
    apart: list[pd.DataFrame] = []
    bars: dict[str, str | None] = {}
    together: dict[tuple[int, str, str], list[_Answers]] = {}
    for (seed, method, site), tree in run.predictions.items():
        if tree["subgroup"] is None or not len(tree["y"]):
            continue
        bars[method], own = (None, None) if method in REFERENCES else own_answers(run, seed, method, site)
        subgroup = np.asarray(tree["subgroup"])
        answers = _Answers(tree["y"], tree["probabilities"], subgroup, own, answers_of(tree))
        apart.append(answers.table(positive, threshold).assign(seed=seed, method=method, site=site))
        # the same rows at every site are not more rows
        place = (seed, method, site if run.experiment.test == "common" else "")
        together.setdefault(place, []).append(answers)
    if not apart:
        return pd.DataFrame(), pd.DataFrame()
    pooled = pd.concat(
        [_joined(parts).table(positive, threshold).assign(method=method) for (_, method, _), parts in together.items()]
    )
    mean = pooled.groupby(["method", "subgroup"], sort=False).mean().reset_index()
    each = _led_by(pd.concat(apart), ["seed", "method", "site", "subgroup"])
    for table in (mean, each):  # None stays None, which Series.map would turn into NaN
        table["bar"] = pd.Series([bars[str(name)] for name in table["method"]], index=table.index, dtype=object)
    return mean, each


@dataclass(frozen=True)
class _Answers:
    y: Labels
    probabilities: Probabilities
    subgroup: NDArray[np.str_]
    own: Labels | None
    answers: Labels

    def table(self, positive: int | None, threshold: float) -> pd.DataFrame:
        given = self.y, self.probabilities, self.subgroup, self.own, self.answers
        return by_subgroup(*given, positive=positive, threshold=threshold)


def _joined(parts: list[_Answers]) -> _Answers:
    owns = [part.own for part in parts if part.own is not None]
    return _Answers(
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
        np.concatenate([part.subgroup for part in parts]),
        np.concatenate(owns) if len(owns) == len(parts) else None,
        np.concatenate([part.answers for part in parts]),
    )


def _led_by(table: pd.DataFrame, first: list[str]) -> pd.DataFrame:
    return table[[*first, *(column for column in table.columns if column not in first)]].reset_index(drop=True)


def _place(name: str) -> tuple[bool, float, int, str]:
    """Names with numbers in their order ("up to 47", "47 to 54", "above 60"), then other names, missing last."""
    number = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", name)
    edge = 0 if name.startswith("up to ") else 2 if name.startswith("above ") else 1
    return name == "missing", float(number.group()) if number else math.inf, edge, name
