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
from peerwise.evaluate.summary import LOCAL
from peerwise.metrics import THRESHOLD, Labels, Probabilities, accuracy, scores
from peerwise.run import Run


def by_subgroup(
    y: Labels,
    probabilities: Probabilities,
    subgroup: ArrayLike,
    own: NDArray[Any] | None = None,
    *,
    positive: int | None = None,
    threshold: float = THRESHOLD,
) -> pd.DataFrame:
    """A line for each subgroup: ``rows``, all of `scores`, and against ``own`` (the own model's answers, class codes)
    ``own_accuracy`` and ``accuracy_gain`` from ``accuracy_gain_low`` to ``accuracy_gain_high`` (score interval; not
    corrected for the number of subgroups)."""
    groups = np.asarray(subgroup).astype(str)
    if groups.shape != y.shape:
        raise DataError(f"subgroup has shape {groups.shape}: expected {y.shape}, a name for each row.")
    lines = []
    for name in sorted(set(groups.tolist()), key=_place):
        rows = groups == name
        line: dict[str, Any] = {"subgroup": name, "rows": int(rows.sum())}
        line |= scores(y[rows], probabilities[rows], positive=positive, threshold=threshold)
        if own is not None:
            found = compare(y[rows], probabilities[rows].argmax(axis=1), own[rows])
            line |= {"own_accuracy": accuracy(y[rows], own[rows]), "accuracy_gain": found.gain}
            line |= {"accuracy_gain_low": found.low, "accuracy_gain_high": found.high}
        lines.append(line)
    return pd.DataFrame(lines)


def subgroup_tables(run: Run, positive: int | None, threshold: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A line a method and subgroup (all sites of a seed together, then the mean over seeds; where all sites are tested
    on the same rows, the mean over sites and seeds), and one a seed, method, site and subgroup; both empty for a run
    without subgroups."""
    apart: list[pd.DataFrame] = []
    together: dict[tuple[int, str, str], list[_Answers]] = {}
    for (seed, method, site), tree in run.predictions.items():
        if tree["subgroup"] is None or not len(tree["y"]):
            continue
        own = None if method == LOCAL else own_answers(run, seed, method, site)[1]
        answers = _Answers(tree["y"], tree["probabilities"], np.asarray(tree["subgroup"]), own)
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
    return mean, _led_by(pd.concat(apart), ["seed", "method", "site", "subgroup"])


@dataclass(frozen=True)
class _Answers:
    y: Labels
    probabilities: Probabilities
    subgroup: NDArray[np.str_]
    own: Labels | None

    def table(self, positive: int | None, threshold: float) -> pd.DataFrame:
        return by_subgroup(self.y, self.probabilities, self.subgroup, self.own, positive=positive, threshold=threshold)


def _joined(parts: list[_Answers]) -> _Answers:
    owns = [part.own for part in parts if part.own is not None]
    return _Answers(
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
        np.concatenate([part.subgroup for part in parts]),
        np.concatenate(owns) if len(owns) == len(parts) else None,
    )


def _led_by(table: pd.DataFrame, first: list[str]) -> pd.DataFrame:
    return table[[*first, *(column for column in table.columns if column not in first)]].reset_index(drop=True)


def _place(name: str) -> tuple[bool, float, int, str]:
    """Names with numbers in their order ("up to 47", "47 to 54", "above 60"), then other names, missing last."""
    number = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", name)
    edge = 0 if name.startswith("up to ") else 2 if name.startswith("above ") else 1
    return name == "missing", float(number.group()) if number else math.inf, edge, name
