"""What open-set methods are judged by: whether a net knows what it does not know, the K-curve, and collapse."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from peerwise.cli.as_json import as_json
from peerwise.evaluate import assess
from peerwise.evaluate.open_set import (
    collapse,
    collapsed,
    confusion,
    confusions,
    never_answered,
    open_auroc,
    site_open_auroc,
    vote_curves,
)
from peerwise.report import print_assessment
from peerwise.run import Experiment, Run
from peerwise.run.score import site_row
from peerwise.trust.open_vote import open_vote, vote_curve

SITES = ("a", "b")


def tree(y: Any, probabilities: Any, details: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "y": np.asarray(y), "probabilities": np.asarray(probabilities), "details": details or {}, "subgroup": None,
        "sent": 10, "received": 20, "rounds": 1, "took_part": [0], "best_round": None, "lr": None, "curves": {},
        "seconds": {"train": 1.0}, "label_counts": np.array([5, 5, 0]), "fell_back": None, "peers_left_out": {},
        "privacy": None,
    }  # fmt: skip


def voted(y: Any, outputs: Any, site: str, known: list[int]) -> dict[str, Any]:
    """A site's predictions as an open-set method leaves them."""
    vote = open_vote(outputs, k=1)
    own = np.asarray(outputs)[:, SITES.index(site), :-1] + 1e-9
    details = {
        "trust": vote.trust, "models": [f"open@{name}" for name in SITES], "says": vote.says, "unknown": vote.unknown,
        "known_classes": known, "own": own / own.sum(axis=1, keepdims=True), "fallback": vote.nobody,
        "by_k": vote_curve(outputs).astype(np.int16),
    }  # fmt: skip
    return tree(y, vote.probabilities, details)


def run_of(trees: dict[tuple[int, str, str], dict[str, Any]]) -> Run:
    lines = [{"seed": s, "method": m, "site": site, **site_row(each)} for (s, m, site), each in trees.items()]
    return Run(Experiment(), pd.DataFrame(lines), None, trees)


def printed(run: Run) -> str:
    out = StringIO()
    print_assessment(assess(run, classes=["zero", "one", "two"]), Console(file=out, width=132))
    return out.getvalue()


def two_sites() -> Run:
    """Site a has the classes 0 and 1, site b only 2; a's net is misled by one row of three, b's by none."""
    outputs = np.array(
        [
            [[0.9, 0.0, 0.0, 0.1], [0.0, 0.0, 0.2, 0.8]],
            [[0.1, 0.6, 0.0, 0.3], [0.0, 0.0, 0.1, 0.9]],
            [[0.0, 0.7, 0.1, 0.2], [0.0, 0.0, 0.9, 0.1]],
        ]
    )
    y = np.array([0, 1, 2])
    return run_of({(0, "vote", "a"): voted(y, outputs, "a", [0, 1]), (0, "vote", "b"): voted(y, outputs, "b", [2])})


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=2, max_size=30))
@settings(max_examples=60)
def test_the_open_auroc_is_the_share_of_pairs_ranked_rightly(rows):
    y, unknown = np.array([code for code, _ in rows]), np.array([score for _, score in rows])
    known = [0, 1]
    found, why = open_auroc(y, unknown, known)
    strange, usual = unknown[~np.isin(y, known)], unknown[np.isin(y, known)]
    if not len(strange) or not len(usual):
        assert np.isnan(found)
        assert why.startswith(f"all {len(y)} test rows are of classes that the site ")
    else:
        difference = strange[:, None] - usual[None, :]
        assert found == pytest.approx(((difference > 0) + 0.5 * (difference == 0)).mean())
        assert why == ""


def test_an_open_auroc_that_is_not_defined_says_why():
    assert open_auroc(np.array([], np.int64), [], [0])[1] == "no test rows"
    assert "that the site has" in open_auroc(np.array([0, 0]), [0.1, 0.2], [0])[1]
    assert "that the site lacks" in open_auroc(np.array([1, 1]), [0.1, 0.2], [0])[1]


def test_a_site_is_judged_by_its_own_net_alone():
    run = two_sites()
    # a: unknown 0.2 of the strange row against 0.1 and 0.3; b: 0.8 and 0.9 against 0.1
    assert site_open_auroc(run.predictions[0, "vote", "a"], "a") == (0.5, "")
    assert site_open_auroc(run.predictions[0, "vote", "b"], "b") == (1.0, "")
    nobody = {**run.predictions[0, "vote", "a"], "details": {**run.predictions[0, "vote", "a"]["details"]}}
    nobody["details"]["models"] = ["open@x", "open@y"]
    assert "no net of its own" in site_open_auroc(nobody, "a")[1]


def test_a_user_sees_the_open_auroc_beside_the_other_metrics():
    run = two_sites()
    found = assess(run, classes=["zero", "one", "two"])
    assert found.sites["open_auroc"].tolist() == [0.5, 1.0]
    assert found.methods.loc["vote", "open_auroc"] == 0.75
    assert found.methods.loc["vote", "open_auroc_sites"] == 2
    shown = printed(run).splitlines()
    header = next(place for place, line in enumerate(shown) if "AUROC" in line and "NLL" in line)
    assert "open" in shown[header - 1]
    assert "75.0" in next(line for line in shown[header:] if line.startswith("vote"))


def test_a_site_without_strange_test_rows_has_no_open_auroc_and_says_why():
    outputs = np.full((2, 2, 4), 0.25)
    run = run_of({(0, "vote", "a"): voted([0, 1], outputs, "a", [0, 1])})
    line = assess(run).sites.iloc[0]
    assert np.isnan(line["open_auroc"])
    assert line["undefined"]["open_auroc"] == "all 2 test rows are of classes that the site has"
    assert "open" not in printed(run)


def test_methods_that_know_no_unknown_have_no_open_auroc():
    run = run_of({(0, "local", "a"): tree([0, 1], np.eye(3)[[0, 1]])})
    line = assess(run).sites.iloc[0]
    assert np.isnan(line["open_auroc"])
    assert "open_auroc" not in line["undefined"]


def test_the_confusion_worked_out_by_hand():
    found = confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1]), 4)
    assert found.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert confusion(np.array([], np.int64), np.array([], np.int64), 2).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([[95, 5], [5, 95]], ""),
        ([[60, 0], [40, 0]], "'well' answers 100% of 100 rows, and is 60% of them"),
        ([[60, 0], [35, 5]], "'well' answers 95% of 100 rows"),
        ([[60, 0], [34, 6]], ""),
        ([[945, 0], [5, 50]], ""),  # the sick are few, and nearly all of them found
        ([[945, 0], [27, 28]], ""),
        ([[945, 0], [28, 27]], "'well' answers 97% of 1000 rows, and is 94% of them"),  # more than half are lost
        ([[97, 0], [3, 0]], ""),  # hardly anybody is sick: no wonder that nobody is called so
        ([[91, 0], [9, 0]], ""),  # too few rows to say
        ([[91, 9], [0, 0]], ""),
        ([[0, 0], [0, 0]], ""),
    ],
)
def test_one_answer_to_nearly_all_rows_is_a_collapse(table, said):
    assert collapse(np.array(table), ["well", "sick"]).startswith(said)
    assert bool(collapse(np.array(table), ["well", "sick"])) == bool(said)


def test_classes_that_are_never_answered_are_named_but_are_no_collapse():
    table = np.array([[40, 10, 0], [10, 40, 0], [5, 5, 0]])
    assert collapse(table, "xyz") == ""
    said = "'z': 1 of 3 classes that it was trained on and that have 10 rows or more"
    assert never_answered(table, "xyz", [9, 9, 1]) == said
    assert never_answered(table, "xyz", [9, 9, 0]) == ""  # the site has never seen one
    table[2] = [5, 4, 0]
    assert never_answered(table, "xyz", [9, 9, 1]) == ""
    assert never_answered(np.zeros((3, 3), np.int64), "xyz", [1, 1, 1]) == ""


def test_a_user_is_told_apart_which_classes_a_method_never_answers():
    y = np.repeat([0, 1, 2], [40, 30, 30])
    never = np.eye(3)[np.where(y == 1, 0, y)]
    run = run_of({(0, "some", "a"): tree(y, never), (0, "some", "b"): tree(y, np.eye(3)[np.where(y == 2, 0, y)])})
    (line,) = collapsed(run, ["zero", "one", "two"])  # both sites were trained on zero and one
    assert (line["what"], line["sites"], line["of"], line["site"]) == ("never answers a class", 1, 2, "a")
    shown = printed(run)
    assert "Never answers a class: some at 1 of 2 sites x seeds, such as a (seed 0): 'one': 1 of 2 classes" in shown
    assert "collapsed" not in shown


def test_confusions_are_those_of_all_sites_together():
    y = np.array([0, 1, 2])
    run = run_of({(0, "m", "a"): tree(y, np.eye(3)[[0, 0, 2]]), (0, "m", "b"): tree(y, np.eye(3)[[0, 1, 1]])})
    assert confusions(run, 3) == [{"seed": 0, "method": "m", "table": [[2, 0, 0], [1, 1, 0], [0, 1, 1]]}]


def test_a_user_is_warned_of_a_collapse_once_a_method():
    y = np.repeat([0, 1, 2], [40, 10, 10])
    fine, lost = np.eye(3)[y], np.eye(3)[np.zeros(60, np.int64)]
    run = run_of(
        {
            (0, "fine", "a"): tree(y, fine),
            (0, "lost", "a"): tree(y, fine),
            (0, "lost", "b"): tree(y, lost),
            (1, "lost", "a"): tree(y, lost),
            (1, "lost", "b"): tree(np.zeros(0, np.int64), np.zeros((0, 3))),
        }
    )
    (line,) = collapsed(run, ["zero", "one", "two"])
    assert (line["method"], line["sites"], line["of"], line["seed"], line["site"]) == ("lost", 2, 3, 0, "b")
    shown = printed(run)
    assert "Collapsed: lost at 2 of 3 sites x seeds, such as b (seed 0): 'zero' answers 100% of 60 rows" in shown
    assert "Collapsed: fine" not in shown


def test_a_script_gets_the_confusions_and_the_curve_as_json():
    run = two_sites()
    run.predictions[0, "local", "a"] = tree([0, 1], np.eye(3)[[0, 2]])
    run = run_of(run.predictions)
    found = as_json(run, assess(run, classes=["zero", "one", "two"]))
    assert found["vote_curves"] == [
        {"seed": 0, "method": "vote", "site": site, "accuracy": [1.0, 1.0]} for site in ("a", "b")
    ]
    tables = {line["method"]: line["table"] for line in found["confusions"]}
    assert tables == {"vote": [[2, 0, 0], [0, 2, 0], [0, 0, 2]], "local": [[1, 0, 0], [0, 0, 1], [0, 0, 0]]}


def test_the_curve_has_the_accuracy_of_every_number_of_voters():
    curves = vote_curves(two_sites())
    assert curves.columns.tolist() == ["seed", "method", "site", "k", "accuracy"]
    at_a = curves[curves["site"] == "a"].set_index("k")["accuracy"]
    # by one voter all are right; together, 0.7 for 1 against 1.0 for 2 leaves them right
    assert at_a.to_dict() == {1: 1.0, 2: 1.0}
    assert vote_curves(run_of({(0, "local", "a"): tree([0], np.eye(3)[[0]])})).empty
