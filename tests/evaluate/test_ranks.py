"""Ranks over many settings: the published example, and what a reader may rely on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.errors import DataError
from peerwise.evaluate.ranks import against, critical_difference, ranking

METHODS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
# AUC of four learners on 14 data sets (Demsar 2006, table 6). On the thirteenth the last two are told apart there by a
# digit that is not printed.
PUBLISHED = [
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
]  # fmt: skip


def published() -> pd.DataFrame:
    return pd.DataFrame(PUBLISHED, columns=METHODS)


def test_the_published_example_gives_the_published_ranks() -> None:
    found = ranking(published(), level=0.9)
    assert found.ranks[METHODS].round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    assert list(found.ranks.index[:2]) == ["C4.5+m+cf", "C4.5+m"]
    n, k = 14, 4
    plain = 12 * n / (k * (k + 1)) * (np.square(found.ranks).sum() - k * (k + 1) ** 2 / 4)
    assert round(plain, 2) == 9.28, "Friedman's statistic, as printed without the correction for ties"
    assert 0.01 < found.p < 0.05


def test_the_published_example_tells_apart_what_it_did() -> None:
    assert round(critical_difference(4, 14), 2) == 1.25
    assert round(critical_difference(4, 14, level=0.9), 2) == 1.12
    assert ranking(published(), level=0.9).groups == [("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5")]
    assert ranking(published(), level=0.95).groups == [tuple(ranking(published()).ranks.index)]


def test_critical_values_are_those_of_the_printed_table() -> None:
    # q of Demsar's table 5(a), 5 %, is the critical difference over sqrt(k (k + 1) / 6 n).
    for methods, q in ((2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)):
        assert critical_difference(methods, 6) * np.sqrt(36 / (methods * (methods + 1))) == pytest.approx(q, abs=1e-3)


@given(st.integers(2, 8), st.integers(3, 7), st.integers(0, 2**31))
def test_ranks_add_up_and_do_not_depend_on_scale_or_order(settings: int, methods: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = pd.DataFrame(rng.integers(0, 5, (settings, methods)), columns=[f"m{i}" for i in range(methods)])
    found = ranking(scores)
    assert found.ranks.sum() == pytest.approx(methods * (methods + 1) / 2)
    again = ranking(scores.sample(frac=1, axis=1, random_state=0) * 10 - 3)
    assert again.ranks.sort_index().tolist() == pytest.approx(found.ranks.sort_index().tolist())
    for group in found.groups:
        assert found.ranks[list(group)].max() - found.ranks[list(group)].min() < found.critical


def test_a_method_that_did_not_run_everywhere_is_named() -> None:
    scores = published()
    scores.loc[3, "C4.5+m"] = np.nan
    with pytest.raises(DataError, match=r"C4\.5\+m did not run in every setting"):
        ranking(scores)


def test_a_gain_in_every_setting_is_no_chance_and_noise_is() -> None:
    rng = np.random.default_rng(0)
    gains = pd.DataFrame({"better": rng.uniform(1, 2, 12), "noise": rng.normal(0, 1, 12), "same": np.zeros(12)})
    gains["few"] = [1.0] + [np.nan] * 11
    p = against(gains)
    assert p["better"] < 0.01 < p["noise"]
    assert np.isnan(p["same"])
    assert p["few"] > 0.5, "one setting proves nothing"
