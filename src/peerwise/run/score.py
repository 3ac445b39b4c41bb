"""One site's numbers from its predictions: a row of the results, and its curves over the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from peerwise.metrics import Labels, accuracy, balanced_accuracy, effective_size, scores

Predictions = dict[tuple[int, str, str], dict[str, Any]]
CURVES = {"seed": "int64", "method": "str", "site": "str", "round": "int64", "name": "str", "value": "float64"}


def answers_of(tree: Mapping[str, Any]) -> Labels:
    """Class codes that a predictions tree answers with: by the method's decision rule, the likeliest without one."""
    details = tree.get("details") or {}
    return np.asarray(details["answers"] if "answers" in details else tree["probabilities"].argmax(axis=1))


def site_row(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics on the test rows, the own model's where the pool holds it, ensemble behaviour where trust is known,
    bytes, rounds and seconds by phase."""
    y, details = tree["y"], tree["details"]
    row: dict[str, Any] = {"test_rows": len(y), **scores(y, tree["probabilities"], answers_of(tree))}
    own = details["own"].argmax(axis=1) if "own" in details else None
    row["own_accuracy"] = None if own is None else accuracy(y, own)
    row["own_balanced_accuracy"] = None if own is None else balanced_accuracy(y, own)
    has_trust = "trust" in details
    row["ensemble_size"] = float((details["trust"] > 0).sum(axis=1).mean()) if has_trust else None
    row["ess"] = float(effective_size(details["trust"]).mean()) if has_trust else None
    row["fallback"] = float(details["fallback"].mean()) if has_trust else None
    row["oracle"] = float(np.mean((details["says"] == y[:, None]).any(axis=1))) if has_trust else None
    row["bytes_sent"] = tree["sent"]
    row["bytes_received"] = tree["received"]
    row["rounds"] = tree["rounds"]
    row["took_part"] = len(tree["took_part"])
    row["best_round"] = tree["best_round"]
    row["lr"] = tree["lr"]
    return row | {f"seconds_{phase}": float(value) for phase, value in tree["seconds"].items()}


def curves_of(predictions: Predictions) -> pd.DataFrame:
    """A line a seed, method, site, round and name of a value that was noted after that round."""
    lines = [
        (seed, method, site, round, name, value)
        for (seed, method, site), tree in predictions.items()
        for name, points in tree["curves"].items()
        for round, value in points
    ]
    return pd.DataFrame(lines, columns=list(CURVES)).astype(CURVES)
