"""check_exchange: the contract of an Exchange, tried with three sites."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from peerwise.exchange import Exchange, sizes_of
from peerwise.parcels import Parcel

SITES = ("north", "East", "10")  # not in alphabetical order

Make = Callable[[str], Exchange]


@dataclass(frozen=True)
class _Sites:
    make: Make
    seen: dict[str, Exchange]
    patience: float

    def post(self, site: str, round: int, parcel: Parcel) -> None:
        self.seen[site].post(round, site, parcel)


def check_exchange(make: Make, first_round: int = 0, patience: float = 60.0) -> None:
    """Raise an AssertionError that says what is wrong, or return.

    ``make(site)`` opens the exchange as one of `SITES` sees it, all in one place; called again for the same site it
    stands for a restart of that site. Rounds from ``first_round`` on must be free. What is posted must be seen by all
    within ``patience`` seconds.
    """
    at = _Sites(make, {site: make(site) for site in SITES}, patience)
    for place, check in enumerate(CHECKS):
        check(at, first_round + 10 * place)


def _nobody_spoke(at: _Sites, round: int) -> None:
    at.post("East", round + 1, Parcel(said=1))
    for site in SITES:
        found = at.seen[site].collect(round)
        assert len(found) == 0, f"a round in which nobody spoke holds parcels of {list(found)} as {site} sees it."
        assert dict(found) == {}, "a round in which nobody spoke is not empty."


def _all_see_all(at: _Sites, round: int) -> None:
    for site in SITES:
        at.post(site, round, Parcel(who=site))
    for site in SITES:
        found = at.seen[site].collect(round, quorum=len(SITES), deadline=at.patience)
        assert list(found) == sorted(SITES), f"{site} sees {list(found)}: expected {sorted(SITES)}, in this order."
        for other in SITES:
            assert found[other]["who"] == other, f"{site} takes a parcel of {found[other]['who']} for one of {other}."


def _twice_replaces(at: _Sites, round: int) -> None:
    at.post("10", round, Parcel(said="first", model=b"old"))
    at.post("10", round + 1, Parcel(said="another round"))
    assert at.seen["north"].collect(round, quorum=1, deadline=at.patience)["10"]["said"] == "first", (
        "the first post is not seen."
    )
    at.post("10", round, Parcel(said="second"))
    for site in SITES:
        found = at.seen[site].collect(round)
        assert {name: parcel["said"] for name, parcel in found.items()} == {"10": "second"}, (
            f"after a second post {site} sees {dict(found)}: expected the second alone."
        )


def _content_survives(at: _Sites, round: int) -> None:
    rng = np.random.default_rng(0)
    sent = Parcel(
        big=rng.bytes(5_000_000),
        again=b"\x00onnx",
        empty=b"",
        text="Zürich 北京 \u202e \x00 \n\"'",
        values={"of": [None, True, -1, 1.5, {"deep": np.arange(6, dtype=np.int8).reshape(2, 3)}], "none": []},
        odd=np.array([np.nan, np.inf, -0.0]),
        no_rows=np.zeros((0, 3), np.float32),
        one=np.float64(0.1),
    )
    at.post("north", round, sent)
    at.post("East", round, Parcel())
    for site in SITES:
        found = at.seen[site].collect(round, quorum=2, deadline=at.patience)
        assert found["north"] == sent, f"a parcel with odd content came otherwise to {site} than it was sent."
        assert len(found["East"]) == 0, f"an empty parcel came to {site} as {found['East']}."
        told, counted = sizes_of(found)["north"], found["north"].nbytes
        assert told == counted == sent.nbytes, f"{site} counts {told} and {counted} bytes, {sent.nbytes} were sent."


def _sender_cannot_change_it(at: _Sites, round: int) -> None:
    values = np.zeros(3)
    at.post("north", round, Parcel(values=values))
    values[:] = 7
    found = at.seen["10"].collect(round, quorum=1, deadline=at.patience)["north"]["values"]
    assert found.tolist() == [0.0, 0.0, 0.0], "a parcel changes when its sender changes what it was made from."


def _deadline_gives_what_is_there(at: _Sites, round: int) -> None:
    at.post("East", round, Parcel(said=1))
    at.seen["10"].collect(round, quorum=1, deadline=at.patience)
    started = time.monotonic()
    found = at.seen["10"].collect(round, quorum=2, deadline=0.5)
    assert list(found) == ["East"], f"at the deadline {list(found)} are there: expected what was posted, ['East']."
    waited = time.monotonic() - started
    assert waited > 0.4, f"too few were there, and collect waited {waited:.2f} of 0.5 seconds."


def _quorum_ends_the_wait(at: _Sites, round: int) -> None:
    at.post("10", round, Parcel(said=1))
    started = time.monotonic()
    late = threading.Timer(0.3, lambda: at.post("East", round, Parcel(said=2)))
    late.start()
    try:
        found = at.seen["north"].collect(round, quorum=2, deadline=at.patience)
        assert list(found) == ["10", "East"], f"two were waited for, and {list(found)} came."
        assert time.monotonic() - started < at.patience, "collect waits on when the quorum is there."
    finally:
        late.join()
    assert list(at.seen["north"].collect(round, quorum=1)) == ["10", "East"], "more than the quorum were there."


def _restart_loses_nothing(at: _Sites, round: int) -> None:
    for site in SITES:
        at.post(site, round, Parcel(who=site, said="before"))
    for site in SITES:
        at.seen[site] = at.make(site)
    at.post("East", round, Parcel(who="East", said="after"))
    expected = {site: "after" if site == "East" else "before" for site in SITES}
    for site in SITES:
        found = at.seen[site].collect(round, quorum=len(SITES), deadline=at.patience)
        said = {name: parcel["said"] for name, parcel in found.items()}
        assert said == expected, f"after restarts {site} sees {said}: expected {expected}."


CHECKS: tuple[Callable[[_Sites, int], None], ...] = (
    _nobody_spoke,
    _all_see_all,
    _twice_replaces,
    _content_survives,
    _sender_cannot_change_it,
    _deadline_gives_what_is_there,
    _quorum_ends_the_wait,
    _restart_loses_nothing,
)
