"""The one sentence: it names the winner, whom it helped and whom it hurt, and claims no more than the intervals do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peerwise.evaluate import assess
from peerwise.report.headline import headline
from peerwise.run import Experiment, Run
from peerwise.run.finished import results_of

Rights = dict[str, dict[str, int]]  # by method and site, how many of ROWS rows are answered rightly
ROWS = 100


def run_of(rights: Rights, *, rows: int | dict[str, int] = ROWS, seeds: int = 1, partition: str = "natural") -> Run:
    """A run whose methods are right on the first rows of each site, so many."""
    predictions: dict[tuple[int, str, str], dict[str, Any]] = {}
    for seed in range(seeds):
        for method, sites in rights.items():
            for site, right in sites.items():
                y = np.arange(rows if isinstance(rows, int) else rows[site]) % 2
                answers = np.where(np.arange(len(y)) < right, y, 1 - y)
                predictions[seed, method, site] = {
                    "y": y, "probabilities": np.eye(2)[answers], "details": {}, "subgroup": None,
                    "label_counts": np.array([5, 5]), "fell_back": None, "peers_left_out": {}, "sent": 10,
                    "received": 10, "seconds": {"train": 1.0}, "rounds": 1, "took_part": [0], "best_round": None,
                    "lr": None, "curves": {}, "privacy": None,
                }  # fmt: skip
    experiment = Experiment(dataset="", partition=partition, methods=tuple(rights), seeds=seeds)
    return Run(experiment, results_of(predictions), None, predictions, classes=("no", "yes"))


def said(rights: Rights, **how: Any) -> str:
    run = run_of(rights, **how)
    return headline(run, assess(run))


def test_the_winner_whom_it_helped_and_whom_it_hurt() -> None:
    text = said({"local": {"a": 50, "b": 60, "c": 70}, "feddes": {"a": 90, "b": 90, "c": 65}})
    assert text.startswith(
        "The winner is feddes: right on 81.7 % of the test rows, +21.7 points over the own models (95 % interval"
    )
    assert text.endswith("; it helped 2 of 3 sites and hurt c (-5.0).")


def test_nobody_was_hurt_and_some_are_as_they_were() -> None:
    text = said({"local": {"a": 50, "b": 60, "c": 70}, "feddes": {"a": 90, "b": 60, "c": 75}})
    assert text.endswith("; it helped 2 of 3 sites, left 1 as it was and hurt none.")


def test_a_lead_within_the_interval_may_be_chance() -> None:
    assert said({"local": {"a": 50}, "feddes": {"a": 52}}, rows=60).startswith("Ahead, perhaps by chance, is feddes: ")


def test_no_winner_is_told_as_such() -> None:
    text = said({"local": {"a": 80, "b": 80}, "feddes": {"a": 60, "b": 78}, "fedavg": {"a": 50, "b": 50}})
    assert text.startswith("No method beat the own models; feddes comes nearest: right on 69.0 %")
    assert "hurt a (-20.0, significant), b (-2.0)" in text


def test_as_good_as_the_own_models() -> None:
    text = said({"local": {"a": 80, "b": 70}, "feddes": {"a": 80, "b": 70}})
    assert text.startswith("No better and no worse than the own models is feddes: right on 75.0 %")


def test_a_tie_names_both() -> None:
    text = said({"local": {"a": 50}, "feddes": {"a": 90}, "stacking": {"a": 90}})
    assert text.startswith("Equally good are feddes and stacking: right on 90.0 %")


def test_of_methods_that_tie_one_is_named_where_sites_are_counted() -> None:
    text = said({"local": {"a": 50, "b": 50}, "feddes": {"a": 90, "b": 40}, "stacking": {"a": 65, "b": 65}})
    assert text.startswith("Equally good are feddes and stacking")
    assert "; feddes helped 1 of 2 sites and hurt b (-10.0, significant)" in text


def test_a_significant_loss_is_named_before_larger_ones_that_may_be_chance() -> None:
    own = {"large": 200} | {f"s{place}": 3 for place in range(5)} | {"won": 10}
    ours = {"large": 180} | {f"s{place}": 2 for place in range(5)} | {"won": 300}
    rows = {site: 300 if site in ("large", "won") else 4 for site in own}
    text = said({"local": own, "feddes": ours}, rows=rows)
    assert "hurt large (-6.7, significant), s0 (-25.0), s1 (-25.0), s2 (-25.0) and 2 more" in text


def test_the_sentence_begins_as_one_does() -> None:
    for rights in ({"local": {"a": 50}, "feddes": {"a": 90}}, {"local": {"a": 90}, "feddes": {"a": 90}},
                   {"feddes": {"a": 90}}, {"feddes": {"a": 90}, "stacking": {"a": 80}}):  # fmt: skip
        assert said(rights)[0].isupper()


def test_how_far_the_next_is_behind_and_whether_that_may_be_chance() -> None:
    rights = {"local": {"a": 50}, "feddes": {"a": 90}, "stacking": {"a": 89}}
    assert "Next is stacking, 1.0 points behind (" in said(rights)
    assert "may be chance)." in said(rights)
    assert "may be chance" not in said({**rights, "stacking": {"a": 60}})


def test_one_method_alone_and_nothing_to_hold_it_to() -> None:
    assert said({"local": {"a": 80}}) == (
        "Only local was run, right on 80.0 % of the test rows: add a method to compare it with."
    )
    assert said({"feddes": {"a": 80}}) == (
        "Only feddes was run: right on 80.0 % of the test rows, with no own models to hold that to (add local)."
    )
    assert said({"feddes": {"a": 80}, "stacking": {"a": 70}}).startswith("Most often right is feddes: right on 80.0 %")


def test_what_sees_all_rows_takes_no_part_in_the_contest() -> None:
    text = said({"local": {"a": 50}, "feddes": {"a": 90}, "centralised": {"a": 99}})
    assert text.startswith("The winner is feddes")
    assert "centralised" not in text


def test_one_site_is_not_counted() -> None:
    assert "helped" not in said({"local": {"a": 50}, "feddes": {"a": 90}})


def test_sites_that_are_drawn_anew_with_every_seed_are_told_with_it() -> None:
    text = said({"local": {"a": 50, "b": 70}, "feddes": {"a": 90, "b": 65}}, seeds=2, partition="dirichlet")
    assert "it helped 2 of 4 sites x seeds and hurt b of seed 0 (-5.0), b of seed 1 (-5.0)" in text
    same = said({"local": {"a": 50, "b": 70}, "feddes": {"a": 90, "b": 65}}, seeds=2)
    assert "it helped 1 of 2 sites and hurt b (-5.0)" in same


def test_many_who_were_hurt_are_counted_the_worst_by_name() -> None:
    sites = {f"s{place}": 50 for place in range(9)}
    text = said({"local": sites, "feddes": {site: 49 - place for place, site in enumerate(sites)} | {"s0": 100}})
    assert "hurt s8 (-9.0, significant), s7 (-8.0), s6 (-7.0), s5 (-6.0) and 4 more" in text


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_without_rows_nothing_is_claimed() -> None:
    assert said({"local": {"a": 0}, "feddes": {"a": 0}}, rows=0).startswith("There are no test rows")
