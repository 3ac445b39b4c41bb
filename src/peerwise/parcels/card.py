"""The card that travels with a parcel of models: what a reader may know of them before opening any.

A card has exactly these fields: format; task (name, digest, kind); classes; features; rows, roughly; licence; and
models, each by its name with its training (a few plain facts), its privacy and what an attack found, or null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from peerwise.data.rows import Kind
from peerwise.errors import ConfigError, ParcelError
from peerwise.parcels.egress.facts import BUCKETS, Privacy
from peerwise.parcels.signed.fields import SHA256, exact_fields, known_format, plain_text, text_like, whole

FIELDS = ("format", "task", "classes", "features", "rows", "licence", "models")
TASK = ("name", "digest", "kind")
MODEL = ("training", "privacy", "attack")
PRIVACY = ("epsilon", "delta", "unit", "accountant")
SHARES = ("auc", "low", "high", "tpr_at_1", "tpr_at_10")
ATTACK = ("kind", *SHARES, "few", "shadows")
ATTACKS = ("threshold", "lira")
MOST_NAMES, MOST_MODELS, MOST_FACTS, LONGEST, MOST_SHADOWS = 10_000, 100, 20, 200, 10_000
SHOWN = 12
_FACT = re.compile(r"[a-z][a-z0-9_]{0,39}")


def model_card(
    task: Mapping[str, Any],
    *,
    classes: Sequence[str],
    features: Sequence[str],
    rows: str,
    models: Mapping[str, Mapping[str, Any]],
    licence: str,
) -> dict[str, Any]:
    """The card of a parcel. ``task``: its name, digest and kind; ``rows``: from `rows_bucket`; ``models``: what is
    known of each, from `about`."""
    card = {
        "format": 1,
        "task": dict(task),
        "classes": [str(name) for name in classes],
        "features": [str(name) for name in features],
        "rows": rows,
        "licence": licence,
        "models": {name: dict(known) for name, known in models.items()},
    }
    return check_card(card)


def about(
    training: Mapping[str, Any], *, privacy: Privacy | None = None, attack: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a card says of one model. ``training``: such as {"recipe": "forest", "version": "1.2"}; ``attack``: the
    `facts` of one."""
    return {
        "training": dict(training),
        "privacy": privacy and privacy.facts(),
        "attack": None if attack is None else dict(attack),
    }


def check_card(card: Any) -> dict[str, Any]:
    """The card, if it is one and nothing else; ParcelError otherwise. For what comes from a peer."""
    _object(card, FIELDS, "the card")
    known_format(card, "the card")
    _object(card["task"], TASK, "the card's task")
    plain_text(card["task"]["name"], LONGEST, "the name of the card's task", least=1)
    text_like(card["task"]["digest"], SHA256, "the digest of the card's task")
    _one_of(card["task"]["kind"], get_args(Kind), "the kind of the card's task")
    _names(card["classes"], "classes", least=1)
    _names(card["features"], "features", least=0)
    _one_of(card["rows"], BUCKETS, "the card's rows")
    plain_text(card["licence"], LONGEST, "the card's licence")
    if not isinstance(card["models"], Mapping) or len(card["models"]) > MOST_MODELS:
        raise ParcelError(f"the card's models are no object of at most {MOST_MODELS} models. {ASK}")
    for name, known in card["models"].items():
        plain_text(name, LONGEST, "a model's name in the card", least=1)
        _check_model(known, f"model {name!r} of the card")
    return dict(card)


def card_lines(card: Mapping[str, Any]) -> list[str]:
    """The card for reading, one fact a line; what a terminal would obey is written out."""
    known = check_card(card)
    task, features = known["task"], known["features"]
    more = " ..." if len(features) > SHOWN else ""
    lines = [
        f"task      {task['name']} ({task['kind']}, {task['digest'][:12]})",
        f"classes   {', '.join(known['classes'])}",
        f"features  {len(features)}: {', '.join(features[:SHOWN])}{more}",
        f"rows      {known['rows']}",
        f"licence   {known['licence'] or 'not stated'}",
    ]
    for name, model in known["models"].items():
        facts = ", ".join(f"{key} {value}" for key, value in model["training"].items())
        lines += [f"model     {name}: {facts or 'nothing stated'}", f"  privacy {_privacy_line(model['privacy'])}"]
        lines.append(f"  attack  {_attack_line(model['attack'])}")
    return [safe(line) for line in lines]


def safe(text: str) -> str:
    """The text with everything that does not simply print written out.

    >>> safe("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


ASK = "Ask its sender to publish with Peerwise."


def _privacy_line(privacy: Mapping[str, Any] | None) -> str:
    if privacy is None:
        return "no differential privacy"
    return "epsilon {epsilon:g}, delta {delta:g}, of one {unit}, by {accountant}".format(**privacy)


def _attack_line(attack: Mapping[str, Any] | None) -> str:
    if attack is None:
        return "not measured"
    few = ", too few rows for more than a hint" if attack["few"] else ""
    told = "{kind}: AUC {auc:.2f} ({low:.2f} to {high:.2f}; 0.50 is guessing), finds {tpr_at_1:.1%} of members at 1 %"
    return told.format(**attack) + f" false alarms{few}"


def _check_model(known: Any, what: str) -> None:
    _object(known, MODEL, what)
    training = known["training"]
    if not isinstance(training, Mapping) or len(training) > MOST_FACTS:
        raise ParcelError(f"the training of {what} is no object of at most {MOST_FACTS} facts. {ASK}")
    for name, value in training.items():
        text_like(name, _FACT, f"a fact about the training of {what}")
        _check_fact(value, f"{name} of {what}")
    if known["privacy"] is not None:
        _object(known["privacy"], PRIVACY, f"the privacy of {what}")
        try:
            Privacy(**known["privacy"])
        except ConfigError as error:
            raise ParcelError(f"the privacy of {what}: {error}") from error
        plain_text(known["privacy"]["accountant"], LONGEST, f"the accountant of {what}", least=1)
    if known["attack"] is not None:
        _check_attack(known["attack"], f"the attack on {what}")


def _check_attack(attack: Any, what: str) -> None:
    _object(attack, ATTACK, what)
    _one_of(attack["kind"], ATTACKS, what)
    for name in SHARES:
        value = attack[name]
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise ParcelError(f"{name} of {what} is {repr(value)[:80]}: expected a number from 0 to 1. {ASK}")
    if type(attack["few"]) is not bool:
        raise ParcelError(f"few of {what} is {repr(attack['few'])[:80]}: expected true or false. {ASK}")
    whole(attack["shadows"], 0, MOST_SHADOWS, f"shadows of {what}")


def _check_fact(value: Any, what: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        plain_text(value, LONGEST, what)
    elif isinstance(value, int):
        whole(value, -(2**53), 2**53, what)
    elif not isinstance(value, float) or not math.isfinite(value):
        raise ParcelError(f"{what} is {repr(value)[:80]}: expected text, a finite number, true, false or null. {ASK}")


def _names(values: Any, what: str, least: int) -> None:
    if not isinstance(values, list) or not least <= len(values) <= MOST_NAMES:
        raise ParcelError(f"the card's {what} are no list of {least} to {MOST_NAMES} names. {ASK}")
    for value in values:
        plain_text(value, LONGEST, f"a name among the card's {what}", least=1)
    if len(set(values)) != len(values):
        raise ParcelError(f"the card names one of its {what} twice: expected each once. {ASK}")


def _object(value: Any, fields: Sequence[str], what: str) -> None:
    if not isinstance(value, Mapping):
        raise ParcelError(f"{what} is a {type(value).__name__}: expected an object. {ASK}")
    exact_fields(value, fields, what)


def _one_of(value: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(value, str) or value not in known:
        raise ParcelError(f"{what} is {repr(value)[:80]}: expected one of {', '.join(known)}. {ASK}")
