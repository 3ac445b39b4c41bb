"""Meta-labels, gains, log-loss, the models linked to a row, and the models' own features."""

from __future__ import annotations

import numpy as np
import pytest
import space_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.space.competence import (
    Competence,
    classifier_features,
    local_competence,
    meta_labels,
    top_models,
    true_class_probability,
)
from peerwise.space.neighbours import Neighbourhood, neighbourhood

seeds = st.integers(0, 2**31)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_gain_accuracy_and_log_loss_are_the_weighted_sums(seed):
    rng = np.random.default_rng(seed)
    n, models, classes = int(rng.integers(1, 25)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    logits, y = reference.random_logits(rng, n, models, classes), rng.integers(0, classes, n)
    probabilities = reference.softmax(logits).astype(np.float32)
    codes = np.unique(y, return_inverse=True)[1]
    flat = probabilities.reshape(n, -1)
    near = neighbourhood(flat, flat, codes, 3, leave_out_self=True)
    correct, true = meta_labels(logits, y), true_class_probability(probabilities, y)
    local = local_competence(near, correct, true)
    for j in range(n):
        for m in range(models):
            edges = [(i, w) for i, w in zip(near.index[j], near.weight[j], strict=True) if i >= 0]
            accuracy = sum(w * (logits[i, m].argmax() == y[i]) for i, w in edges)
            gain = sum(w * (correct[i, m] - correct[i].mean()) for i, w in edges)
            loss = -sum(w * np.log(max(probabilities[i, m, y[i]], 1e-8)) for i, w in edges)
            assert local.accuracy[j, m] == pytest.approx(accuracy, abs=1e-6)
            assert local.gain[j, m] == pytest.approx(gain, abs=1e-6)
            assert local.log_loss[j, m] == pytest.approx(loss, abs=1e-5)


def test_no_destinations_give_empty_competence():
    near = Neighbourhood(np.zeros((0, 4), np.int64), np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))
    local = local_competence(near, np.ones((5, 3), bool), np.ones((5, 3), np.float32))
    chosen, weight = top_models(local, 2)
    assert local.gain.shape == (0, 3)
    assert chosen.shape == weight.shape == (0, 2)


def _local(gain, loss):
    gain = np.array([gain], float)
    return Competence(gain, gain, np.array([loss], float))


def test_the_models_with_the_highest_gain_are_kept():
    chosen, weight = top_models(_local([0.1, -0.3, 0.5, 0.3], [0, 0, 0, 0]), 3)
    assert chosen.tolist() == [[2, 3, 0]]
    assert weight[0] == pytest.approx([1.0, 0.75, 0.5], abs=1e-6)


def test_equal_gains_are_ordered_by_log_loss_then_by_number():
    assert top_models(_local([0.2, 0.2, 0.2, 0.2], [0.5, 0.1, 0.9, 0.1]), 3)[0].tolist() == [[1, 3, 0]]


def test_rounding_noise_in_the_gain_is_still_a_tie():
    assert top_models(_local([0.3, 0.1 + 0.2], [0.1, 0.9]), 1)[0].tolist() == [[0]]
    assert top_models(_local([0.1 + 0.2, 0.3], [0.9, 0.1]), 1)[0].tolist() == [[1]]


def test_more_models_wanted_than_there_are_gives_all():
    assert top_models(_local([0.1, 0.2], [0, 0]), 9)[0].tolist() == [[1, 0]]


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_edge_weights_are_min_max_over_all_models(seed):
    rng = np.random.default_rng(seed)
    gain = rng.integers(-3, 4, (6, 5)) / 4
    local = Competence(gain, gain, rng.random((6, 5)))
    chosen, weight = top_models(local, 3)
    for j in range(6):
        low, high = gain[j].min(), gain[j].max()
        order = sorted(range(5), key=lambda m: (-gain[j, m], local.log_loss[j, m], m))[:3]
        expected = [(gain[j, m] - low) / (high - low + 1e-8) if high > low else 1.0 for m in order]
        assert chosen[j].tolist() == order
        assert weight[j] == pytest.approx(expected, abs=1e-6)


def test_features_of_a_model_are_recall_error_confidence_accuracy_and_balance():
    y = np.array([0, 0, 0, 2])
    probabilities = np.array([[[0.8, 0.1, 0.1]], [[0.6, 0.3, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6]]], np.float32)
    correct = meta_labels(np.log(probabilities), y)
    recall = 2 / 3
    expected = [
        recall,
        1.0,
        np.sqrt(recall * (1 - recall) / 3),
        0.0,
        (0.8 + 0.6 + 0.1) / 3,
        0.6,
        0.75,
        (recall + 1) / 2,
    ]
    assert classifier_features(probabilities, correct, y)[0] == pytest.approx(expected, abs=1e-6)


def test_a_row_no_model_answers_rightly_stays_all_zero():
    logits = np.zeros((1, 3, 2), np.float32)
    logits[:, :, 0] = 1
    assert not meta_labels(logits, np.array([1])).any()


def test_min_positives_declares_the_most_confident_models_right():
    logits = np.zeros((3, 3, 2), np.float32)
    logits[0, :, 0] = [3, 1, 2]  # true class 1: nobody is right, model 1 is least wrong
    logits[1, :, 0] = [-1, 3, 1]  # model 0 is right, model 2 comes next
    logits[2, :, 0] = [-1, -1, 3]  # two are right already
    forced = meta_labels(logits, np.array([1, 1, 1]), min_positives=2)
    assert forced.tolist() == [[False, True, True], [True, False, True], [True, True, False]]
    assert meta_labels(logits, np.array([1, 1, 1]), min_positives=9).all()
