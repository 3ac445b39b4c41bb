"""class_balance: methods with rounds find a rare outcome, and choose their round by balanced accuracy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from peerwise import Dataset, Run, simulate
from peerwise.data import Sequences, make_sites
from peerwise.errors import ConfigError
from peerwise.federation import RUN, Session
from peerwise.methods import Method
from peerwise.parcels import Parcel

METHODS = ("local_rounds", "centralised_rounds", "fedavg", "fml", "fedkd", "fedproto", "fedtgp", "fedgh", "lgfedavg")


def rare(rows: int = 1800, seed: int = 0) -> Dataset:
    """One in twelve has the outcome; a column tells of it, but never so surely that it is the likelier answer."""
    rng = np.random.default_rng(seed)
    y = (np.arange(rows) % 12 == 0).astype(np.int64)
    series = rng.normal(size=(rows, 3, 2)).astype(np.float32) * 0.2
    series[:, :, 0] += (1.3 * y + rng.normal(size=rows))[:, None].astype(np.float32)
    static = rng.normal(size=(rows, 1)).astype(np.float32)
    site = np.where(np.arange(rows) % 2 == np.arange(rows) // 12 % 2, "a", "b")
    return Dataset("rare", "sequence", Sequences(static, series), y, ("no", "yes"), site=site)


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(rare(), models=["cnn1d"], methods=METHODS, training={"rounds": 8, "lr": 0.05}, seeds=1,
                    class_balance="balanced")  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_method_with_rounds_finds_the_rare_class(run: Run, name: str) -> None:
    """The best that can be is a balanced accuracy of 0.74, and with unweighted classes a sensitivity near 0."""
    found = run.results[run.results["method"] == name]
    assert found["balanced_accuracy"].mean() > 0.62
    assert found["sensitivity"].mean() > 0.4


class Answers(Method):
    """Says in its first round that nobody has the outcome, in its second that two thirds have."""

    rounds = 3

    def share(self, site: Any, round: int) -> Parcel:
        site.state["round"] = round
        return Parcel()

    def predict_proba(self, site: Any, X: Any) -> Any:
        yes = np.zeros(len(X)) if site.state["round"] == 0 else (site.val.y | (np.arange(len(X)) % 3 > 0)).astype(float)
        return np.stack([1 - yes, yes], axis=1)


@pytest.mark.parametrize(("class_balance", "best"), [("none", 0), ("balanced", 1)])
def test_the_best_round_is_chosen_by_balanced_accuracy_where_classes_are_balanced(
    class_balance: Literal["none", "balanced"], best: int
) -> None:
    """The later round finds the outcome, though it is right less often."""
    site = make_sites(rare(), class_balance=class_balance)[0]
    session = Session(Answers(), site)
    for round in (0, 1, 2):
        session.step(None, round, shares=round < 2)
    assert site.state[RUN]["best_round"] == best


def test_an_unknown_class_balance_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"class_balance is 'even': expected 'none' or 'balanced'"):
        make_sites(rare(), class_balance="even")  # type: ignore[arg-type]
