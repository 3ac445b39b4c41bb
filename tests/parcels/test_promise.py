"""Whose models to fetch first is said by their cards alone, as a person would say it."""

from __future__ import annotations

from typing import Any

import pytest

from peerwise.parcels.egress.facts import BUCKETS
from peerwise.parcels.promise import covered, named_classes, promising

SHARES = {"flu": 0.6, "cold": 0.3, "cold with fever, acute": 0.1}


def card(classes: str | None, rows: str = "100-499") -> dict[str, Any]:
    training = {} if classes is None else {"classes_trained_on": classes}
    return {"rows": rows, "models": {"forest": {"training": training}}}


@pytest.mark.parametrize(
    ("classes", "share"),
    [
        ("flu, cold, cold with fever, acute", 1.0),
        ("cold with fever, acute", 0.1),
        ("cold with fever", 0.0),
        ("flu", 0.6),
        ("fl", 0.0),
        (None, 0.0),
    ],
)
def test_how_much_of_my_rows_a_model_knows(classes: str | None, share: float) -> None:
    assert covered(card(classes), SHARES) == pytest.approx(share)


def test_more_classes_than_a_card_can_name_are_not_held_against_a_peer() -> None:
    names = [f"disease {number:03}" for number in range(100)]
    told = named_classes(names)
    assert len(told) <= 200
    assert set(told.split(", ")) <= {*names, "..."}, "no name is cut in two"
    assert covered(card(told), dict.fromkeys(names, 0.01)) == pytest.approx(1.0)
    assert covered(card(named_classes(names[:5])), dict.fromkeys(names, 0.01)) == pytest.approx(0.05)


def test_of_several_models_the_best_counts() -> None:
    models = {name: {"training": {"classes_trained_on": name}} for name in ("cold", "flu")}
    assert covered({"rows": "0", "models": models}, SHARES) == pytest.approx(0.6)
    assert covered({"rows": "0", "models": {}}, SHARES) == 0


def test_classes_and_rows_count_together() -> None:
    cards = {
        "most rows, flu": card("flu", "1000-4999"),  # 0.6 x 6
        "few rows, all": card("flu, cold, cold with fever, acute", "50-99"),  # 1.0 x 3
        "few rows, flu": card("flu", "50-99"),  # 0.6 x 3
        "many rows, cold": card("cold", "100-499"),  # 0.3 x 4
        "a few rows, all": card("flu, cold, cold with fever, acute", "1-9"),  # 1.0 x 1
        "nothing told": card(None, "1000000+"),
    }
    assert promising(cards, SHARES) == list(cards)
    assert promising(dict(reversed(cards.items())), SHARES) == list(cards)


def test_rows_are_ranked_as_numbers_not_as_texts() -> None:
    cards = {bucket: card("flu", bucket) for bucket in BUCKETS}
    assert promising(cards, SHARES) == list(reversed(BUCKETS))


def test_equals_are_drawn_otherwise_at_every_site_and_always_the_same_at_one() -> None:
    cards = {f"site-{number}": card("flu") for number in range(20)}
    orders = [tuple(promising(cards, SHARES, name)) for name in ("north", "south", "east")]
    assert len(set(orders)) == 3
    assert orders[0] == tuple(promising(cards, SHARES, "north"))
