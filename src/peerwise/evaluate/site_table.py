"""A line for each seed, method and site: metrics, the test against the own model, and the choice among models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerwise.evaluate.open_set import site_open_auroc
from peerwise.evaluate.own import own_answers
from peerwise.evaluate.paired import compare, holm
from peerwise.evaluate.selection import gap_closed, mismatch
from peerwise.evaluate.summary import CHOICE, METRICS, REFERENCES
from peerwise.evaluate.undefined import why_undefined
from peerwise.metrics import Labels, accuracy, balanced_accuracy, scores
from peerwise.run import Run
from peerwise.run.score import answers_of

Line = dict[str, Any]

# A line always has these, also where no method of the run does.
COUNTS = ("only_ours", "only_own")
COMPARED = (*(f"{metric}_gain{end}" for metric in METRICS for end in ("", "_low", "_high")), "mcnemar_p")


def site_table(run: Run, classes: Sequence[str], positive: int | None, threshold: float) -> pd.DataFrame:
    """The columns that `Assessment` describes. Holm's correction runs over all seeds and sites of a method."""
    lines: list[Line] = []
    for row in run.results.to_dict(orient="records"):
        line = {str(key): value for key, value in row.items()}
        seed, method, site = line["seed"], line["method"], line["site"]
        tree = run.predictions[seed, method, site]
        y, details = tree["y"], tree["details"]
        line |= scores(y, tree["probabilities"], answers_of(tree), positive=positive, threshold=threshold)
        reference, own = own_answers(run, seed, method, site)
        line |= _against_own(y, answers_of(tree), own, itself=method in REFERENCES)
        line |= {"reference": reference, **dict.fromkeys(CHOICE, np.nan)}
        if "trust" in details:
            line |= mismatch(y, details["trust"], details["says"])
        line["oracle_gap_closed"] = gap_closed([line["accuracy"]], [line["own_accuracy"]], [line["oracle"]])
        line["open_auroc"], why = site_open_auroc(tree, site)
        lines.append(line | {"undefined": why_undefined(y, classes, positive) | ({"open_auroc": why} if why else {})})
    table = pd.DataFrame(lines)
    table["holm_p"] = table.groupby("method")["mcnemar_p"].transform(lambda p: holm(p.to_numpy(dtype=float)))
    return table.astype(dict.fromkeys(COUNTS, "Int64"))


def _against_own(y: Labels, ours: Labels, own: Labels | None, *, itself: bool) -> Line:
    line: Line = {"own_accuracy": np.nan, "own_balanced_accuracy": np.nan}
    line |= dict.fromkeys(COUNTS) | dict.fromkeys(COMPARED, np.nan)
    if own is None:
        return line
    line |= {"own_accuracy": accuracy(y, own), "own_balanced_accuracy": balanced_accuracy(y, own)}
    if itself:  # no test of anything
        return line
    found = compare(y, ours, own)
    return line | {
        "only_ours": found.only_ours,
        "only_own": found.only_own,
        "accuracy_gain": found.gain,
        "accuracy_gain_low": found.low,
        "accuracy_gain_high": found.high,
        "balanced_accuracy_gain": found.balanced_gain,
        "balanced_accuracy_gain_low": found.balanced_low,
        "balanced_accuracy_gain_high": found.balanced_high,
        "mcnemar_p": found.p,
    }
