"""Membership attacks with known answers: full-depth forests give their rows away, logistic regression hardly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from egress_models import FULL_DEPTH, cancer, hospitals, of_zoo
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from peerwise.data import Rows
from peerwise.errors import ConfigError, DataError
from peerwise.models import ZOO
from peerwise.parcels.egress import lira, membership, recipe_fit, threshold
from peerwise.parcels.egress.attack import _figures, together


class Knows:
    """A model that is sure of the rows that it is told, and guesses elsewhere."""

    def __init__(self, rows, sure=5.0):
        self.known = {row.tobytes(): label for row, label in zip(rows.X, rows.y, strict=True)}
        self.sure = sure

    def predict_logits(self, X):
        logits = np.zeros((len(X), 2))
        for place, row in enumerate(X):
            if (label := self.known.get(row.tobytes())) is not None:
                logits[place, label] = self.sure
        return logits


def heart(place=0):
    site = hospitals()[place]
    return site, {"classes": len(site.classes), "features": site.features}


def test_a_model_that_knows_its_rows_is_found_out_by_both_attacks():
    rows = cancer()
    train, others = rows.take(slice(0, 100)), rows.take(slice(100, 200))
    simple = threshold(Knows(train), train, others)
    assert (simple.auc, simple.low, simple.high, simple.tpr_at_1, simple.tpr_at_10) == (1, 1, 1, 1, 1)
    assert (simple.kind, simple.members, simple.non_members, simple.shadows, simple.few) == (
        "threshold",
        100,
        100,
        0,
        False,
    )
    strong = lira(lambda some, seed: Knows(some), rows, shadows=4)
    assert strong.auc == strong.tpr_at_1 == 1


def test_a_model_that_knows_nothing_gives_nothing_away():
    rows = cancer()
    train, others = rows.take(slice(0, 100)), rows.take(slice(100, 200))
    nothing = threshold(Knows(train, sure=0.0), train, others)
    assert nothing.auc == 0.5
    assert nothing.tpr_at_1 == pytest.approx(0.01)
    assert nothing.tpr_at_10 == pytest.approx(0.1)
    assert lira(lambda some, seed: Knows(some, sure=0.0), rows, shadows=4).auc == 0.5


@pytest.mark.parametrize("place", [0, 2])
def test_a_full_depth_forest_gives_its_patients_away_and_logistic_regression_hardly(place):
    site, about = heart(place)
    rows = together(site.train, site.val)
    full = lira(recipe_fit(FULL_DEPTH, **about), rows, shadows=8)
    plain = lira(recipe_fit(ZOO["logistic"], **about), rows, shadows=8)
    assert full.auc > 0.8
    assert plain.auc < 0.66
    assert full.low > plain.high
    assert full.tpr_at_10 > 2 * plain.tpr_at_10


def test_leaves_of_ten_rows_give_less_away_than_leaves_of_one():
    site, about = heart()
    rows = together(site.train, site.val)
    ten = lira(recipe_fit(ZOO["forest"], **about), rows, shadows=4)
    one = lira(recipe_fit(FULL_DEPTH, **about), rows, shadows=4)
    assert ten.high < one.low


def test_the_threshold_attack_on_a_real_forest():
    site, about = heart()
    full = FULL_DEPTH.fit(site.train, None, seed=0, **about)
    found = threshold(full, site.train, site.val)
    plain = threshold(of_zoo("logistic"), site.train, site.val)
    assert found.auc > 0.65 > plain.auc
    assert found.low < found.auc < found.high
    assert found.few, "60 rows held out cannot show a false alarm in a hundred"


def test_the_budget_chooses_the_attack_and_the_seed_the_figure():
    site, about = heart()
    fit = recipe_fit(ZOO["logistic"], **about)
    model = of_zoo("logistic")
    rich = [membership(model, site.train, site.val, fit=fit, shadows=4, budget=math.inf, seed=s) for s in (3, 3, 4)]
    assert {attack.kind for attack in rich} == {"lira"}
    assert replace(rich[0], seconds=0) == replace(rich[1], seconds=0)
    assert rich[0].auc != rich[2].auc
    for given_fit, budget in ((fit, 0), (fit, 1e-9), (None, math.inf)):
        assert membership(model, site.train, site.val, fit=given_fit, budget=budget).kind == "threshold"


def test_rows_of_one_person_are_members_together():
    rows = cancer()
    people = Rows(rows.X, rows.y, np.arange(200) // 4)
    seen = []

    def fit(some, seed):
        seen.append(some.group)
        return Knows(some)

    lira(fit, people, shadows=4)
    for groups in seen:
        assert (np.unique(groups, return_counts=True)[1] == 4).all()
    assert len({tuple(groups) for groups in seen}) == 4


@settings(max_examples=50, derandomize=True, deadline=None)
@given(scores=st.lists(st.integers(-3, 3), min_size=4, max_size=40), seed=st.integers(0, 99))
def test_figures_are_those_of_the_roc_curve(scores, seed):
    member = np.random.default_rng(seed).permutation(np.arange(len(scores)) % 2 == 0)
    auc, low, high, at_1, at_10 = _figures(np.array(scores, dtype=float), member, np.arange(len(scores)), seed)
    assert auc == pytest.approx(roc_auc_score(member, scores))
    assert 0 <= low <= high <= 1
    fpr, tpr, _ = roc_curve(member, scores, drop_intermediate=False)
    for rate, found in ((0.01, at_1), (0.1, at_10)):
        assert tpr[fpr <= rate].max() - 1e-9 <= found <= tpr[fpr >= rate].min() + 1e-9


def test_what_cannot_be_attacked_is_said():
    rows = cancer()
    with pytest.raises(DataError, match="1 others: expected at least two"):
        threshold(Knows(rows), rows, rows.take(slice(0, 1)))
    with pytest.raises(ConfigError, match="5 shadow models: expected an even number"):
        lira(lambda some, seed: Knows(some), rows, shadows=5)


def test_the_facts_for_the_card_tell_nothing_exact_about_the_rows():
    rows = cancer()
    facts = threshold(Knows(rows), rows.take(slice(0, 77)), rows.take(slice(77, 200))).facts()
    assert not {"members", "non_members", "seconds"} & set(facts)
    assert facts["few"] is False
