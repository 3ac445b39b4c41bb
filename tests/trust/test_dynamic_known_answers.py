"""Each dynamic selection rule on a pool made by hand, with the answer worked out from its published definition.

Known row i lies at position i + 1 of a single input and the row to answer at 0, so that the neighbours come in the
order of the rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_reference import RULES, made, pool, said

from peerwise.trust.dynamic import DESKNN, DESP, KNOP, KNORAE, KNORAU, LCA, METADES, OLA

HERE = np.zeros((1, 1))


def asked(rule, right, y, answers, classes=2):
    """The decision for the one row, where model m says ``answers[m]`` and was right or not on each known row."""
    X = np.arange(1.0, len(y) + 1)[:, None]
    return rule.fit_outputs(pool(right, y, classes), y, X).decide_outputs(said([answers], classes), HERE)


#        model     A  B  C  D
STREAKS = [[1, 1, 0, 1], [1, 1, 1, 0], [0, 0, 1, 1], [1, 0, 1, 1]]


def test_knora_e_drops_the_farthest_neighbour_until_a_model_is_right_on_all():
    decision = asked(KNORAE(k=3), STREAKS, [0, 1, 0, 1], [0, 1, 0, 1])
    assert decision.trust.tolist() == [[0.5, 0.5, 0, 0]]  # nobody is right on three, A and B on two
    assert not decision.fallback[0]
    perfect = np.column_stack([STREAKS, np.ones(4)])
    assert asked(KNORAE(k=3), perfect, [0, 1, 0, 1], [0, 1, 0, 1, 1]).trust.tolist() == [[0, 0, 0, 0, 1]]
    one = asked(KNORAE(k=1), STREAKS, [0, 1, 0, 1], [0, 1, 0, 1])
    assert one.trust[0] == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


def test_knora_e_takes_all_where_nobody_is_right_on_the_nearest():
    decision = asked(KNORAE(k=2), [[0, 0], [1, 1]], [0, 1], [0, 1])
    assert decision.trust.tolist() == [[0.5, 0.5]]
    assert decision.fallback[0]


def test_knora_u_weighs_by_the_neighbours_that_a_model_is_right_on():
    right = [[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1]]
    decision = asked(KNORAU(k=3), right, [0, 1, 1, 0], [0, 1, 1])
    assert decision.trust[0] == pytest.approx([3 / 5, 2 / 5, 0])
    four = asked(KNORAU(k=4), right, [0, 1, 1, 0], [0, 1, 1])
    assert four.trust[0] == pytest.approx([3 / 7, 3 / 7, 1 / 7])
    assert not four.fallback[0]


def test_hard_votes_are_weighed_and_soft_votes_mix_probabilities():
    right, y, X = [[1, 1, 0], [1, 0, 0], [1, 1, 0]], [0, 1, 1], np.arange(1.0, 4)[:, None]
    query = np.log([[[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]])
    hard = KNORAU(k=3).fit_outputs(pool(right, y, 2), y, X)
    assert hard.predict_proba_outputs(query, HERE)[0] == pytest.approx([3 / 5, 2 / 5])
    soft = KNORAU(k=3, vote="soft").fit_outputs(pool(right, y, 2), y, X)
    assert soft.predict_proba_outputs(query, HERE)[0] == pytest.approx([0.6 * 0.9 + 0.4 * 0.2, 0.6 * 0.1 + 0.4 * 0.8])


LOCAL = [[1, 0], [0, 0], [1, 1], [1, 1], [1, 0]]
LABELS = [0, 0, 1, 1, 1]


def test_ola_takes_the_model_that_is_right_most_often_and_lca_where_it_says_the_same():
    # A says 0 1 1 1 1 and is right on 4 of 5, B says 1 1 1 1 0 and is right on 2 of 5
    assert asked(OLA(k=5), LOCAL, LABELS, [0, 1]).trust.tolist() == [[1, 0]]
    assert asked(LCA(k=5), LOCAL, LABELS, [0, 1]).trust.tolist() == [[1, 0]]  # 1 of 1 against 2 of 4
    assert asked(LCA(k=5), LOCAL, LABELS, [1, 0]).trust.tolist() == [[1, 0]]  # 3 of 4 against none of 1
    says = said([[1, 1], [1, 1], [0, 1], [0, 0], [1, 0]], 2)
    X = np.arange(1.0, 6)[:, None]  # A is right on 3 of 5 and on 2 of 3 where it says 1, B on 2 and on 1 of 2 with 0
    learner = LCA(k=5).fit_outputs(says, [1, 1, 0, 1, 0], X)
    assert learner.trust_outputs(said([[1, 0]], 2), HERE).tolist() == [[1, 0]]


def test_lca_is_not_taken_in_by_a_model_that_always_says_the_same():
    y, X = [0] * 6 + [1], np.arange(1.0, 8)[:, None]
    always, careful = [1] * 7, [0, 0, 0, 0, 0, 1, 1]
    learner = LCA(k=7).fit_outputs(said(np.column_stack([always, careful]), 2), y, X)
    # the one that always says 1 is right on 1 of 7 such neighbours, the other on 5 of 5 to which it gives 0
    assert learner.trust_outputs(said([[1, 0]], 2), HERE).tolist() == [[0, 1]]


@pytest.mark.parametrize("rule", [OLA, LCA])
def test_of_equals_an_own_model_is_taken_or_else_the_first(rule):
    right = [[1, 1, 1], [0, 0, 0]]
    assert asked(rule(k=2), right, [0, 0], [0, 0, 1]).trust.tolist() == [[1, 0, 0]]
    assert asked(rule(k=2, own=[1]), right, [0, 0], [0, 0, 1]).trust.tolist() == [[0, 1, 0]]


def test_lca_counts_a_model_that_says_something_new_as_nothing():
    right = [[1, 1], [1, 0]]
    assert asked(LCA(k=2), right, [0, 0], [1, 0]).trust.tolist() == [[0, 1]]  # A said 1 nowhere near
    nobody = asked(LCA(k=2), right, [0, 0], [2, 2], classes=3)
    assert nobody.trust.tolist() == [[0.5, 0.5]]  # what all agree on
    nobody = asked(LCA(k=2), right, [0, 0], [1, 2], classes=3)
    assert nobody.fallback[0]
    assert nobody.trust.tolist() == [[0.5, 0.5]]


def test_des_p_takes_those_that_do_better_than_guessing():
    right = [[1, 1, 0], [0, 1, 0], [0, 0, 0]]  # 1, 2 and 0 of 3
    three = asked(DESP(k=3), right, [0, 1, 2], [0, 1, 2], classes=3)
    assert three.trust.tolist() == [[0, 1, 0]]  # one of three is what guessing among three classes gives
    four = asked(DESP(k=3), right, [0, 1, 2], [0, 1, 2], classes=4)
    assert four.trust.tolist() == [[0.5, 0.5, 0]]
    assert asked(DESP(k=2), [[1, 0], [0, 1]], [0, 1], [0, 1]).fallback.tolist() == [True]


def test_des_knn_takes_the_accurate_and_of_these_the_diverse():
    #         A  B  C  D  E  F
    right = [
        [0, 0, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 1],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
    ]
    # accurate: A, B, C with 3 of 4. Others wrong where they are: A and B 4 (B or A, D, E, F at the first), C 1 (D)
    answers, y = [0, 1, 0, 1, 0, 1], [0, 1, 0, 1]
    assert asked(DESKNN(k=4), right, y, answers).trust.tolist() == [[0.5, 0, 0.5, 0, 0, 0]]
    assert asked(DESKNN(k=4, own=[1]), right, y, answers).trust.tolist() == [[0, 0.5, 0.5, 0, 0, 0]]
    assert asked(DESKNN(k=4, pct_diversity=0.1), right, y, answers).trust.tolist() == [[0, 0, 1, 0, 0, 0]]
    wide = asked(DESKNN(k=4, pct_accuracy=0.67, pct_diversity=1.0), right, y, answers)
    assert wide.trust.tolist() == [[0.25, 0.25, 0.25, 0.25, 0, 0]]  # D, E and F are right once: the first of them
    assert asked(DESKNN(k=1), np.zeros((1, 4)), [0], [0, 1, 0, 1]).fallback[0]


def test_knop_looks_for_rows_with_outputs_alike():
    outputs = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.2, 0.8], [0.7, 0.3]], [[0.1, 0.9], [0.4, 0.6]]])
    y = [0, 1, 0]  # right: both; the first; the second is wrong on the last, so is the first
    query = np.array([[[0.3, 0.7], [0.6, 0.4]]])  # L1: 1.6, 0.4, 0.8
    learner = KNOP(k=1).fit_outputs(outputs, y, kind="probabilities")
    assert learner.trust_outputs(query).tolist() == [[1, 0]]
    two = KNOP(k=2).fit_outputs(outputs, y, kind="probabilities")
    assert two.trust_outputs(query).tolist() == [[1, 0]]
    three = KNOP(k=3).fit_outputs(outputs, y, kind="probabilities")
    assert three.trust_outputs(query)[0] == pytest.approx([2 / 3, 1 / 3])


def test_meta_des_selects_those_that_are_right_in_such_places():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = rng.integers(0, 2, 200)
    left = X[:, 0] < 0
    learner = METADES().fit_outputs(pool(np.column_stack([left, ~left]), y, 2), y, X)
    found = learner.trust_outputs(said([[0, 1], [0, 1]], 2), np.array([[-1.0], [1.0]]))
    assert found.tolist() == [[1, 0], [0, 1]]


def test_the_evidence_of_meta_des_and_what_it_makes_of_it_by_hand():
    """Three known rows of class 0, at 1, 2 and 4. Nearest others by place: rows 1, 0, 1; by outputs, where rows 0 and 1
    are 2.4 apart, 0 and 2 0.8, 1 and 2 1.6: rows 2, 2, 0. A is right on rows 0 and 2, B on row 1."""
    true = np.array([[0.9, 0.3], [0.2, 0.8], [0.6, 0.4]])  # the probability of class 0, by A and by B
    known = np.stack([true, 1 - true], axis=2), [0, 0, 0], np.array([[1.0], [2.0], [4.0]])
    learner = METADES(k=1, Kp=1).fit_outputs(*known, kind="probabilities")
    # right nearby, true class nearby, share, right on outputs alike, sure of itself: in tenths, with one more of each
    right = np.add([0, 2, 0, 10, 9], [0, 3, 0, 0, 8]) + [0, 2, 0, 10, 6] + 1  # A on row 0, B on row 1, A on row 2
    wrong = np.add([10, 8, 10, 0, 7], [10, 9, 10, 10, 8]) + [10, 8, 10, 0, 6] + 1  # B on row 0, A on row 1, B on row 2
    assert (right.tolist(), wrong.tolist()) == ([1, 8, 1, 21, 24], [31, 26, 31, 11, 22])
    assert learner.prior_ == pytest.approx(0)  # three of each
    assert learner.log_odds_ == pytest.approx(np.log((right / 55) / (wrong / 121)))

    # A row at 1, of whose class 0 A gives 0.85 and B 0.35: row 0 is nearest by place and, 0.2 away, by outputs.
    # A: 10 9 10 10 8, odds e^-35. B: 0 3 0 0 6, odds (121/55 * 8/26)^3 * (121/55 * 24/22)^6 = 59.3 to 1.
    query = np.array([[[0.85, 0.15], [0.35, 0.65]]]), np.array([[1.0]])
    odds = (2.2 * 8 / 26) ** 3 * (2.2 * 24 / 22) ** 6
    assert odds == pytest.approx(59.28, abs=0.01)
    for threshold, trust in ((odds / (1 + odds) - 1e-6, [0, 1]), (odds / (1 + odds) + 1e-6, [0.5, 0.5])):
        strict = METADES(k=1, Kp=1, selection_threshold=threshold).fit_outputs(*known, kind="probabilities")
        decision = strict.decide_outputs(*query)
        assert decision.trust.tolist() == [trust]
        assert decision.fallback.tolist() == [trust == [0.5, 0.5]]


@pytest.mark.parametrize("name", RULES)
def test_what_all_models_agree_on_is_the_answer(name):
    y, X = [0, 1, 0], np.arange(1.0, 4)[:, None]
    learner = made(name, k=2).fit_outputs(pool(np.zeros((3, 3)), y, 2), y, X)  # nobody was ever right
    decision = learner.decide_outputs(said([[1, 1, 1], [0, 1, 1]], 2), np.zeros((2, 1)))
    assert decision.trust[0] == pytest.approx([1 / 3] * 3)
    assert decision.fallback.tolist() == [False, True]
    assert learner.predict_proba_outputs(said([[1, 1, 1]], 2), HERE).tolist() == [[0, 1]]


def test_validation_rows_are_known_rows_too():
    near = pool([[0, 1]], [0], 2), [0], np.array([[0.1]])
    far = pool([[1, 0]], [0], 2), [0], np.array([[5.0]])
    learner = OLA(k=1).fit_outputs(*far, validation=near)
    assert learner.trust_outputs(said([[0, 1]], 2), HERE).tolist() == [[0, 1]]
