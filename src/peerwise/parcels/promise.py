"""Whose models are worth fetching, by their cards alone: a card is read without any of the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peerwise.parcels.card import LONGEST
from peerwise.parcels.egress.facts import BUCKETS
from peerwise.parcels.tree import sha256

MORE = "..."


def promising(cards: Mapping[str, Mapping[str, Any]], shares: Mapping[str, float], own: str = "") -> list[str]:
    """The sites of these checked cards, by `promise`, greatest first; equals by a lot that falls otherwise for every
    site (``own`` is its name), so that not all ask the same few.

    >>> small = {"rows": "50-99", "models": {"forest": {"training": {"classes_trained_on": "flu, cold"}}}}
    >>> large = {"rows": "500-999", "models": {"forest": {"training": {"classes_trained_on": "cold"}}}}
    >>> promising({"large": large, "small": small}, {"flu": 0.7, "cold": 0.3})
    ['small', 'large']
    """
    return sorted(cards, key=lambda site: (-promise(cards[site], shares), sha256(f"{own}\n{site}".encode())))


def promise(card: Mapping[str, Any], shares: Mapping[str, float]) -> float:
    """The share of this site's rows (``shares`` by class) whose class the peer has trained on, times the number of the
    card's bucket of rows, which grows like their logarithm. docs/scale.md has what was tried.

    A card can claim what it likes: this says what to look at first, and nothing of whom to trust.
    """
    return round(covered(card, shares) * BUCKETS.index(card["rows"]), 9)


def covered(card: Mapping[str, Any], shares: Mapping[str, float]) -> float:
    """The share of this site's rows whose class the best of the card's models was trained on, as far as it says so; one
    that has more classes than it can name counts as having all."""
    told = [f", {known['training'].get('classes_trained_on', '')}, " for known in card["models"].values()]
    if any(text.endswith(f", {MORE}, ") for text in told):
        return float(sum(shares.values()))
    return max((sum(share for name, share in shares.items() if f", {name}, " in text) for text in told), default=0.0)


def named_classes(names: Sequence[str]) -> str:
    """As a card has them: by comma, whole names only, and `MORE` where there is no room for all.

    >>> named_classes(["flu", "cold"]), named_classes([f"disease {number}" for number in range(100)])[-17:]
    ('flu, cold', ', disease 16, ...')
    """
    text = ", ".join(names)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - len(MORE) - 1].rpartition(', ')[0]}, {MORE}"
