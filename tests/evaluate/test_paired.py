"""Paired tests and intervals: published answers, simulated coverage, and what must hold for any counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from peerwise.errors import DataError
from peerwise.evaluate import compare, holm, mcnemar, mean_interval, score_interval

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("only_ours", "only_own", "p"),
    [
        (6, 16, 0.052479),  # Cavo et al. 2012, in Fagerland, Lydersen and Laake, "Statistical Analysis of
        (1, 7, 0.070313),  # Contingency Tables" (2017), chapter 8; and Bentur et al. 2009
        (0, 0, 1.0),
        (3, 3, 1.0),
        (5, 0, 0.0625),
        (6, 0, 0.03125),
    ],
)
def test_exact_mcnemar_gives_the_published_answers(only_ours: int, only_own: int, p: float) -> None:
    assert mcnemar(only_ours, only_own) == pytest.approx(p, abs=1e-6)
    assert mcnemar(only_own, only_ours) == pytest.approx(p, abs=1e-6)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_twice_the_smaller_tail_of_a_coin(b: int, c: int) -> None:
    expected = min(1.0, 2 * binom.cdf(min(b, c), b + c, 0.5))
    assert mcnemar(b, c) == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 40))
def test_a_larger_imbalance_is_never_less_surprising(rows: int) -> None:
    p = [mcnemar(won, rows - won) for won in range(rows // 2 + rows % 2, rows + 1)]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(p))


@pytest.mark.parametrize(
    ("only_ours", "only_own", "rows", "low", "high"),
    [(6, 16, 161, -0.1240, -0.0054), (1, 7, 21, -0.5172, -0.0260)],  # the same studies
)
def test_the_score_interval_is_the_published_one(
    only_ours: int, only_own: int, rows: int, low: float, high: float
) -> None:
    found = score_interval([only_ours], [only_own], [rows])
    assert np.ravel(found) == pytest.approx([low, high], abs=5e-5)


def test_two_methods_that_always_agree_may_still_differ_a_little() -> None:
    z = norm.ppf(0.975) ** 2
    low, high = score_interval([0, 0], [0, 0], [10, 100])
    assert high == pytest.approx([z / (10 + z), z / (100 + z)])  # the solution of n d^2 = z^2 d (1 - d)
    assert low == pytest.approx(-high)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
def test_the_interval_holds_the_difference_and_turns_with_the_sign(b: int, c: int, ties: int) -> None:
    n = max(b + c + ties, 1)
    (low,), (high,) = score_interval([b], [c], [n])
    (other_low,), (other_high,) = score_interval([c], [b], [n])
    assert -1 <= low <= (b - c) / n <= high <= 1
    assert (other_low, other_high) == pytest.approx((-high, -low), abs=1e-9)
    (narrow_low,), (narrow_high,) = score_interval([b], [c], [n], level=0.5)
    assert low - 1e-9 <= narrow_low
    assert narrow_high <= high + 1e-9


@pytest.mark.parametrize("rows", [8, 20, 60])
@pytest.mark.parametrize(("won", "lost"), [(0.05, 0.05), (0.2, 0.1), (0.3, 0.05), (0.25, 0.25)])
def test_95_percent_means_at_least_about_95_percent_also_for_few_rows(rows: int, won: float, lost: float) -> None:
    """The exact coverage, over every table that can come out."""
    b, c = (each.ravel() for each in np.meshgrid(np.arange(rows + 1), np.arange(rows + 1), indexing="ij"))
    b, c = b[b + c <= rows], c[b + c <= rows]
    chance = binom.pmf(b, rows, won) * binom.pmf(c, rows - b, lost / (1 - won))
    low, high = score_interval(b, c, np.full(len(b), rows))
    covered = (low <= won - lost) & (won - lost <= high)
    assert chance.sum() == pytest.approx(1)
    assert 0.935 < (chance * covered).sum() <= 1


FEDERATIONS = {
    "four hospitals": ([60, 60, 25, 40], [0.1, 0.05, 0.1, 0.2], [0.05, 0.05, 0.1, 0.05]),
    "many small sites": ([15] * 12, [0.03] * 12, [0.02] * 12),
    "many large sites": ([200] * 20, [0.05] * 20, [0.03] * 20),
    "small sites differ more": ([5] * 5 + [200] * 5, [0.3] * 5 + [0.02] * 5, [0.1] * 5 + [0.02] * 5),
    "some gain, some lose": ([10] * 20, [0.4] * 10 + [0.0] * 10, [0.0] * 10 + [0.4] * 10),
    "classes of unlike size": ([30, 3, 30, 5, 30, 10], [0.1, 0.3, 0.1, 0.2, 0.1, 0.1], [0.05, 0.1] * 3),
}


@pytest.mark.parametrize("name", FEDERATIONS)
def test_the_mean_over_sites_is_covered_too(name: str) -> None:
    rng = np.random.default_rng(0)
    rows, won, lost = (np.array(each) for each in FEDERATIONS[name])
    tables = [rng.multinomial(n, [w, x, 1 - w - x], 500) for n, w, x in zip(rows, won, lost, strict=True)]
    ends = [mean_interval(one[:, 0], one[:, 1], rows) for one in np.stack(tables, axis=1)]
    truth = (won - lost).mean()
    assert 0.925 < np.mean([low <= truth <= high for _, low, high in ends]) <= 1
    assert np.mean([gain for gain, _, _ in ends]) == pytest.approx(truth, abs=0.02)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=8), st.data())
def test_the_mean_lies_within_its_interval_whatever_the_parts(
    parts: list[tuple[int, ...]], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(parts), max_size=len(parts)))
    b, c, ties = np.array(parts, dtype=np.int64).reshape(-1, 3).T
    gain, low, high = mean_interval(b, c, b + c + ties, weights)
    if not (b + c + ties).any():
        assert np.isnan([gain, low, high]).all()
    else:
        assert -1 <= low <= gain + 1e-9
        assert gain - 1e-9 <= high <= 1


def test_equal_sites_are_one_large_sample() -> None:
    alike = mean_interval([2] * 8, [1] * 8, [30] * 8)
    (low,), (high,) = score_interval([16], [8], [240])
    assert alike[0] == pytest.approx(8 / 240)
    # all but for the one row that a site's variance costs
    assert alike[1:] == pytest.approx((low, high), abs=0.002)
    (one_low,), (one_high,) = score_interval([2], [1], [30])
    assert one_low < low < high < one_high


def test_weights_are_shares() -> None:
    doubled = mean_interval([3, 1], [0, 1], [10, 40], weights=[2, 1])
    assert doubled[0] == pytest.approx((2 * 0.3 + 0.0) / 3)
    assert mean_interval([3, 1], [0, 1], [10, 40], weights=[20, 10]) == pytest.approx(doubled)


def test_holm_by_hand() -> None:
    # sorted 0.005, 0.01, 0.03, 0.04; times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04, and never falling
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_holm_never_makes_a_test_surer_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= 1).all()
    assert (adjusted <= np.minimum(np.array(p) * len(p), 1) + 1e-12).all()  # never harsher than Bonferroni
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()


@given(P_VALUES)
def test_a_site_that_was_not_tested_does_not_count(p: list[float]) -> None:
    with_gap = holm([*p, np.nan])
    assert np.isnan(with_gap[-1])
    assert with_gap[:-1] == pytest.approx(holm(p))


ROWS = st.integers(0, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 2), min_size=n, max_size=n) for _ in range(3)])
)


@given(ROWS)
def test_a_comparison_adds_up(answers: tuple[list[int], list[int], list[int]]) -> None:
    y, ours, own = (np.array(each, dtype=np.int64) for each in answers)
    found, turned = compare(y, ours, own), compare(y, own, ours)
    assert (found.only_ours, found.only_own, found.p) == (turned.only_own, turned.only_ours, turned.p)
    if len(y) == 0:
        assert np.isnan([found.gain, found.low, found.high, found.balanced_gain]).all()
        return
    assert found.gain == pytest.approx((ours == y).mean() - (own == y).mean())
    recalls = [(ours[y == c] == c).mean() - (own[y == c] == c).mean() for c in np.unique(y)]
    assert found.balanced_gain == pytest.approx(np.mean(recalls))
    assert found.low <= found.gain <= found.high
    assert found.balanced_low <= found.balanced_gain <= found.balanced_high


def test_answers_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match=r"shapes \(3,\), \(2,\) and \(3,\)"):
        compare([0, 1, 1], [0, 1], [0, 1, 1])


def test_names_are_as_good_as_codes() -> None:
    assert compare(["a", "b"], ["a", "b"], ["a", "a"]).only_ours == 1
