"""Toy methods through the real runtime: one run, and whether two are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from round_methods import federation

from peerwise.methods import Method
from peerwise.run import RunFolder
from peerwise.run.method_run import MethodRun
from peerwise.run.participation import Participation

HERE = Path(__file__).parent
EVERYBODY = Participation()
Tree = dict[str, Any]


def run(
    folder: Path,
    method: Method,
    sites: int = 4,
    workers: int = 1,
    participation: Participation = EVERYBODY,
    told: list[Tree] | None = None,
) -> dict[str, Tree]:
    """Every site's predictions."""
    here = federation(sites)
    tell: Callable[[Tree], None] = [].append if told is None else told.append
    MethodRun("toy-s0", method, here, RunFolder(folder), workers, tell, participation).finish()
    return {site.name: RunFolder(folder).load_predictions(site.name, "toy-s0") for site in here}


def differences(one: dict[str, Tree], other: dict[str, Tree]) -> list[tuple[str, str]]:
    """Sites and keys in which two runs differ, to the last bit, but for the seconds."""
    found = [(name, "site") for name in {*one} ^ {*other}]
    for name in {*one} & {*other}:
        if not np.array_equal(one[name]["probabilities"], other[name]["probabilities"]):
            found.append((name, "probabilities"))
        for key in ("sent", "received", "took_part", "curves", "privacy", "best_round", "fell_back"):
            if one[name][key] != other[name][key]:
                found.append((name, key))
    return found
