"""Why a metric has no value, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerwise.metrics import Labels

RANKED = ("auroc", "auprc")
CALLED = ("sensitivity", "specificity")
OTHERS = ("accuracy", "balanced_accuracy", "ece", "log_loss", "brier")


def why_undefined(y: Labels, classes: Sequence[str], positive: int | None = None) -> dict[str, str]:
    """A reason for each of the metrics of `scores` that these test rows leave undefined.

    >>> why_undefined(np.array([1, 1]), ["well", "sick"])["auroc"]
    "all 2 test rows are of class 'sick'"
    """
    if len(y) == 0:
        return dict.fromkeys((*OTHERS, *RANKED, *CALLED), "no test rows")
    found: dict[str, str] = {}
    present = np.unique(y)
    if len(present) == 1:
        found |= dict.fromkeys(RANKED, f"all {len(y)} test rows are of class {classes[present[0]]!r}")
    code = 1 if positive is None and len(classes) == 2 else positive
    if code is None:
        return found | dict.fromkeys(CALLED, "more than two classes: name the one to be found (positive)")
    if code not in present:
        found["sensitivity"] = f"no test row is of class {classes[code]!r}"
    if present.tolist() == [code]:
        found["specificity"] = f"all {len(y)} test rows are of class {classes[code]!r}"
    return found
