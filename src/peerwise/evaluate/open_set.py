"""Open-set methods: does a site's net know what it does not know, how many should vote, and has a method collapsed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix, roc_auc_score

from peerwise.metrics import Labels
from peerwise.run import Run
from peerwise.run.score import answers_of

NEARLY_ALL = 0.95  # of the rows answered with one class
ENOUGH = 10  # rows of a class, to be more than chance
COLLAPSED, NEVER = "collapsed", "never answers a class"


def open_auroc(y: Labels, unknown: ArrayLike, known_classes: Sequence[int]) -> tuple[float, str]:
    """How well a net's score for "unknown" (n,) tells rows of classes that it has never seen from the others: the area
    under the ROC curve. NaN, and why, where these rows do not allow it.

    >>> open_auroc(np.array([0, 1, 2]), [0.1, 0.3, 0.8], [0, 1])
    (1.0, '')
    """
    if not len(y):
        return float("nan"), "no test rows"
    strange = ~np.isin(y, np.asarray(known_classes, dtype=np.int64))
    if not strange.any():
        return float("nan"), f"all {len(y)} test rows are of classes that the site has"
    if strange.all():
        return float("nan"), f"all {len(y)} test rows are of classes that the site lacks"
    return float(roc_auc_score(strange, np.asarray(unknown, dtype=np.float64))), ""


def site_open_auroc(tree: Mapping[str, Any], site: str) -> tuple[float, str]:
    """`open_auroc` of a site's own net (the mean of several) within one site's predictions of a run."""
    details = tree["details"]
    if "unknown" not in details:
        return float("nan"), "" if len(tree["y"]) else "no test rows"
    own = [place for place, name in enumerate(details["models"]) if name.partition("@")[2] == site]
    if not own:
        return float("nan"), "the site has no net of its own in the pool"
    return open_auroc(tree["y"], details["unknown"][:, own].mean(axis=1), details["known_classes"])


def confusion(y: Labels, answers: Labels, classes: int) -> NDArray[np.int64]:
    """(classes, classes): rows of the class in the row that were answered with that in the column."""
    if not len(y):
        return np.zeros((classes, classes), np.int64)
    return np.asarray(confusion_matrix(y, answers, labels=np.arange(classes)), dtype=np.int64)


def collapse(table: NDArray[np.int64], classes: Sequence[str]) -> str:
    """What a `confusion` shows of a collapse, in words, or nothing: 95 % of the rows answered with one class though
    5 % or more, and 10 rows, are of others, and half of these or more are among them.

    >>> collapse(np.array([[50, 0], [49, 1]]), ["well", "sick"])
    "'well' answers 99% of 100 rows, and is 50% of them"
    """
    rows = int(table.sum())
    if not rows:
        return ""
    answered, present = table.sum(axis=0), table.sum(axis=1)
    top = int(answered.argmax())
    others = rows - int(present[top])
    swallowed = int(answered[top] - table[top, top])
    many = others >= max(ENOUGH, (1 - NEARLY_ALL) * rows) and 2 * swallowed >= others
    if answered[top] >= NEARLY_ALL * rows and many:
        share = present[top] / rows
        return f"{classes[top]!r} answers {answered[top] / rows:.0%} of {rows} rows, and is {share:.0%} of them"
    return ""


def never_answered(table: NDArray[np.int64], classes: Sequence[str], trained: ArrayLike) -> str:
    """Which classes of 10 rows or more a `confusion` has no answer of, in words, or nothing. Only those count of which
    the site has train rows (``trained``: how many of each class): nobody answers what it has never seen.

    >>> never_answered(np.array([[40, 0, 0], [10, 0, 0], [10, 0, 0]]), "xyz", [70, 20, 0])
    "'y': 1 of 2 classes that it was trained on and that have 10 rows or more"
    """
    counted = (table.sum(axis=1) >= ENOUGH) & (np.asarray(trained) > 0)
    never = [repr(classes[int(code)]) for code in np.flatnonzero(counted & (table.sum(axis=0) == 0))]
    if not never:
        return ""
    among = f"{len(never)} of {counted.sum()} classes that it was trained on and that have {ENOUGH} rows or more"
    return f"{', '.join(never)}: {among}"


def collapsed(run: Run, classes: Sequence[str]) -> list[dict[str, Any]]:
    """A line for each method and ``what``, which is "collapsed" or, at sites where that is not so, "never answers a
    class": ``method``, at how many ``sites`` (over all seeds) ``of`` those with test rows, and the first of them
    (``seed``, ``site``, ``why``)."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    scored: dict[str, int] = {}
    for (seed, method, site), tree in run.predictions.items():
        if not len(tree["y"]):
            continue
        scored[method] = scored.get(method, 0) + 1
        table = confusion(tree["y"], answers_of(tree), len(classes))
        what, why = COLLAPSED, collapse(table, classes)
        if not why:
            what, why = NEVER, never_answered(table, classes, tree["label_counts"])
        if why:
            line = {"method": method, "what": what, "sites": 0, "seed": seed, "site": site, "why": why}
            found.setdefault((method, what), line)["sites"] += 1
    return [{**line, "of": scored[line["method"]]} for line in found.values()]


def confusions(run: Run, classes: int) -> list[dict[str, Any]]:
    """The `confusion` of every ``seed`` and ``method``, all sites together, as ``table``: a list a class, of how many
    of its rows were answered with each."""
    tables: dict[tuple[int, str], NDArray[np.int64]] = {}
    for (seed, method, _), tree in run.predictions.items():
        table = confusion(tree["y"], answers_of(tree), classes)
        tables[seed, method] = tables.get((seed, method), 0) + table
    return [{"seed": seed, "method": method, "table": table.tolist()} for (seed, method), table in tables.items()]


def vote_curves(run: Run) -> pd.DataFrame:
    """The accuracy if 1, 2, ... models voted: a line a seed, method, site and ``k``, where a method votes by known
    score. A choice of ``k`` from these lines is a choice on test rows: it is no result."""
    lines = [
        {"seed": seed, "method": method, "site": site, "k": k, "accuracy": accuracy}
        for (seed, method, site), tree in run.predictions.items()
        if "by_k" in tree["details"] and len(tree["y"])
        for k, accuracy in enumerate((tree["details"]["by_k"] == tree["y"][:, None]).mean(axis=0).tolist(), start=1)
    ]
    return pd.DataFrame(lines, columns=["seed", "method", "site", "k", "accuracy"])
