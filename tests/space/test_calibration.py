"""Temperature scaling mixed with the uniform distribution."""

from __future__ import annotations

import numpy as np
import pytest
import space_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from peerwise.space.calibration import calibrate, fit_temperatures


def cross_entropy(log_beta, logits, y):
    p = reference.softmax(np.exp(log_beta) * logits.astype(np.float64))
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.05, 20))
def test_temperatures_minimise_the_cross_entropy(seed, scale):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, 80)
    logits = reference.random_logits(rng, 80, 2, 4) * scale
    logits[np.arange(80), :, y] += (rng.random((80, 2)) * 3 * scale).astype(np.float32)
    for m, beta in enumerate(fit_temperatures(logits, y)):
        best = minimize_scalar(cross_entropy, (-8, 4), args=(logits[:, m], y), bounds=(-16, 16), method="bounded")
        assert cross_entropy(np.log(beta), logits[:, m], y) <= best.fun + 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_calibration_never_changes_the_answer(seed):
    rng = np.random.default_rng(seed)
    logits, y = reference.random_logits(rng, 30, 3, 4), rng.integers(0, 4, 30)
    beta = np.clip(fit_temperatures(logits, y), 1e-3, 1e3)
    calibrated = calibrate(logits, beta, 30)
    order = np.argsort(logits, axis=2)
    answers_differ = calibrated.argmax(axis=2) != logits.argmax(axis=2)
    # Equal in float32 is allowed: two classes so sure that they cannot be told apart.
    top, second = (np.take_along_axis(calibrated, order[..., [-i]], 2)[..., 0] for i in (1, 2))
    assert (top[answers_differ] == second[answers_differ]).all()
    np.testing.assert_allclose(calibrated.sum(axis=2), 1, atol=1e-5)


def test_calibration_is_the_mix_with_the_uniform_distribution():
    logits = reference.random_logits(np.random.default_rng(0), 6, 2, 3)
    expected = 0.9 * reference.softmax(np.array([0.5, 2.0])[:, None] * logits) + 0.1 / 3
    np.testing.assert_allclose(calibrate(logits, np.array([0.5, 2.0]), 9), expected, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_rows_of_one_class_stay_finite(rows):
    logits = reference.random_logits(np.random.default_rng(0), rows, 2, 3)
    logits[:, :, 1] += 20
    beta = fit_temperatures(logits, np.ones(rows, np.int64))
    calibrated = calibrate(logits, beta, rows)
    assert np.isfinite(beta).all()
    assert (calibrated > 0).all()
    assert np.isfinite(np.log(calibrated)).all()


def test_a_model_that_is_always_wrong_becomes_uniform():
    logits = np.tile(np.array([5.0, 0.0], np.float32), (20, 1, 1))
    beta = fit_temperatures(logits, np.ones(20, np.int64))
    np.testing.assert_allclose(calibrate(logits, beta, 20), 0.5, atol=1e-5)


def test_huge_logits_do_not_overflow():
    logits = (reference.random_logits(np.random.default_rng(0), 20, 2, 3) * 1e8).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 3, 20)
    assert np.isfinite(calibrate(logits, fit_temperatures(logits, y), 20)).all()
