"""Who is there, and who of them speaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.errors import ConfigError
from peerwise.run.participation import Participation

NAMES = [f"site-{place}" for place in range(20)]


@given(st.floats(0.01, 1.0), st.integers(1, 20), st.integers(0, 9), st.integers(0, 99))
def test_the_part_that_joins_is_drawn_whatever_the_order(join: float, size: int, seed: int, round: int) -> None:
    who = Participation(join, seed=seed)
    drawn = who.sharing(NAMES[:size], round)
    assert len(drawn) == max(1, int(join * size + 0.5))
    assert drawn == sorted(drawn, key=NAMES.index)
    assert set(who.sharing(NAMES[:size][::-1], round)) == set(drawn)


def test_the_draw_changes_with_the_round_and_the_seed() -> None:
    drawn = {tuple(Participation(0.5, seed=seed).sharing(NAMES, round)) for seed in range(3) for round in range(3)}
    assert len(drawn) == 9


def test_those_away_are_not_present() -> None:
    who = Participation(absent={"site-1": [0, 2]})
    assert [who.present(NAMES[:3], round) for round in range(3)] == [
        ["site-0", "site-2"],
        ["site-0", "site-1", "site-2"],
        ["site-0", "site-2"],
    ]
    assert who.sharing([], 0) == []


@pytest.mark.parametrize("join", [0.0, -1.0, 1.5, float("nan")])
def test_a_part_that_is_none_is_refused(join: float) -> None:
    with pytest.raises(ConfigError, match=f"join is {join}: expected a part of the sites"):
        Participation(join)
