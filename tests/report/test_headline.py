"""The one sentence: it names the winner, whom it helped and whom it hurt, and claims no more than the intervals do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from peerwise.evaluate import assess
from peerwise.report.headline import headline
from peerwise.report.story import story_of
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
    text = said({"local": {"a": 50, "b": 60, "c": 70}, "peerwise": {"a": 90, "b": 90, "c": 65}})
    assert text.startswith(
        "The winner is peerwise: right on 81.7 % of the test rows, +21.7 points over local at 60.0 % (95 % interval"
    )
    assert text.endswith("; it helped 2 of 3 sites and hurt c (-5.0).")


def test_nobody_was_hurt_and_some_are_as_they_were() -> None:
    text = said({"local": {"a": 50, "b": 60, "c": 70}, "peerwise": {"a": 90, "b": 60, "c": 75}})
    assert text.endswith("; it helped 2 of 3 sites, left 1 as it was and hurt none.")


def test_a_lead_within_the_interval_may_be_chance() -> None:
    assert said({"local": {"a": 50}, "peerwise": {"a": 52}}, rows=60).startswith(
        "Ahead, perhaps by chance, is peerwise: "
    )


def test_no_winner_is_told_as_such() -> None:
    text = said({"local": {"a": 80, "b": 80}, "peerwise": {"a": 60, "b": 78}, "fedavg": {"a": 50, "b": 50}})
    assert text.startswith("No method beat local; peerwise comes nearest: right on 69.0 %")
    assert "hurt a (-20.0, significant), b (-2.0)" in text


def test_as_good_as_the_own_models() -> None:
    text = said({"local": {"a": 80, "b": 70}, "peerwise": {"a": 80, "b": 70}})
    assert text.startswith("No better and no worse than local is peerwise: right on 75.0 %")


def test_a_tie_names_both() -> None:
    text = said({"local": {"a": 50}, "peerwise": {"a": 90}, "stacking": {"a": 90}})
    assert text.startswith("Equally good are peerwise and stacking: right on 90.0 %")


def test_of_methods_that_tie_one_is_named_where_sites_are_counted() -> None:
    text = said({"local": {"a": 50, "b": 50}, "peerwise": {"a": 90, "b": 40}, "stacking": {"a": 65, "b": 65}})
    assert text.startswith("Equally good are peerwise and stacking")
    assert "; peerwise helped 1 of 2 sites and hurt b (-10.0, significant)" in text


def test_a_significant_loss_is_named_before_larger_ones_that_may_be_chance() -> None:
    own = {"large": 200} | {f"s{place}": 3 for place in range(5)} | {"won": 10}
    ours = {"large": 180} | {f"s{place}": 2 for place in range(5)} | {"won": 300}
    rows = {site: 300 if site in ("large", "won") else 4 for site in own}
    text = said({"local": own, "peerwise": ours}, rows=rows)
    assert "hurt large (-6.7, significant), s0 (-25.0), s1 (-25.0), s2 (-25.0) and 2 more" in text


def test_the_sentence_begins_as_one_does() -> None:
    for rights in ({"local": {"a": 50}, "peerwise": {"a": 90}}, {"local": {"a": 90}, "peerwise": {"a": 90}},
                   {"peerwise": {"a": 90}}, {"peerwise": {"a": 90}, "stacking": {"a": 80}}):  # fmt: skip
        assert said(rights)[0].isupper()


def test_how_far_the_next_is_behind_and_whether_that_may_be_chance() -> None:
    rights = {"local": {"a": 50}, "peerwise": {"a": 90}, "stacking": {"a": 89}}
    assert "Next is stacking, 1.0 points behind (" in said(rights)
    assert "may be chance)." in said(rights)
    assert "may be chance" not in said({**rights, "stacking": {"a": 60}})


def test_one_method_alone_and_nothing_to_hold_it_to() -> None:
    assert said({"local": {"a": 80}}) == (
        "Only local was run, right on 80.0 % of the test rows: add a method to compare it with."
    )
    assert said({"peerwise": {"a": 80}}) == (
        "Only peerwise was run: right on 80.0 % of the test rows, with nothing that a site has alone to "
        "hold that to (add local)."
    )
    assert said({"peerwise": {"a": 80}, "stacking": {"a": 70}}).startswith(
        "Most often right is peerwise: right on 80.0 %"
    )


def test_what_sees_all_rows_takes_no_part_in_the_contest() -> None:
    text = said({"local": {"a": 50}, "peerwise": {"a": 90}, "centralised": {"a": 99}})
    assert text.startswith("The winner is peerwise")
    assert "centralised" not in text


def test_one_site_is_not_counted() -> None:
    assert "helped" not in said({"local": {"a": 50}, "peerwise": {"a": 90}})


def test_sites_that_are_drawn_anew_with_every_seed_are_told_with_it() -> None:
    text = said({"local": {"a": 50, "b": 70}, "peerwise": {"a": 90, "b": 65}}, seeds=2, partition="dirichlet")
    assert "it helped 2 of 4 sites x seeds and hurt b of seed 0 (-5.0), b of seed 1 (-5.0)" in text
    same = said({"local": {"a": 50, "b": 70}, "peerwise": {"a": 90, "b": 65}}, seeds=2)
    assert "it helped 1 of 2 sites and hurt b (-5.0)" in same


def test_many_who_were_hurt_are_counted_the_worst_by_name() -> None:
    sites = {f"s{place}": 50 for place in range(9)}
    text = said({"local": sites, "peerwise": {site: 49 - place for place, site in enumerate(sites)} | {"s0": 100}})
    assert "hurt s8 (-9.0, significant), s7 (-8.0), s6 (-7.0), s5 (-6.0) and 4 more" in text


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_without_rows_nothing_is_claimed() -> None:
    assert said({"local": {"a": 0}, "peerwise": {"a": 0}}, rows=0).startswith("There are no test rows")


def rare_run(found: dict[str, tuple[int, int]], own: tuple[int, int], rows: tuple[int, int] = (176, 24)) -> Run:
    """Two classes, the second rare. By method, how many rows of each class are answered rightly, in ``own`` by the own
    models of the pool."""
    y = np.repeat([0, 1], rows)

    def answers(right: tuple[int, int]) -> np.ndarray:
        fine = np.concatenate([np.arange(total) < part for total, part in zip(rows, right, strict=True)])
        return np.eye(2)[np.where(fine, y, 1 - y)]

    predictions = {
        (0, method, "a"): {
            "y": y, "probabilities": answers(right), "details": {"own": answers(own)}, "subgroup": None,
            "label_counts": np.array(rows), "fell_back": None, "peers_left_out": {}, "sent": 10, "received": 10,
            "seconds": {"train": 1.0}, "rounds": 1, "took_part": [0], "best_round": None, "lr": None, "curves": {},
            "privacy": None,
        }
        for method, right in found.items()
    }  # fmt: skip
    experiment = Experiment(dataset="", partition="natural", methods=tuple(found), seeds=1)
    return Run(experiment, results_of(predictions), None, predictions, classes=("no", "yes"))


def test_who_is_right_more_often_by_finding_fewer_of_the_rare_is_not_crowned() -> None:
    run = rare_run({"stacking": (174, 3), "peerwise": (150, 16)}, own=(140, 14))
    text = headline(run, assess(run))
    assert text.startswith(
        "Of the methods, stacking is right most often (88.5 % of the test rows, +11.5 points over the own models"
    )
    assert "but its balanced accuracy is 55.7 % (own 68.9 %)" in text
    assert "always answering no is right on 88.0 %" in text
    assert "Of the others, the winner is peerwise: right on 83.0 %" in text


def test_who_always_gives_one_answer_is_not_crowned() -> None:
    run = rare_run({"stacking": (176, 0)}, own=(140, 14))
    text = headline(run, assess(run))
    assert "it answers no to nearly all rows" in text
    assert "always answering no is right on 88.0 %" in text
    assert "winner" not in text


def test_the_bar_of_a_pool_method_is_its_own_models() -> None:
    run = rare_run({"peerwise": (160, 20)}, own=(140, 14))
    assert "+13.0 points over the own models at 77.0 %" in headline(run, assess(run))


def test_no_column_of_any_table_holds_gains_over_two_bars() -> None:
    """A pool method is held to the own models of its pool, one with rounds to the same nets trained alone."""
    rights = {"local": {"a": 60, "b": 70}, "peerwise": {"a": 80, "b": 85}, "fedavg": {"a": 64, "b": 66}}
    run = run_of(rights)
    for (_, method, site), tree in run.predictions.items():
        tree["subgroup"] = np.where(np.arange(ROWS) % 3 > 0, "men", "women")
        if method == "peerwise":
            own = np.where(np.arange(ROWS) < {"a": 75, "b": 77}[site], tree["y"], 1 - tree["y"])
            tree["details"] = {"own": np.eye(2)[own]}
    run = replace(run, results=results_of(run.predictions))
    found = assess(run)
    assert found.methods["bar"].to_dict() == {"local": "local", "peerwise": "own", "fedavg": "local"}
    assert set(found.subgroups.loc[found.subgroups["method"] == "peerwise", "bar"]) == {"own"}
    assert set(found.subgroups.loc[found.subgroups["method"] == "fedavg", "bar"]) == {"local"}
    sheets = story_of(run, found).sheets
    for key in ("methods", "own", "own_balanced", "tests", "subgroups"):
        sheet = sheets[key]
        places = [place for place, column in enumerate(sheet.columns) if column.name.startswith("over\n")]
        assert [sheet.columns[place].name for place in places] == ["over\nown", "over\nlocal"], key
        assert "gain" not in [column.name for column in sheet.columns], key
        method = next(place for place, column in enumerate(sheet.columns) if column.key == "method")
        for row in sheet.rows:
            held = [row[place].value is not None for place in places]
            assert held == {"peerwise": [True, False], "fedavg": [False, True]}.get(str(row[method].value), held)
    sites = sheets["sites"]
    names = [column.name for column in sites.columns]
    assert names == ["site", "test\nrows", "own", "local", "peerwise\nover own", "fedavg\nover local"]
    assert [cell.text for cell in sites.rows[0]] == ["a", "100", "75.0", "60.0", "+5.0", "+4.0"]


def test_a_crown_that_was_refused_is_not_given_to_another_by_the_wrong_words() -> None:
    """The first method pays with a rare class; the second is below its bar: nobody may read that none beat it."""
    run = run_of({"peerwise": {"a": 90}, "stacking": {"a": 70}})
    for (_, method, _), tree in run.predictions.items():
        tree["y"] = (np.arange(ROWS) >= 88).astype(int)
        tree["details"] = {"own": np.eye(2)[np.where(np.arange(ROWS) % 5 > 0, tree["y"], 1 - tree["y"])]}
        says = np.zeros(ROWS, int) if method == "peerwise" else np.where(np.arange(ROWS) % 3 > 0, tree["y"], 1)
        tree["probabilities"] = np.eye(2)[says]
    run = replace(run, results=results_of(run.predictions))
    text = headline(run, assess(run))
    assert text.startswith("Of the methods, peerwise is right most often (88.0 %")
    assert "it answers no to nearly all rows" in text
    assert "Of the others, no method beat the own models; stacking comes nearest" in text


def test_a_method_with_one_answer_is_named_even_without_a_bar() -> None:
    run = run_of({"fedavg": {"a": 88}})
    tree = run.predictions[0, "fedavg", "a"]
    tree["y"], tree["probabilities"] = (np.arange(ROWS) >= 88).astype(int), np.tile([0.9, 0.1], (ROWS, 1))
    run = replace(run, results=results_of(run.predictions))
    assert "it answers no to nearly all rows; always answering no is right on 88.0 %" in headline(run, assess(run))


def test_a_run_with_one_bar_of_two_has_a_report() -> None:
    """A pool method beside one with rounds, without local: the second has no bar, and nothing breaks."""
    run = run_of({"peerwise": {"a": 80}, "fedavg": {"a": 70}})
    for (_, method, _), tree in run.predictions.items():
        tree["subgroup"] = np.where(np.arange(ROWS) % 2 > 0, "men", "women")
        if method == "peerwise":
            tree["details"] = {"own": tree["probabilities"][::-1]}
    run = replace(run, results=results_of(run.predictions))
    sheets = story_of(run, assess(run)).sheets
    assert [column.name for column in sheets["subgroups"].columns if column.name.startswith("over")] == ["over\nown"]
