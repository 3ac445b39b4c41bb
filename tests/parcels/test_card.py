"""Cards: written from what is known, read strictly from strangers, shown without obeying them."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.errors import ConfigError, ParcelError, PeerwiseError
from peerwise.parcels.card import about, card_lines, check_card, model_card, safe
from peerwise.parcels.egress import Attack, Privacy, rows_bucket
from peerwise.parcels.strict import canonical, strict_json

ATTACK = Attack("lira", 0.63, 0.6, 0.66, 0.03, 0.21, 242, 242, 16, 3.5)
PRIVACY = Privacy(8.0, 1e-5, "record", "prv")


def card():
    return model_card(
        {"name": "heart disease", "digest": "ab" * 32, "kind": "table"},
        classes=["healthy", "disease"],
        features=[f"f{place}" for place in range(14)],
        rows=rows_bucket(182),
        models={
            "forest": about({"recipe": "forest", "trees": 100}, attack=ATTACK.facts()),
            "mlp": about({"recipe": "mlp", "epochs": 31, "balanced": False}, privacy=PRIVACY),
        },
        licence="CC BY 4.0",
    )


def test_a_card_survives_the_journey():
    assert check_card(strict_json(canonical(card()))) == card()


def test_a_card_reads_well():
    assert card_lines(card()) == [
        "task      heart disease (table, abababababab)",
        "classes   healthy, disease",
        "features  14: f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11 ...",
        "rows      100-499",
        "licence   CC BY 4.0",
        "model     forest: recipe forest, trees 100",
        "  privacy no differential privacy",
        "  attack  lira: AUC 0.63 (0.60 to 0.66; 0.50 is guessing), finds 3.0% of members at 1 % false alarms",
        "model     mlp: recipe mlp, epochs 31, balanced False",
        "  privacy epsilon 8, delta 1e-05, of one record, by prv",
        "  attack  not measured",
    ]


def changed(path, value):
    whole = copy.deepcopy(card())
    node = whole
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return whole


ATTACKED = ("models", "forest", "attack")
WRONG = [
    (("format",), 2),
    (("format",), True),
    (("extra",), 1),
    (("task",), "heart"),
    (("task", "digest"), "AB" * 32),
    (("task", "kind"), "graph"),
    (("task", "name"), ""),
    (("classes",), []),
    (("classes",), ["a", "a"]),
    (("classes",), "ab"),
    (("classes", 0), "x" * 201),
    (("classes", 0), "\x1b[2J"),
    (("features", 0), "a\u202eb"),
    (("features",), ["f"] * 10_001),
    (("rows",), "182"),
    (("licence",), None),
    (("models",), []),
    (("models",), {str(place): about({}) for place in range(101)}),
    (("models", "forest", "training"), {"Recipe": "forest"}),
    (("models", "forest", "training"), {"recipe": ["forest"]}),
    (("models", "forest", "training"), {"loss": float("nan")}),
    (("models", "forest", "training"), {"seed": 2**60}),
    (("models", "forest", "training"), {f"fact{place}": 1 for place in range(21)}),
    (("models", "forest", "weights"), 1),
    (("models", "mlp", "privacy", "epsilon"), 0),
    (("models", "mlp", "privacy", "epsilon"), "8"),
    (("models", "mlp", "privacy", "delta"), 1),
    (("models", "mlp", "privacy", "unit"), "patient"),
    (("models", "mlp", "privacy", "accountant"), "p\nrv"),
    ((*ATTACKED, "kind"), "guess"),
    ((*ATTACKED, "auc"), 1.2),
    ((*ATTACKED, "auc"), True),
    ((*ATTACKED, "auc"), float("nan")),
    ((*ATTACKED, "few"), 0),
    ((*ATTACKED, "shadows"), -1),
    ((*ATTACKED, "members"), 242),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_card_with_anything_wrong_is_refused(path, value):
    with pytest.raises(ParcelError, match=r"expected|no list|no object|twice|says no format|update"):
        check_card(changed(path, value))


@pytest.mark.parametrize("field", ["format", "task", "classes", "features", "rows", "licence", "models"])
def test_a_card_that_lacks_a_field_is_refused(field):
    whole = card()
    del whole[field]
    with pytest.raises(ParcelError):
        check_card(whole)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        ("format",),
        ("task",),
        ("task", "name"),
        ("classes",),
        ("classes", 1),
        ("features",),
        ("rows",),
        ("licence",),
        ("models",),
        ("models", "mlp"),
        ("models", "mlp", "training"),
        ("models", "mlp", "training", "recipe"),
        ("models", "mlp", "privacy"),
        ATTACKED,
        (*ATTACKED, "low"),
    ]
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(path=FIELDS, value=JSON)
def test_any_value_anywhere_is_read_or_refused_in_our_own_words(path, value):
    try:
        lines = card_lines(changed(path, value))
    except PeerwiseError:
        return
    assert all(line.isprintable() for line in lines)
    json.dumps(changed(path, value), allow_nan=False)


@given(text=st.text())
def test_what_a_terminal_would_obey_is_written_out(text):
    shown = safe(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


def test_privacy_is_stated_within_its_meaning():
    for wrong in ({"epsilon": 0.0}, {"epsilon": float("inf")}, {"delta": -1e-9}, {"unit": "row"}, {"accountant": ""}):
        with pytest.raises(ConfigError, match="expected"):
            Privacy(**{**PRIVACY.facts(), **wrong})


@given(n=st.integers(1, 10**7))
def test_a_bucket_holds_its_number(n):
    low, _, high = rows_bucket(n).rstrip("+").partition("-")
    assert int(low) <= n
    assert not high or n <= int(high)
    with pytest.raises(ConfigError, match="expected 0 or more"):
        rows_bucket(-n)
