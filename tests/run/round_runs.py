"""Toy methods through the real runner: one run, and whether two are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from round_methods import federation

from peerwise.data import Site
from peerwise.federation import State
from peerwise.methods import Method
from peerwise.run import RunFolder
from peerwise.run.participation import Participation
from peerwise.run.runner import MethodRun
from peerwise.run.workers import open_workers

HERE = Path(__file__).parent
EVERYBODY = Participation()
Tree = dict[str, Any]


@contextmanager
def opened(
    folder: Path,
    method: Method,
    sites: list[Site],
    workers: int = 1,
    participation: Participation = EVERYBODY,
    tell: Callable[[Tree], object] = lambda event: None,
) -> Iterator[MethodRun]:
    with open_workers(None, workers) as team:
        yield MethodRun("toy-s0", method, sites, RunFolder(folder), team, tell, participation)


def run(
    folder: Path,
    method: Method,
    sites: int | list[Site] = 4,
    workers: int = 1,
    participation: Participation = EVERYBODY,
    events: list[Tree] | None = None,
) -> dict[str, Tree]:
    """Every site's predictions, as they are read back."""
    here = federation(sites) if isinstance(sites, int) else sites
    tell = [].append if events is None else events.append
    with opened(folder, method, here, workers, participation, tell) as made:
        found = made.finish()
    kept = RunFolder(folder).load_predictions("toy-s0")
    assert kept is not None
    assert not differences(found, kept)
    return kept


def state_of(folder: Path, site: str) -> State:
    found = RunFolder(folder).load_state(site, "toy-s0")
    assert found is not None
    return found


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
