"""Below the tables, a line a method: who took part when, what privacy costs, which learning rate was chosen."""

from __future__ import annotations

from typing import Any

from peerwise.report.protocol import all_sites_lines, missed_lines, privacy_lines, tuned_lines

PROMISE: dict[str, Any] = {
    "method": "fedmosaic:dp", "epsilon": 3.2, "delta": 1e-5, "unit": "one row", "rounds": 10,
    "mechanism": "randomised response", "accountant": "PRV", "promised_at": 4, "of": 4, "trials": 1,
    "compared_with": "fedmosaic", "accuracy_cost": 0.021,
}  # fmt: skip


def missed(site: str, rounds: list[int], seed: int = 0, method: str = "fedavg") -> dict[str, Any]:
    return {"seed": seed, "method": method, "site": site, "rounds": 10, "took_part": rounds}


def test_who_took_part_when_is_one_line_a_method() -> None:
    lines = [missed("site-3", [4, 5, 6, 7, 8, 9]), missed("site-5", []), missed("x", [0, 2, 3], method="fedprox")]
    assert list(missed_lines(lines)) == [
        "fedavg: not all took part in every round (from 0): site-3: 6 of 10 rounds (4-9); site-5: no round of 10",
        "fedprox: not all took part in every round (from 0): x: 3 of 10 rounds (0, 2-3)",
    ]
    assert list(missed_lines([])) == []


def test_one_round_of_many_is_not_read_as_so_many_of_them() -> None:
    (line,) = missed_lines([missed("site-0", [4])])
    assert line.endswith("site-0: 1 of 10 rounds (4)")


def test_methods_that_had_all_sites_all_the_time_are_told_in_one_line() -> None:
    (line,) = all_sites_lines(["peerwise", "centralised"])
    assert line.startswith("peerwise, centralised: one round only, with all sites all the time")
    assert list(all_sites_lines([])) == []


def test_the_same_rounds_in_all_seeds_are_told_once_and_others_are_counted() -> None:
    (same,) = missed_lines([missed("a", [1, 2], seed) for seed in range(3)])
    assert same.endswith("a: 2 of 10 rounds (1-2)")
    (other,) = missed_lines([missed("a", [1, 2]), missed("a", [5, 7, 8], 1)])
    assert other.endswith("a: 2 to 3 of 10 rounds, others in each seed")


def test_many_sites_do_not_make_a_long_line() -> None:
    (line,) = missed_lines([missed(f"site-{place}", [0]) for place in range(100)])
    assert line.endswith("; and 96 more sites (--format json has all)")
    assert len(line) < 250


def test_privacy_says_all_of_the_promise_and_its_price() -> None:
    (line,) = privacy_lines([PROMISE])
    assert line == (
        "fedmosaic:dp: epsilon 3.2, delta 1e-05; unit: one row; rounds: 10; mechanism: randomised response; "
        "accountant: PRV; 2.1 points less accurate than fedmosaic"
    )
    (tuned,) = privacy_lines([{**PROMISE, "trials": 3}])
    assert "; tuning ran it 3 times, and each time spends this anew; 2.1 points" in tuned
    (better,) = privacy_lines([{**PROMISE, "accuracy_cost": -0.004}])
    assert better.endswith("; 0.4 points more accurate than fedmosaic")


def test_privacy_without_a_comparison_says_what_to_run() -> None:
    (line,) = privacy_lines([{**PROMISE, "compared_with": None, "accuracy_cost": None, "promised_at": 3}])
    assert "; nothing is promised at 1 of 4 sites x seeds; " in line
    assert line.endswith("; run it beside fedmosaic to see what it costs")
    (hashed,) = privacy_lines([{**PROMISE, "method": "fedmosaic~abc123", "compared_with": None}])
    assert hashed.endswith("; run it beside fedmosaic to see what it costs")


def test_the_chosen_learning_rate_and_how_many_were_tried_are_told() -> None:
    tried = [0.1, 0.0333333, 0.3]
    lines = [{"method": "fedavg", "tried": tried, "chosen": [0.3, 0.3]},
             {"method": "local", "tried": tried, "chosen": [0.1, 0.3]}]  # fmt: skip
    assert list(tuned_lines(lines)) == [
        "fedavg: learning rate 0.3, the best of 3 on validation rows (0.1, 0.0333333, 0.3)",
        "local: learning rate 0.1, 0.3 (by seed), the best of 3 on validation rows (0.1, 0.0333333, 0.3)",
    ]
