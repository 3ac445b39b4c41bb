"""Whom a site sends its model to, by contribution scores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.errors import ConfigError
from peerwise.methods.sharing_policy import share_with, version_for

SCORES = st.dictionaries(st.text(max_size=5), st.floats(0, 1), max_size=8)


@given(SCORES, st.floats(0, 1))
def test_exactly_the_sites_that_reach_the_threshold_get_the_model(scores: dict[str, float], threshold: float) -> None:
    chosen = share_with(scores, threshold)
    assert {site: scores[site] >= threshold for site in scores} == {site: site in chosen for site in scores}
    assert [scores[site] for site in chosen] == sorted((scores[site] for site in chosen), reverse=True)


def test_without_a_threshold_everybody_gets_it_and_with_one_of_all_only_who_gave_all() -> None:
    scores = {"a": 0.0, "b": 1.0}
    assert share_with(scores, 0.0) == ["b", "a"]
    assert share_with(scores, 1.0) == ["b"]
    assert share_with({}, 0.5) == []


@given(SCORES)
def test_who_gives_more_never_gets_a_noisier_version(scores: dict[str, float]) -> None:
    found = version_for(scores, {0.5: 0.0, 2.0: 0.1, math.inf: 0.6})
    assert set(found) == set(scores)
    ranked = sorted(scores, key=lambda site: scores[site])
    assert [found[site] for site in ranked] == sorted(found.values())


def test_who_reaches_no_version_gets_none() -> None:
    assert version_for({"a": 0.2, "b": 0.05}, {1.0: 0.1}) == {"a": 1.0}


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan, math.inf])
def test_scores_and_thresholds_that_are_no_shares_are_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="expected a share from 0 to 1"):
        share_with({"a": bad}, 0.1)
    with pytest.raises(ConfigError, match="expected a share from 0 to 1"):
        share_with({"a": 0.1}, bad)
    with pytest.raises(ConfigError, match="expected a share from 0 to 1"):
        version_for({"a": 0.1}, {1.0: bad})


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"epsilon 0: expected a budget above 0"):
        version_for({"a": 0.1}, {0: 0.1})
