"""How the numbers came about: absent sites, promises of privacy with their price, learning rates that were tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.evaluate import Assessment, assess
from peerwise.run import Experiment, Run
from peerwise.run.score import site_row

PROMISE = {"epsilon": 2.0, "delta": 1e-5, "unit": "one row", "rounds": 5, "mechanism": "m", "accountant": "PRV"}


def tree(right: int, **changes: Any) -> dict[str, Any]:
    """Ten rows of which so many are answered rightly."""
    y = np.zeros(10, dtype=np.int64)
    shown = np.eye(2)[np.where(np.arange(10) < right, 0, 1)]
    return {
        "y": y, "probabilities": shown, "details": {}, "subgroup": None, "sent": 10, "received": 30, "best_round": 2,
        "seconds": {"train": 1.0}, "label_counts": np.array([5, 5]), "fell_back": None, "peers_left_out": {},
        "rounds": 5, "took_part": [0, 1, 2, 3, 4], "lr": None, "curves": {}, "privacy": None, **changes,
    }  # fmt: skip


def assessed(experiment: Experiment, trees: dict[tuple[int, str, str], dict[str, Any]]) -> tuple[Run, Assessment]:
    lines = [{"seed": s, "method": m, "site": site, **site_row(each)} for (s, m, site), each in trees.items()]
    run = Run(experiment, pd.DataFrame(lines), None, trees)
    return run, assess(run)


def test_sites_that_missed_a_round_are_told_and_no_others() -> None:
    trees = {(0, "fedavg", "a"): tree(5), (0, "fedavg", "b"): tree(5, took_part=[3, 4])}
    run, found = assessed(Experiment(methods=("fedavg",)), trees)
    assert found.missed_rounds == [{"seed": 0, "method": "fedavg", "site": "b", "rounds": 5, "took_part": [3, 4]}]
    assert run.results["took_part"].tolist() == [5, 2]
    assert found.methods.loc["fedavg", ["bytes_sent", "bytes_received", "rounds"]].tolist() == [10, 30, 5]


def test_privacy_is_the_weakest_promise_with_its_price_against_the_variant_most_alike() -> None:
    methods = ("fedavg", "fedavg:slow", "fedavg:private", "local")
    settings = {"fedavg:slow": {"lr": 0.001}, "fedavg:private": {"lr": 0.001, "batch_size": 8}}
    trees = {(0, name, site): tree(9 if name == "fedavg" else 8) for name in methods[:2] for site in "ab"}
    trees |= {(0, "fedavg:private", site): tree(5, privacy={**PROMISE, "epsilon": epsilon})
              for site, epsilon in (("a", 1.0), ("b", 3.0))}  # fmt: skip
    trees |= {(0, "local", site): tree(1) for site in "ab"}
    _, found = assessed(Experiment(methods=methods, method=settings), trees)
    (line,) = found.privacy
    assert line == {
        "method": "fedavg:private", **PROMISE, "epsilon": 3.0, "promised_at": 2, "of": 2, "trials": 1,
        "compared_with": "fedavg:slow", "accuracy_cost": pytest.approx(0.3),
    }  # fmt: skip


def test_privacy_without_a_variant_to_compare_with_has_no_price() -> None:
    trees = {(0, "fedavg:private", "a"): tree(5, privacy=PROMISE), (0, "fedavg:private", "b"): tree(5)}
    _, found = assessed(Experiment(methods=("fedavg:private",)), trees)
    (line,) = found.privacy
    assert (line["compared_with"], line["accuracy_cost"]) == (None, None)
    assert (line["promised_at"], line["of"]) == (1, 2)


def test_privacy_says_how_often_tuning_spent_it() -> None:
    trees = {(0, "fedavg", "a"): tree(5, privacy=PROMISE, lr=0.1)}
    _, found = assessed(Experiment(methods=("fedavg",), tune=3), trees)
    assert found.privacy[0]["trials"] == 3


def test_the_learning_rates_that_were_tried_and_chosen_are_told() -> None:
    experiment = Experiment(methods=("fedavg", "peerwise"), training={"lr": 0.1}, tune=3)
    trees = {(seed, "fedavg", site): tree(5, lr=lr) for seed, lr in ((0, 0.1), (1, 0.3)) for site in "ab"}
    trees |= {(seed, "peerwise", site): tree(5) for seed in (0, 1) for site in "ab"}
    run, found = assessed(experiment, trees)
    assert found.tuned == [{"method": "fedavg", "tried": [0.1, 0.0333333, 0.3], "chosen": [0.1, 0.3]}]
    assert run.results["lr"].tolist()[:4] == [0.1, 0.1, 0.3, 0.3]
    _, plain = assessed(Experiment(methods=("fedavg",)), {(0, "fedavg", "a"): tree(5, lr=0.01)})
    assert plain.tuned == []


def test_curves_are_a_table_with_a_line_a_round() -> None:
    points = {"lambda": [[0, 0.5], [1, 0.25]], "validation accuracy": [[0, 1.0]]}
    trees = {(0, "fedavg", "a"): tree(5, curves=points), (0, "fedavg", "b"): tree(5)}
    run, _ = assessed(Experiment(methods=("fedavg",)), trees)
    assert run.curves.to_dict(orient="list") == {
        "seed": [0, 0, 0], "method": ["fedavg"] * 3, "site": ["a"] * 3, "round": [0, 1, 0],
        "name": ["lambda", "lambda", "validation accuracy"], "value": [0.5, 0.25, 1.0],
    }  # fmt: skip
    empty, _ = assessed(Experiment(methods=("fedavg",)), {(0, "fedavg", "a"): tree(5)})
    assert empty.curves.empty
    assert list(empty.curves.columns) == list(run.curves.columns)
