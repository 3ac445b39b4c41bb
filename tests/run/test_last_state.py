"""Methods whose later rounds only add to what was learned answer with their last state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from round_runs import run, state_of

from peerwise.checks.method import awkward_sites
from peerwise.data import Inputs, Site
from peerwise.methods import Method
from peerwise.parcels import Parcel
from peerwise.run import run_method


class Adds(Method):
    """Answers alike in every round, so that no later round would ever be chosen, and counts the rounds it heard."""

    rounds = 3
    keeps_last = True

    def share(self, site: Site, round: int) -> Parcel:
        return Parcel(round=round)

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        site.state["heard"] = [*site.state.get("heard", []), round]

    def predict_proba(self, site: Site, X: Inputs) -> Any:
        return np.tile(np.eye(len(site.classes))[0], (len(X), 1))


def test_the_last_state_answers_in_memory() -> None:
    sites = awkward_sites()
    run_method(Adds(), sites)
    assert [site.state["heard"] for site in sites] == [[0, 1, 2]] * len(sites)


@pytest.mark.parametrize("keeps_last", [True, False])
def test_the_last_state_answers_from_a_run_folder(tmp_path: Path, keeps_last: bool) -> None:
    method, sites = Adds(), awkward_sites()
    method.keeps_last = keeps_last
    run(tmp_path, method, sites)
    with_validation = [site.name for site in sites if len(site.val)]
    kept = [state_of(tmp_path, name)["heard"] for name in with_validation]
    assert kept == [[0, 1, 2] if keeps_last else [0]] * len(with_validation)
