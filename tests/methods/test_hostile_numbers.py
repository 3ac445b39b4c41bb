"""Members that send numbers to break the others' nets: they alone are left out, and all else is as without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from small_federations import table_site

from peerwise.data import Site
from peerwise.federation import Session, combine
from peerwise.methods import Inbox, Method, make_method
from peerwise.methods.low_rank import MOST_NUMBERS, rebuilt
from peerwise.parcels import Parcel

LABELS = [0, 1, 2] * 6
SENDS = {
    "fedavg": "weights",
    "fedgh": "means",
    "fedkd": "weights",
    "fedproto": "means",
    "fedtgp": "means",
    "fml": "weights",
    "lgfedavg": "weights",
    "perfedckt": "logits",
    "scaffold": "moves",
}
NUMBERS: dict[str, Any] = {
    "too large for single precision": np.float64(1e308),
    "as large as single precision has": np.float32(3e38),
    "whole and too large": np.uint64(2**64 - 1),
    "large enough to diverge": np.float32(1e12),
}


def site(name: str) -> Site:
    made = table_site(name, LABELS, LABELS, LABELS, "mlp")
    return made.replace(public=made.test.X[:6])


def replaced(node: Any, number: Any) -> Any:
    if isinstance(node, Mapping):
        return {name: replaced(item, number) for name, item in node.items()}
    return np.full(node.shape, number) if isinstance(node, np.ndarray) else node


@pytest.fixture(scope="module")
def said() -> dict[str, tuple[Method, dict[str, Parcel]]]:
    """What three sites with the same rows at hand say in the first round of every method."""
    found = {}
    for name in SENDS:
        settings: dict[str, Any] = {"rounds": 2} | ({"period": 1} if name == "perfedckt" else {})
        method = make_method(name, settings, folds=2, epochs=1, sites=3)
        parcels = {}
        for sender in ("a", "b", "c"):
            Session(method, here := site(sender))
            here = here.replace(public=site("a").public)
            here.state["public"] = "the same"
            parcels[sender] = Session(method, here, here.state).step(None, 0)
        found[name] = (method, parcels)
    return found


def told_by(method: Method, inbox: Inbox) -> dict[str, Any]:
    """What the sites are told, the second one where each is told something else."""
    told = combine(method, 0, inbox, {}, 0)[0].content
    return dict(told if isinstance(told, Parcel) else told["b"])


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", SENDS)
def test_numbers_that_would_break_every_net_cost_their_sender_alone(
    said: dict[str, tuple[Method, dict[str, Parcel]]], name: str, number: str
) -> None:
    method, parcels = said[name]
    honest = {sender: parcels[sender] for sender in ("b", "c")}
    hostile = Parcel(**{**parcels["a"], SENDS[name]: replaced(parcels["a"][SENDS[name]], NUMBERS[number])})
    told, _ = combine(method, 0, {"a": hostile, **honest}, {}, 0)
    assert list(told.left_out) == ["a"]
    assert Parcel(**told_by(method, {"a": hostile, **honest})) == Parcel(**told_by(method, honest))


def test_a_class_code_beyond_all_numbers_is_not_taken_for_another_class(
    said: dict[str, tuple[Method, dict[str, Parcel]]],
) -> None:
    """As a signed number it would count from the end."""
    method, parcels = said["fedproto"]
    labels = np.full(3, 2**64 - 2, np.uint64) - np.arange(3, dtype=np.uint64)
    told, _ = combine(method, 0, {**parcels, "a": Parcel(means=parcels["a"]["means"], labels=labels)}, {}, 0)
    assert list(told.left_out) == ["a"]
    assert told.content["labels"].tolist() == [0, 1, 2]


def test_rows_beyond_all_counting_do_not_outweigh_everybody(
    said: dict[str, tuple[Method, dict[str, Parcel]]],
) -> None:
    method, parcels = said["fedavg"]
    told, _ = combine(method, 0, {**parcels, "a": Parcel(weights=parcels["a"]["weights"], rows=10**30)}, {}, 0)
    assert list(told.left_out) == ["a"]


def test_what_is_said_of_a_bad_parcel_is_short(said: dict[str, tuple[Method, dict[str, Parcel]]]) -> None:
    method, parcels = said["fedavg"]
    endless = {"x" * 1_000_000: np.full(2, np.nan)}
    told, _ = combine(method, 0, {**parcels, "a": Parcel(weights=endless, rows=1)}, {}, 0)
    assert len(told.left_out["a"]) < 400


def test_two_thin_factors_of_a_huge_matrix_are_refused_before_there_is_memory_for_it(
    said: dict[str, tuple[Method, dict[str, Parcel]]],
) -> None:
    side = 20_000
    assert side * side > MOST_NUMBERS
    method, parcels = said["fedkd"]
    bomb = {"huge": {"left": np.ones((side, 1), np.float32), "right": np.ones((1, side), np.float32)}}
    told, _ = combine(method, 0, {**parcels, "a": Parcel(weights=bomb)}, {}, 0)
    assert "400,000,000 numbers" in told.left_out["a"]
    thin = {"small": {"left": np.ones((3, 1), np.float32), "right": np.ones((1, 4), np.float32)}}
    assert rebuilt(thin)["small"].tolist() == np.ones((3, 4)).tolist()
