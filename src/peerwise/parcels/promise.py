"""Whose models are worth fetching, by their cards alone: a card is read without any of the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peerwise.parcels.egress.facts import BUCKETS
from peerwise.parcels.tree import sha256


def promising(cards: Mapping[str, Mapping[str, Any]], shares: Mapping[str, float], own: str = "") -> list[str]:
    """The sites of these checked cards, most promising first.

    ``shares``: how much of this site's rows each class has. A site comes before another if one of its models was
    trained on classes that make up more of these rows; of equals, the one with more rows (by bucket); of those, by a
    lot that falls otherwise for every site (``own`` is its name), so that not all ask the same few. A card can claim
    what it likes: this says what to look at first, and nothing of whom to trust.

    >>> small = {"rows": "10-49", "models": {"forest": {"training": {"classes_trained_on": "flu, cold"}}}}
    >>> large = {"rows": "500-999", "models": {"forest": {"training": {"classes_trained_on": "cold"}}}}
    >>> promising({"large": large, "small": small}, {"flu": 0.7, "cold": 0.3})
    ['small', 'large']
    """
    return sorted(
        cards,
        key=lambda site: (
            -round(covered(cards[site], shares), 9),
            -BUCKETS.index(cards[site]["rows"]),
            sha256(f"{own}\n{site}".encode()),
        ),
    )


def covered(card: Mapping[str, Any], shares: Mapping[str, float]) -> float:
    """The share of this site's rows whose class the best of the card's models was trained on, as far as it says so."""
    told = [f", {known['training'].get('classes_trained_on', '')}, " for known in card["models"].values()]
    return max((sum(share for name, share in shares.items() if f", {name}, " in text) for text in told), default=0.0)
