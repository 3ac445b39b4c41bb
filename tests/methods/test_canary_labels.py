"""Nothing is fitted on test rows: canaries among them, in labels and in inputs, change nothing that is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import awkward

from peerwise.data import Rows, Site
from peerwise.federation import answer, learned
from peerwise.methods import make_method
from peerwise.parcels import Keep, pack
from peerwise.run import run_method

RULES = ["knorae", "knorau", "ola", "lca", "desp", "desknn", "knop", "metades"]
QUICK: dict[str, dict[str, Any]] = {
    "stacking": {"meta": "logistic"},
    "fedpae": {"generations": 3},
    "distilled_vote": {"student_epochs": 2, "local_epochs": 1},
    **{name: {"local_epochs": 1} for name in ("fedov", "fedsov", "peerwise_open")},
}


@pytest.fixture(scope="module")
def keep() -> Keep:
    """One for all, so that base models are trained once: they too must not know of the canaries."""
    return Keep()


@pytest.mark.parametrize("name", [*QUICK, *RULES])
def test_canaries_among_the_test_rows_change_nothing(name: str, keep: Keep) -> None:
    truth, canaries = federation(keep), [with_canaries(site) for site in federation(keep)]
    method = make_method(name, QUICK.get(name, {}), folds=3, epochs=1, sites=3)
    for sites in (truth, canaries):
        run_method(method, sites)
    for one, other in zip(truth, canaries, strict=True):
        assert states(one) == states(other)
        assert np.array_equal(answer(method, one, one.val.X), answer(method, other, one.val.X))


def federation(keep: Keep) -> list[Site]:
    sites = [site.replace(keep=keep) for site in awkward("logistic", "mlp") if len(site.test) and len(site.val)]
    public = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    return [site.replace(public=public) for site in sites]


def with_canaries(site: Site) -> Site:
    wrong = (site.test.y + 1) % len(site.classes)
    return site.replace(test=Rows(np.full_like(site.test.X, 1e6), wrong))


def states(site: Site) -> Any:
    """All that was learned, as bytes; how long it took may differ."""
    return pack({key: value for key, value in learned(site).items() if key != "seconds"})
