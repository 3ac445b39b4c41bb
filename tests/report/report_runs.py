"""Small real runs for the tests of reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data import Dataset, load
from peerwise.data.rows import Feature
from peerwise.run import Run, simulate

NASTY_SITES = ('<b>&"x', "=cmd()", "[red]a|b$")
NASTY_CLASSES = ("<script>alert(1)</script>", "@SUM(A1)")


def nasty(out: Path, **settings: Any) -> Run:
    """Sites, classes and features whose names mean something elsewhere."""
    whole = load("digits")
    X, y = np.asarray(whole.X)[:360, :6], whole.y[:360] % 2
    features = tuple(Feature(f"<i>{place}</i>={place}") for place in range(6))
    sites = np.array(NASTY_SITES)[np.arange(360) % 3]
    data = Dataset("odd <names>", "table", X, y, NASTY_CLASSES, features, site=sites)
    wanted = {"methods": ["local", "peerwise"], "models": ["logistic"], "folds": 2, "seeds": 1, **settings}
    return simulate(data, out=out, subgroup="site", **wanted)


def heart(out: Path, **settings: Any) -> Run:
    wanted = {"methods": ["local", "global_ensemble", "peerwise"], "models": ["logistic"], "folds": 2, "seeds": 2}
    return simulate("heart_disease", out=out, **{**wanted, **settings})
