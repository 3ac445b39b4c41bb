"""Saying things about public rows privately: the noise, what it costs, and training with it."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, kstest

from peerwise.errors import ConfigError, ModelError
from peerwise.methods.public.accountant import (
    PrivateTraining,
    Release,
    gaussian_epsilon,
    gaussian_sigma,
    label_epsilon_for,
    release_guarantee,
    training_guarantee,
    training_noise_for,
)
from peerwise.methods.public.dp_training import noisy_mean_loss
from peerwise.methods.public.release import keep_probability, noisy_counts, noisy_expertise, randomised_response

DELTA = 1e-5


def _published_epsilon(mu, delta):
    """The paper's c sqrt(|U|) sqrt(2 ln(1.25 / delta)) / sigma, mu = c sqrt(|U|) / sigma."""
    return mu * math.sqrt(2 * math.log(1.25 / delta))


def _spent(release, delta=DELTA):
    return release_guarantee(release, delta).epsilon


# What is released


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_randomised_response_keeps_as_often_as_it_says_and_takes_the_others_alike(classes):
    released = randomised_response(np.full(100_000, 1), classes, 1.5, np.random.default_rng(0))
    keep = math.exp(1.5) / (math.exp(1.5) + classes - 1)
    expected = np.full(classes, (1 - keep) / (classes - 1))
    expected[1] = keep
    assert chisquare(np.bincount(released, minlength=classes), 100_000 * expected).pvalue > 1e-3


def test_randomised_response_of_one_class_or_with_a_huge_epsilon_changes_nothing():
    labels = np.array([0, 0, 0])
    assert randomised_response(labels, 1, 1.0, np.random.default_rng(0)).tolist() == [0, 0, 0]
    assert randomised_response([2, 0, 1], 3, 1e4, np.random.default_rng(0)).tolist() == [2, 0, 1]
    with pytest.raises(ConfigError, match="epsilon of a label is 0: expected above 0"):
        randomised_response(labels, 3, 0, np.random.default_rng(0))


def test_noisy_expertise_has_the_stated_noise_and_stays_in_its_range():
    noisy = noisy_expertise(np.full(20_000, 50.0), 2.0, 100.0, np.random.default_rng(1))
    assert kstest((noisy - 50) / 2, "norm").pvalue > 1e-3
    wild = noisy_expertise(np.linspace(0, 1, 1000), 30.0, 1.0, np.random.default_rng(1))
    assert wild.min() == 1e-6
    assert wild.max() == 1.0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.floats(0, 100), st.integers(0, 2**32))
def test_noisy_counts_are_never_negative_and_never_all_zero(counts, sigma, seed):
    noisy = noisy_counts(counts, sigma, np.random.default_rng(seed))
    assert noisy.min() >= 0
    assert noisy.max() > 0
    if sigma == 0 and any(counts):
        assert noisy.tolist() == counts


def test_noisy_counts_have_the_stated_noise():
    noisy = noisy_counts(np.full(20_000, 1000), 5.0, np.random.default_rng(2))
    assert kstest((noisy - 1000) / 5, "norm").pvalue > 1e-3


def test_the_noisy_mean_loss_is_of_clipped_losses_with_the_stated_noise():
    losses = [0.5, 2.0, 9.0, 0.5]
    assert noisy_mean_loss(losses, 3.0, 0.0, np.random.default_rng(0)) == pytest.approx(6.0 / 4)
    rng = np.random.default_rng(0)
    drawn = np.array([noisy_mean_loss(np.full(100, 2.0), 3.0, 1.5, rng) for _ in range(5000)])
    assert kstest((drawn - 2.0) / (1.5 * 3.0 / 100), "norm").pvalue > 1e-3
    assert noisy_mean_loss([0.0], 1.0, 1e6, np.random.default_rng(0)) >= 0
    with pytest.raises(ModelError, match="expected at least one, all finite"):
        noisy_mean_loss([1.0, math.nan], 3.0, 1.0, rng)


# What it costs


def test_one_label_costs_the_epsilon_of_randomised_response():
    assert _spent(Release(1, 10, 1, label_epsilon=0.7), 1e-12) == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize("label_epsilon", [0.001, 0.02, 0.3])
def test_two_classes_over_all_rounds_cost_what_the_binomial_says(label_epsilon):
    """The loss of n binary labels is eps (2 k - n), k kept of n: delta(eps) summed by scipy."""
    labels, keep = 3000 * 20, keep_probability(2, label_epsilon)
    kept = np.arange(labels + 1)
    losses, chances = label_epsilon * (2 * kept - labels), binom.pmf(kept, labels, keep)
    spent = _spent(Release(3000, 2, 20, label_epsilon))
    delta = float(chances @ -np.expm1(np.minimum(spent - losses, 0)))
    assert delta == pytest.approx(DELTA, rel=1e-4)


@pytest.mark.parametrize("classes", [3, 4])
def test_a_few_labels_cost_what_all_answers_written_down_cost(classes):
    """Hockey-stick divergence over every answer of two sites that differ in all labels."""
    release, delta = Release(2, classes, 2, label_epsilon=0.9), 0.01
    keep = keep_probability(classes, 0.9)
    other = (1 - keep) / (classes - 1)

    def chance(answer, true):
        return math.prod(keep if said == true else other for said in answer)

    spent = _spent(release, delta)
    answers = itertools.product(range(classes), repeat=4)
    lost = sum(max(0.0, chance(a, 0) - math.exp(spent) * chance(a, 1)) for a in answers)
    assert lost == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(("sigma", "label_epsilon"), [(None, 0.01), (100.0, 0.01), (20.0, 0.2)])
def test_labels_and_expertise_together_cost_what_dp_accounting_composes(sigma, label_epsilon):
    from dp_accounting.pld import privacy_loss_distribution as distributions

    release = Release(50, 10, 4, label_epsilon, sigma, expertise_high=math.log(10))
    interval, keep = label_epsilon / 100, keep_probability(10, label_epsilon)
    other = (1 - keep) / 9
    lattice = {100: keep, 0: 8 * other, -100: other}
    composed = distributions.PrivacyLossDistribution.create_from_rounded_probability(lattice, 0.0, interval)
    composed = composed.self_compose(200)
    if sigma is not None:
        scores = distributions.from_gaussian_mechanism(
            sigma, sensitivity=math.log(10) * math.sqrt(50), value_discretization_interval=interval
        )
        composed = composed.compose(scores.self_compose(4))
    assert _spent(release) == pytest.approx(composed.get_epsilon_for_delta(DELTA), rel=1e-4)


def test_dp_accountings_own_randomised_response_agrees_up_to_its_rounding():
    from dp_accounting.pld import privacy_loss_distribution as distributions

    noise = 10 / (math.exp(0.5) + 9)
    once = distributions.from_randomized_response(noise, 10, value_discretization_interval=1e-5)
    assert _spent(Release(5, 10, 2, 0.5)) == pytest.approx(once.self_compose(10).get_epsilon_for_delta(DELTA), abs=2e-4)


def test_the_unit_of_what_is_said_is_the_site():
    whole = release_guarantee(Release(100, 5, 3, 0.1, 5.0), DELTA)
    assert whole.unit == "site (all of its rows)"
    assert set(whole.as_dict()) == {"epsilon", "delta", "unit", "rounds", "mechanism", "accountant"}
    assert whole.as_dict()["rounds"] == 3


def test_every_further_round_costs_more():
    spent = [_spent(Release(200, 10, rounds, 0.02, 50.0)) for rounds in (1, 2, 5, 20)]
    assert spent == sorted(spent)
    assert spent[0] < spent[-1] / 3


def test_counts_of_one_record_more_or_less_need_sigma_3_7_at_epsilon_1():
    assert gaussian_sigma(1.0, DELTA, 1.0) == pytest.approx(3.7306, abs=1e-4)
    assert gaussian_sigma(1.0, DELTA, math.sqrt(2)) == pytest.approx(5.3, abs=0.03)  # a record replaced
    assert gaussian_epsilon(1 / gaussian_sigma(3.0, DELTA, 1.0, times=4) * 2, DELTA) == pytest.approx(3.0)


def test_the_published_epsilon_is_too_small_above_8_4():
    """With few rounds and public rows the textbook bound holds; where it is large it promises far too much."""
    for published in (0.5, 1.0, 4.0, 8.3):
        assert gaussian_epsilon(published / _published_epsilon(1.0, DELTA), DELTA) < published
    for published, factor in ((8.5, 1.0), (48.0, 1.9), (1114.0, 25.0)):
        exact = gaussian_epsilon(published / _published_epsilon(1.0, DELTA), DELTA)
        assert exact > published
        assert exact / published == pytest.approx(factor, rel=0.02)


HISTORIES = [
    PrivateTraining(1.0, 0.01, 2000, 20),
    PrivateTraining(2.0, 0.32, 400, 20, counts_sigma=10.0, loss_sigma=8.0),
    PrivateTraining(6.0, 0.02, 5000, 5, loss_sigma=20.0),
]


@pytest.mark.parametrize("training", HISTORIES)
def test_private_training_costs_what_opacus_prv_accountant_says(training):
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(training.noise, training.sample_rate, training.steps)]
    if training.counts_sigma is not None:
        accountant.history.append((training.counts_sigma, 1.0, 1))
    if training.loss_sigma is not None:
        accountant.history.append((training.loss_sigma, 1.0, training.rounds))
    upper = accountant.get_epsilon(DELTA, eps_error=0.01)
    guarantee = training_guarantee(training, DELTA)
    assert upper - 0.025 <= guarantee.epsilon <= upper + 0.005
    assert guarantee.unit.startswith("record")


def test_steps_on_all_rows_are_one_gaussian_release():
    spent = training_guarantee(PrivateTraining(10.0, 1.0, 25, 5, counts_sigma=4.0), DELTA).epsilon
    assert spent == pytest.approx(gaussian_epsilon(math.hypot(0.5, 0.25), DELTA))


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_noise_found_spends_the_wanted_epsilon_and_no_more(epsilon):
    sigma = gaussian_sigma(epsilon / 2, DELTA, math.sqrt(3000), times=20)
    for release in (Release(3000, 10, 20, 1.0), Release(3000, 10, 20, 1.0, sigma)):
        found = label_epsilon_for(epsilon, DELTA, release)
        spent = _spent(Release(3000, 10, 20, found, release.expertise_sigma))
        assert 0.998 * epsilon <= spent <= epsilon
    training = PrivateTraining(1.0, 0.1, 300, 20, counts_sigma=20.0, loss_sigma=60.0)
    noise = training_noise_for(epsilon, DELTA, training)
    spent = training_guarantee(PrivateTraining(noise, 0.1, 300, 20, 20.0, 60.0), DELTA).epsilon
    assert 0.998 * epsilon <= spent <= epsilon


def test_an_epsilon_that_is_spent_already_is_refused_with_what_to_raise():
    with pytest.raises(
        ConfigError, match=r"epsilon 1 at delta 1e-05 is wanted, but .* raise counts_sigma or loss_sigma"
    ):
        training_noise_for(1.0, DELTA, PrivateTraining(1.0, 0.1, 100, 5, counts_sigma=1.0))
    with pytest.raises(ConfigError, match="raise expertise_sigma"):
        label_epsilon_for(1.0, DELTA, Release(100, 10, 5, 1.0, 1.0))


def test_settings_without_meaning_are_refused():
    with pytest.raises(ConfigError, match=r"epsilon 1.0 and delta 1e-13: .* delta from 1e-12 to 1"):
        gaussian_sigma(1.0, 1e-13, 1.0)
    with pytest.raises(ConfigError, match="standard deviation 0: expected above 0"):
        _spent(Release(10, 3, 1, 1.0, 0))
    with pytest.raises(ConfigError, match="1 classes: expected at least 2"):
        _spent(Release(10, 1, 1, 1.0))
    with pytest.raises(ConfigError, match=r"sample rate 1\.5 and 10 steps"):
        training_guarantee(PrivateTraining(1.0, 1.5, 10, 1), DELTA)


def test_without_the_extra_the_error_names_it():
    code = """
import sys
sys.modules.update(dp_accounting=None, opacus=None)
import torch
from peerwise.errors import ConfigError
from peerwise.methods.public.accountant import gaussian_sigma
from peerwise.methods.public.dp_training import check_trainable
for needed, ask in (
    ("dp_accounting", lambda: gaussian_sigma(1.0, 1e-5, 1.0)),
    ("opacus", lambda: check_trainable(torch.nn.Linear(1, 1))),
):
    try:
        ask()
    except ConfigError as error:
        assert "peerwise[privacy]" in str(error) and needed in str(error), error
    else:
        raise SystemExit("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
