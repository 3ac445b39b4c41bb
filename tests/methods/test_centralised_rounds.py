"""The centralised reference with the budget of methods with rounds: once on all rows, the best epoch, for everybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from net_federations import image_sites, series_sites, table_sites
from small_federations import table_site

from peerwise.data import Site, concatenate
from peerwise.federation import answer
from peerwise.methods.by_rounds import ByRounds
from peerwise.methods.centralised_rounds import CentralisedRounds
from peerwise.models.fitted import tensors
from peerwise.models.nets import net_probabilities
from peerwise.parcels import Keep
from peerwise.run import run_method

BUDGET: dict[str, Any] = {"local_epochs": 2, "lr": 0.1, "batch_size": 8}


class Counting:
    """A keep that counts what was really worked out."""

    def __init__(self) -> None:
        self.keep, self.worked = Keep(), Counter[str]()

    def __call__(self, parts: dict[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        def counted() -> dict[str, Any]:
            self.worked[parts["recipe"]] += 1
            return work()

        return self.keep(parts, counted)


def two_sites(*, val: bool = True) -> list[Site]:
    labels = [0, 1, 2] * 6
    here = [table_site(name, labels, [0, 1, 2] * 5, [0, 1, 2], "mlp") for name in ("left", "right")]
    return here if val else [site.replace(val=site.val.take(slice(0, 0))) for site in here]


def test_it_moves_the_rows_in_one_round() -> None:
    method = CentralisedRounds(rounds=7, **BUDGET)
    assert isinstance(method, ByRounds)
    assert method.simulation_only
    assert (method.rounds, method.budget_rounds) == (1, 7)
    parcel = method.share(two_sites()[0], 0)
    assert parcel["recipes"] == ["mlp"]
    assert np.array_equal(parcel["train"]["y"], [0, 1, 2] * 6)


def test_each_net_is_trained_once_for_all_sites_and_again_for_another_budget() -> None:
    keep = Counting()
    sites = [site.replace(keep=keep) for site in image_sites(("cnn8", "lenet", "cnn8"), rows=20)]
    run_method(CentralisedRounds(rounds=1), sites)
    assert keep.worked == {"cnn8": 1, "lenet": 1}
    run_method(CentralisedRounds(rounds=1), sites)
    assert keep.worked == {"cnn8": 1, "lenet": 1}
    run_method(CentralisedRounds(rounds=1, lr=0.02), sites)
    assert keep.worked == {"cnn8": 2, "lenet": 2}


def test_answers_are_the_mean_over_the_federations_nets_and_the_same_everywhere() -> None:
    method, sites = CentralisedRounds(rounds=1), image_sites(("cnn8", "lenet"), rows=20)
    run_method(method, sites)
    X = sites[0].test.X
    nets = [method.net_with(sites[1], sites[1].state["nets"][recipe], recipe) for recipe in ("cnn8", "lenet")]
    expected = np.mean([net_probabilities(net, tensors(X)) for net in nets], axis=0)
    for site in sites:
        assert answer(method, site, X) == pytest.approx(expected, abs=1e-12)


def test_the_epoch_that_is_best_on_everybodys_validation_rows_is_kept() -> None:
    """Against trainings of 1, 2, ... epochs that nothing stops."""
    sites, rounds = two_sites(), 4
    X, y = concatenate([site.val.X for site in sites]), np.concatenate([site.val.y for site in sites])
    scores, answers = [], []
    for epochs in range(1, 2 * rounds + 1):
        blind, method = two_sites(val=False), CentralisedRounds(rounds=epochs, **{**BUDGET, "local_epochs": 1})
        run_method(method, blind)
        assert blind[0].state["best_epoch"] == {"mlp": epochs}
        scores.append(np.mean(answer(method, blind[0], X).argmax(axis=1) == y))
        answers.append(answer(method, blind[0], sites[0].test.X))
    best = int(np.argmax(scores))
    assert best > 0, "the first epoch must not be the best, or this shows nothing"
    method = CentralisedRounds(rounds=rounds, **BUDGET)
    run_method(method, sites)
    assert sites[0].state["best_epoch"] == {"mlp": best + 1}
    assert np.array_equal(answer(method, sites[1], sites[0].test.X), answers[best])


@pytest.mark.parametrize("sites", [table_sites, series_sites])
def test_awkward_sites_and_sequences_are_no_trouble(sites: Callable[[], list[Site]]) -> None:
    here, method = sites(), CentralisedRounds(rounds=1)
    run_method(method, here)
    for site in here:
        assert np.allclose(answer(method, site, site.train.X).sum(axis=1), 1)
