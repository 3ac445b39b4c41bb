"""How models are chosen: small pools worked out by hand, and scipy's ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from peerwise.errors import DataError
from peerwise.evaluate import gap_closed, home_correlation, home_frequency, mismatch

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=10)


def test_chosen_and_right_by_hand() -> None:
    y = np.array([0, 1])
    says = np.array([[0, 1, 0], [1, 1, 0]])  # right: models 0 and 2; models 0 and 1
    trust = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    found = mismatch(y, trust, says)
    assert found["selected_wrong"] == 1  # model 1; model 2
    assert found["missed_right"] == 1  # model 2; model 0
    assert found["mismatch"] == 1
    assert found["trust_on_wrong"] == pytest.approx((0.5 + 0.75) / 2)
    assert found["pool_wrong"] == pytest.approx(1 / 3)


@given(st.integers(0, 300))
def test_trusting_the_oracle_set_is_no_mismatch_and_trusting_all_misses_nobody(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, says = rng.integers(0, 3, 12), rng.integers(0, 3, (12, 5))
    right = says == y[:, None]
    everybody = mismatch(y, np.full((12, 5), 0.2), says)
    assert everybody["missed_right"] == 0
    assert everybody["trust_on_wrong"] == pytest.approx(everybody["pool_wrong"])
    some = right.any(axis=1)
    if some.any():
        perfect = right[some] / right[some].sum(axis=1, keepdims=True)
        found = mismatch(y[some], perfect, says[some])
        assert (found["mismatch"], found["trust_on_wrong"]) == (0, 0)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"expected \(2, models\)"):
        mismatch(np.zeros(2, dtype=np.int64), np.ones((3, 1)), np.zeros((3, 1), dtype=np.int64))


@given(SHARES, SHARES)
def test_the_oracle_closes_the_whole_gap_and_the_own_model_nothing_of_it(own: list[float], gaps: list[float]) -> None:
    length = min(len(own), len(gaps))
    start = np.array(own[:length])
    oracle = start + np.array(gaps[:length])
    if oracle.mean() - start.mean() > 1e-6:
        assert gap_closed(oracle, start, oracle) == pytest.approx(1)
        assert gap_closed(start, start, oracle) == 0
        assert gap_closed((start + oracle) / 2, start, oracle) == pytest.approx(0.5)
    assert np.isnan(gap_closed(start, start, start))


def test_a_site_without_an_oracle_does_not_count() -> None:
    assert gap_closed([0.9, 0.1], [0.8, 0.9], [1.0, np.nan]) == pytest.approx(0.5)
    assert np.isnan(gap_closed([0.9], [np.nan], [1.0]))


def tree(y: list[int], trust: list[list[float]], counts: list[int]) -> dict[str, Any]:
    details = {"trust": np.array(trust), "models": ["net@a", "net@b"]}
    return {"y": np.array(y), "details": details, "label_counts": np.array(counts)}


def test_trust_by_model_and_class_against_the_home_of_the_model() -> None:
    trees = {
        "a": tree([0, 0, 1], [[0.8, 0.2], [0.6, 0.4], [0.5, 0.5]], [30, 10]),
        "b": tree([0, 1], [[0.4, 0.6], [0.1, 0.9]], [5, 15]),
    }
    lines = home_frequency(trees).set_index(["model", "class"])
    assert lines.loc[("net@a", 0), "trust"] == pytest.approx((0.8 + 0.6 + 0.4) / 3)
    assert lines.loc[("net@a", 0), "peer_trust"] == pytest.approx(0.4)  # at site b only
    assert lines.loc[("net@b", 1), "trust"] == pytest.approx((0.5 + 0.9) / 2)
    assert lines["frequency"].to_dict() == {
        ("net@a", 0): 0.75, ("net@b", 0): 0.25, ("net@a", 1): 0.25, ("net@b", 1): 0.75,
    }  # fmt: skip
    found = home_correlation(home_frequency(trees))
    assert found["home_spearman"] == pytest.approx(spearmanr(lines["trust"], lines["frequency"]).statistic)
    assert found["home_spearman_peers"] == pytest.approx(spearmanr(lines["peer_trust"], lines["frequency"]).statistic)


def test_a_method_that_trusts_all_alike_has_no_ranks() -> None:
    trees = {name: tree([0, 1], [[0.5, 0.5]] * 2, [3, 1]) for name in "ab"}
    assert all(np.isnan(value) for value in home_correlation(home_frequency(trees)).values())


def test_a_method_without_a_pool_or_a_site_without_rows_has_none_either() -> None:
    nobody = {"y": np.array([0]), "details": {}, "label_counts": np.array([1, 1])}
    assert all(np.isnan(value) for value in home_correlation(home_frequency({"a": nobody})).values())


def test_a_site_name_may_hold_an_at_sign() -> None:
    one = tree([0, 1], [[0.9, 0.1]] * 2, [1, 3])
    one["details"]["models"] = ["net@ward@a", "net@b"]
    lines = home_frequency({"ward@a": one, "b": tree([0], [[0.5, 0.5]], [1, 1])})
    assert set(lines["home"]) == {"ward@a", "b"}  # net@a has its home outside this run
