"""One method over sites, round by round: what is kept, what is told, and that the way of transport does not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy_methods import Countdown, Mean, toy_site

from peerwise.data import Feature, load, make_sites
from peerwise.errors import BadOutputs, DataError
from peerwise.federation import RUN, Session, answer
from peerwise.methods import Centralised, Local, OneShot
from peerwise.run import run_method
from peerwise.trust import BestSingle, PeerwiseClassifier


def test_the_round_that_did_best_on_validation_rows_is_kept() -> None:
    right_in = {"a": [False, True, False, True], "b": [False, False, False, True], "c": [True, True, True, True]}
    sites = [toy_site(name) for name in right_in]
    method = Countdown(right_in)
    run_method(method, sites)
    best = {site.name: site.state[RUN]["best_round"] for site in sites}
    assert best == {"a": 1, "b": 3, "c": 0}
    assert [site.state["round"] for site in sites] == [1, 3, 0]
    assert all(site.state[RUN]["best_score"] == 1.0 for site in sites)
    assert [site.state["heard"] for site in sites] == [[0, 1], [0, 1, 2, 3], [0]]


def test_a_site_without_validation_rows_keeps_the_last_round() -> None:
    site = toy_site("a", val=0)
    run_method(Countdown({"a": [True, False, False]}), [site])
    assert site.state["round"] == 2
    assert "best_round" not in site.state[RUN]


def test_what_combine_says_reaches_every_site_and_memory_goes_on() -> None:
    sites = [toy_site("a", level=1.0), toy_site("b", level=3.0)]
    run_method(Mean(rounds=3), sites)
    for site in sites:
        assert site.state["mean"] == 2.0
        assert site.state["turns"] == [1, 2, 3]  # rounds 1 and 2 are equally right, and round 2 has the lower loss
        assert site.state["rngs"] == sites[0].state["rngs"]
        assert len(set(site.state["rngs"])) == 3


def test_combine_may_address_single_sites() -> None:
    sites = [toy_site("a", level=1.0), toy_site("b", level=3.0)]
    run_method(Mean(rounds=1, single=True), sites)
    assert [site.state["mean"] for site in sites] == [-1.0, -3.0]


def test_all_sites_start_alike_and_have_chance_of_their_own() -> None:
    sites = [toy_site("a"), toy_site("b")]
    run_method(Mean(rounds=1), sites)
    assert sites[0].state["common"] == sites[1].state["common"]
    assert sites[0].state["private"] != sites[1].state["private"]


def test_an_old_state_does_not_leak_into_a_new_run() -> None:
    site = toy_site("a")
    site.state["left"] = "over"
    run_method(Mean(rounds=1), [site])
    assert "left" not in site.state


class Wrong(Local):
    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given

    def predict_proba(self, site: Any, X: Any) -> Any:
        return self.given


@pytest.mark.parametrize(
    ("given", "message"),
    [(np.ones((2, 2)), r"shape \(2, 2\)"), (np.full((5, 2), np.nan), "non-finite"), (np.ones(5), r"shape \(5,\)")],
)
def test_answers_of_the_wrong_shape_or_without_sense_are_refused_by_name(given: Any, message: str) -> None:
    with pytest.raises(BadOutputs, match=rf"Wrong at site 'a' .*{message}.*expected finite numbers of shape \(5, 2\)"):
        answer(Wrong(given), toy_site("a"), np.zeros((5, 1)))


def test_sites_with_different_columns_are_refused_before_any_training() -> None:
    sites = make_sites(load("heart_disease"), "vertical", 3, recipes=("logistic",), seed=0)
    sites = [site.replace(keep=never) for site in sites]
    for method in (OneShot(PeerwiseClassifier()), OneShot(BestSingle()), Centralised()):
        with pytest.raises(DataError, match=r"different columns.*matches columns by name"):
            run_method(method, sites)


def test_local_needs_no_common_columns() -> None:
    sites = make_sites(load("heart_disease"), "vertical", 3, recipes=("logistic",), seed=0)
    run_method(Local(), sites)
    assert all(len(answer(Local(), site, site.test.X)) for site in sites)


def test_columns_of_the_same_name_with_other_categories_are_different_columns() -> None:
    columns = {"a": Feature("x", ("no", "yes")), "b": Feature("x", ("yes", "no"))}
    sites = [toy_site(name).replace(features=(column,)) for name, column in columns.items()]
    with pytest.raises(DataError, match=r"different columns \(such as x\)"):
        run_method(Mean(rounds=1), sites)


def test_a_federation_of_nobody_is_refused() -> None:
    with pytest.raises(DataError, match="no sites"):
        run_method(Local(), [])


def never(parts: Any, work: Any) -> Any:
    raise AssertionError("something was trained")


def test_what_is_learned_stays_with_the_site_that_began() -> None:
    """A copy with the same state would keep every site's net in memory for as long as a run lasts."""
    original = toy_site("a")
    copied = original.replace()
    Session(Mean(), copied)
    assert "common" in copied.state
    assert original.state == {}
