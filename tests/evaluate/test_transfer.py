"""Wins, losses, harm and the worst tenth, by hand and for any sites."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.errors import DataError
from peerwise.evaluate import transfer, win_interval, worst_tenth

SITES = st.lists(st.tuples(*[st.integers(0, 20).map(lambda right: right / 20)] * 2), min_size=1, max_size=40)


def test_by_hand() -> None:
    found = transfer([0.9, 0.7, 0.6, 0.5], [0.8, 0.7, 0.8, 0.6])
    assert found["gain"] == pytest.approx(-0.05)
    assert [found[key] for key in ("wins", "ties", "losses", "negative_transfer")] == [0.25, 0.25, 0.5, 0.5]
    assert found["win_rate"] == pytest.approx(1 / 3)
    assert found["negative_transfer_size"] == pytest.approx(0.15)
    assert found["negative_transfer_burden"] == pytest.approx(0.075)
    assert found["worst_tenth_gain"] == pytest.approx(-0.2)


@given(SITES)
def test_every_site_wins_ties_or_loses(sites: list[tuple[float, float]]) -> None:
    ours, own = np.array(sites).T
    found, turned = transfer(ours, own), transfer(own, ours)
    assert found["wins"] + found["ties"] + found["losses"] == pytest.approx(1)
    assert found["wins"] == turned["losses"]
    assert found["negative_transfer_burden"] <= found["negative_transfer"]
    # what is won minus what is lost is the gain
    assert found["gain"] == pytest.approx(turned["negative_transfer_burden"] - found["negative_transfer_burden"])
    if found["losses"]:
        size = found["negative_transfer"] * found["negative_transfer_size"]
        assert found["negative_transfer_burden"] == pytest.approx(size)
    if found["wins"] + found["losses"]:
        assert found["win_rate_low"] <= found["win_rate"] <= found["win_rate_high"]


def test_the_win_rate_has_wilsons_interval() -> None:
    # 7 of 10: Wilson 95 %, as in Newcombe (1998)
    assert win_interval(7, 3) == pytest.approx((0.3968, 0.8922), abs=5e-5)
    assert np.isnan(win_interval(0, 0)).all()


def test_nobody_compared_is_nothing_known() -> None:
    assert all(np.isnan(value) for value in transfer([], []).values())
    assert all(np.isnan(value) for value in transfer([np.nan], [0.5]).values())


def test_sites_and_own_models_must_pair_up() -> None:
    with pytest.raises(DataError, match=r"\(1,\) and \(2,\)"):
        transfer([0.5], [0.5, 0.6])


@pytest.mark.parametrize(("sites", "counted"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_the_worst_tenth_is_at_least_one_site(sites: int, counted: int) -> None:
    values = np.arange(sites)[::-1] / 100
    assert worst_tenth(values) == pytest.approx(np.arange(counted).mean() / 100)
    assert worst_tenth([*values, np.nan]) == worst_tenth(values)
