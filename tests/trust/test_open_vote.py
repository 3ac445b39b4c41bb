"""Open voting: who knows a row best answers it; the published propositions hold for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from peerwise.errors import BadOutputs, ConfigError
from peerwise.trust.open_vote import open_vote, vote_curve

MODELS = np.array([[[0.5, 0.1, 0.4], [0.05, 0.85, 0.1], [0.45, 0.45, 0.1], [0.0, 0.0, 1.0]]])


def random_outputs(n=40, models=6, classes=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(classes + 1, 0.4), size=(n, models))


def by_hand(outputs, k):
    """The rule as it is published, one row and one model at a time."""
    answers = []
    for row in outputs:
        first = sorted(range(len(row)), key=lambda model: (row[model][-1], model))[:k]
        total = [0.0] * (len(row[0]) - 1)
        for model in first:
            for code in range(len(total)):
                total[code] += row[model][code]
        answers.append(total)
    return np.array(answers)


def test_the_vote_worked_out_by_hand():
    one, two, three = (open_vote(MODELS, k) for k in (1, 2, 3))
    assert one.trust[0].tolist() == [0, 1, 0, 0]  # the models 1 and 2 know as much: the first of them
    assert np.allclose(one.probabilities, [[0.05 / 0.9, 0.85 / 0.9]])
    assert np.allclose(two.probabilities, [[0.5 / 1.8, 1.3 / 1.8]])
    assert np.allclose(three.probabilities, [[1.0 / 2.4, 1.4 / 2.4]])
    assert np.allclose(three.trust, [[0.6 / 2.4, 0.9 / 2.4, 0.9 / 2.4, 0]])
    assert three.says[0].tolist() == [0, 1, 0, 0]
    assert three.unknown[0].tolist() == [0.4, 0.1, 0.1, 1.0]
    assert vote_curve(MODELS).tolist() == [[1, 1, 1, 1]]


def test_votes_are_not_normalised_model_by_model():
    outputs = np.array([[[0.02, 0.08, 0.9], [0.09, 0.01, 0.9]]])
    assert np.allclose(open_vote(outputs, 2).probabilities, [[0.11 / 0.2, 0.09 / 0.2]])
    unsure = np.array([[[0.6, 0.0, 0.4], [0.0, 0.5, 0.5]]])
    assert vote_curve(unsure).tolist() == [[0, 0]]


def test_where_nobody_leaves_anything_to_known_classes_they_are_all_alike():
    lost = open_vote(np.array([[[0, 0, 0, 1.0], [0, 0, 0, 1.0]]]), k=1)
    assert lost.probabilities.tolist() == [[1 / 3, 1 / 3, 1 / 3]]
    assert lost.trust.tolist() == [[1, 0]]
    assert lost.nobody.tolist() == [True]
    assert open_vote(MODELS).nobody.tolist() == [False]


@given(st.integers(1, 8), st.integers(1, 7), st.integers(2, 6), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_any_vote_is_that_of_the_rule_and_a_mixture_by_trust(k, models, classes, seed):
    outputs = random_outputs(12, models, classes, seed)
    outputs[:, :, -1] = outputs[:, :, -1].round(1)  # many equals
    outputs /= outputs.sum(axis=2, keepdims=True)
    vote, expected = open_vote(outputs, k), by_hand(outputs, k)
    assert np.allclose(vote.probabilities, expected / expected.sum(axis=1, keepdims=True))
    assert np.array_equal(vote_curve(outputs)[:, min(k, models) - 1], vote.probabilities.argmax(axis=1))
    known = outputs[:, :, :-1]
    mixed = np.einsum("nm,nmc->nc", vote.trust, known / known.sum(axis=2, keepdims=True))
    assert np.allclose(mixed, vote.probabilities)
    assert ((vote.trust > 0).sum(axis=1) <= k).all()
    assert np.allclose(vote.trust.sum(axis=1), 1)


def test_all_models_add_up_to_the_plain_sum():
    outputs = random_outputs()
    total = outputs[:, :, :-1].sum(axis=1)
    for k in (6, 99):
        assert np.allclose(open_vote(outputs, k).probabilities, total / total.sum(axis=1, keepdims=True))
    assert np.array_equal(vote_curve(outputs)[:, -1], total.argmax(axis=1))


def test_the_smallest_probabilities_still_sum_to_one():
    outputs = np.array([[[1e-310, 3e-310, 1.0]]])
    assert np.allclose(open_vote(outputs).probabilities, [[0.25, 0.75]])


def test_no_rows_give_no_answers():
    vote = open_vote(np.zeros((0, 3, 5)))
    assert vote.probabilities.shape == (0, 4)
    assert vote_curve(np.zeros((0, 3, 5))).shape == (0, 3)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (np.ones((3, 2)), "shape"),
        (np.ones((3, 0, 2)), "shape"),
        (np.ones((3, 2, 1)), "shape"),
        (np.full((1, 2, 2), np.nan), "model 0 says .* of row 0"),
        (np.array([[[0.5, 0.5]], [[0.5, 0.8]]]), "of row 1 .1 such"),
        (np.array([[[1.5, -0.5]]]), "sum to one"),
    ],
)
def test_what_is_no_probability_is_refused(outputs, said):
    with pytest.raises(BadOutputs, match=said):
        open_vote(outputs)
    with pytest.raises(BadOutputs, match=said):
        vote_curve(outputs)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_number_of_models_that_is_none_is_refused(k):
    with pytest.raises(ConfigError, match="k="):
        open_vote(MODELS, k)


# ---- the FedSOV paper's proposition 1 ------------------------------------------------------------------------------


def ideal_ensemble(labels, each, *, abstains):
    """N labels, disjoint subsets of M, every row of a label once for each of the M^K combinations of guesses of those
    who do not know it: the distribution of the proposition, exactly. Labels (n,), outputs (n, N / M, N + 1)."""
    members = labels // each
    guesses = np.stack(np.meshgrid(*[np.arange(each)] * members, indexing="ij"), axis=-1).reshape(-1, members)
    y = np.repeat(np.arange(labels), len(guesses))
    owner, codes = y // each, np.tile(guesses, (labels, 1)) + np.arange(members) * each
    knows = owner[:, None] == np.arange(members)
    says = np.where(knows, y[:, None], labels if abstains else codes)
    return y, np.eye(labels + 1)[says]


@pytest.mark.parametrize(("labels", "each"), [(6, 1), (6, 2), (6, 3), (8, 2), (8, 4), (10, 5), (6, 6)])
def test_a_perfect_abstainer_restores_all_information_about_the_label(labels, each):
    y, outputs = ideal_ensemble(labels, each, abstains=True)
    for k in (1, 3):
        answers = open_vote(outputs, k).probabilities.argmax(axis=1)
        assert mutual_info_score(y, answers) == pytest.approx(np.log(labels))
    assert (vote_curve(outputs) == y[:, None]).all()


@pytest.mark.parametrize(("labels", "each"), [(6, 1), (6, 2), (6, 3), (8, 2), (8, 4), (10, 5), (6, 6)])
def test_without_abstention_the_vote_has_no_more_information_than_one_member(labels, each):
    y, outputs = ideal_ensemble(labels, each, abstains=False)
    answers = open_vote(outputs, 1).probabilities.argmax(axis=1)  # all know as much, so the first answers
    assert mutual_info_score(y, answers) == pytest.approx(each / labels * np.log(each), abs=1e-12)


def test_all_members_outputs_together_know_more_than_the_proposition_says():
    """The paper says (M/N) log M of the ensemble, but shows it of a member drawn by lot. Whoever sees all outputs at
    once is left with one candidate a member: log N - log(N / M) = log M."""
    y, outputs = ideal_ensemble(8, 2, abstains=False)
    joint = np.unique(outputs.argmax(axis=2), axis=0, return_inverse=True)[1]
    assert mutual_info_score(y, joint) == pytest.approx(np.log(2))
