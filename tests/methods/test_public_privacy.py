"""Saying things about public rows privately: the noise, what it costs, and training with it."""

import copy
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, kstest
from torch import nn

from peerwise.data.rows import Sequences
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
from peerwise.methods.public.dp_training import noisy_mean_loss, private_step
from peerwise.methods.public.release import keep_probability, noisy_counts, noisy_expertise, randomised_response
from peerwise.models.adam import Adam
from peerwise.models.nets import new_net
from peerwise.models.sgd import SGD
from peerwise.models.training import poisson_plan, train

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


# Training with it


def _net(recipe="cnn8", seed=0):
    """A net of the zoo, and a batch for it."""
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(7, 5)).astype(np.float32)
    X = {"mlp": flat, "tcn": Sequences(flat, rng.normal(size=(7, 6, 3)).astype(np.float32))}.get(
        recipe, rng.integers(0, 255, (7, 1, 28, 28)).astype(np.uint8)
    )
    parts = (X.static, X.series) if isinstance(X, Sequences) else (X,)
    labels = torch.from_numpy(rng.integers(0, 3, 7))
    return new_net(recipe, X, (), 3, seed=seed), (*(torch.from_numpy(part) for part in parts), labels)


def _flat(net):
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def _stepped(net, *batches, public_loss=None, lr=0.1, **settings):
    """The net after private steps on these batches."""
    changed = copy.deepcopy(net)
    given = {"clip": 1.0, "noise": 0.0, "expected_batch": 7, "seed": 0, **settings}
    loss = None if public_loss is None else lambda: public_loss(changed)
    with private_step(changed, SGD(changed.parameters(), lr), public_loss=loss, **given) as step:
        for batch in batches:
            step(batch)
    return changed


def _gradient(net, batch):
    """Of the mean loss, by autograd alone."""
    plain = copy.deepcopy(net).train()
    nn.functional.cross_entropy(plain(*batch[:-1]), batch[-1]).backward()
    return torch.cat([parameter.grad.flatten() for parameter in plain.parameters()])


@pytest.mark.parametrize("recipe", ["cnn8", "small_cnn", "alexnet", "mlp", "tcn"])
def test_without_noise_and_clipping_a_private_step_is_a_plain_step(recipe):
    net, batch = _net(recipe)
    for layer in net.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    changed = _stepped(net, batch, clip=1e6)
    assert torch.allclose(_flat(changed), _flat(net) - 0.1 * _gradient(net, batch), atol=1e-6)


def test_a_private_adam_step_is_a_plain_one_too():
    """Images with channels last and a fused optimiser: memory order must not matter."""
    net, batch = _net("cnn8")
    changed, plain = copy.deepcopy(net), copy.deepcopy(net).train()
    with private_step(changed, Adam(changed.parameters(), 1e-3), clip=1e6, noise=0, expected_batch=7, seed=0) as step:
        step(batch)
    optimizer = torch.optim.Adam(plain.parameters(), 1e-3)
    nn.functional.cross_entropy(plain(*batch[:-1]), batch[-1]).backward()
    optimizer.step()
    large = _gradient(net, batch).abs() > 1e-4  # Adam's first step is lr times the gradient's sign
    assert large.float().mean() > 0.3
    assert torch.allclose(_flat(changed)[large], _flat(plain)[large], atol=1e-6)


def test_each_row_is_clipped_by_itself():
    net, batch = _net("cnn8")
    rows = [_gradient(net, tuple(tensor[row : row + 1] for tensor in batch)) for row in range(7)]
    clip = float(torch.stack([row.norm() for row in rows]).median())
    clipped = [row * min(1.0, clip / float(row.norm())) for row in rows]
    changed = _stepped(net, batch, clip=clip, expected_batch=20)
    assert torch.allclose(_flat(changed), _flat(net) - 0.1 * sum(clipped) / 20, atol=1e-6)


def test_a_step_of_a_net_with_two_parameters_is_as_worked_out_by_hand():
    """logits = (a x, b x): the gradient of a row is (p - onehot) x, of norm sqrt(2) (1 - p_y) |x|."""
    net = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(net.weight)  # p = (1/2, 1/2)
    x, y = torch.tensor([[1.0], [-4.0], [0.2]]), torch.tensor([0, 1, 1])
    # rows: (-.5, .5), (-2, 2) and (.1, -.1); clip 1/sqrt(2) leaves the first and last, shrinks the second to (-.5, .5)
    changed = _stepped(net, (x, y), clip=math.sqrt(0.5), expected_batch=3, lr=1.0)
    assert changed.weight.flatten().tolist() == pytest.approx([0.9 / 3, -0.9 / 3], abs=1e-5)


def test_an_empty_batch_is_a_step_of_pure_noise_of_the_stated_size():
    net = nn.Linear(200, 50)
    empty = (torch.zeros(0, 200), torch.zeros(0, dtype=torch.int64))
    changed = _stepped(net, empty, clip=2.0, noise=3.0, expected_batch=16, lr=1.0)
    noise = (_flat(net) - _flat(changed)).numpy() / (3.0 * 2.0 / 16)
    assert kstest(noise, "norm").pvalue > 1e-3


def test_the_same_seed_gives_the_same_noise_and_another_seed_another():
    net, batch = _net("mlp")
    for layer in net.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    same = [_flat(_stepped(net, batch, batch, noise=1.0, seed=seed)) for seed in (4, 4, 5)]
    assert torch.equal(same[0], same[1])
    assert not torch.equal(same[0], same[2])


def test_the_public_gradient_is_neither_clipped_nor_part_of_the_rows():
    net, batch = _net("cnn8")
    public = _net("cnn8", seed=1)[1]

    def public_loss(changed):
        return 5.0 * nn.functional.cross_entropy(changed(*public[:-1]), public[-1])

    alone = _stepped(net, batch, clip=1e-3, noise=0.5)
    both = _stepped(net, batch, clip=1e-3, noise=0.5, public_loss=public_loss)
    assert torch.allclose(_flat(both), _flat(alone) - 0.1 * 5.0 * _gradient(net, public), atol=1e-5)
    assert not torch.allclose(_flat(both), _flat(alone), atol=1e-3)


def test_afterwards_the_net_is_as_any_other():
    net, batch = _net("cnn8")
    changed = _stepped(net, batch)
    assert changed.state_dict().keys() == net.state_dict().keys()
    assert not any(vars(parameter) for parameter in changed.parameters())
    again = _stepped(changed, batch, clip=1e6)
    assert torch.allclose(_flat(again), _flat(changed) - 0.1 * _gradient(changed, batch), atol=1e-6)


def test_a_failing_step_leaves_no_hooks_behind():
    net, batch = _net("cnn8")
    with (
        pytest.raises(IndexError),
        private_step(net, SGD(net.parameters(), 0.1), clip=1.0, noise=1.0, expected_batch=7, seed=0) as step,
    ):
        step((batch[0], batch[1] + 100))
    assert not any(vars(parameter) for parameter in net.parameters())
    assert not any(layer._forward_hooks for layer in net.modules())


@pytest.mark.parametrize(
    ("net", "layer"),
    [
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), r"1 \(BatchNorm1d\)"),
        (nn.Sequential(nn.LSTM(3, 4)), r"0 \(LSTM\)"),
        (_net("vit")[0], r"backbone.body \(VisionTransformer\)"),
        (_net("resnet18")[0], r"\(BatchNorm2d\) and 17 more"),
    ],
)
def test_nets_that_mix_rows_are_refused_with_the_layer_and_a_remedy(net, layer):
    with (
        pytest.raises(ModelError, match=rf"{layer} cannot be trained with DP-SGD.*Use a net without"),
        private_step(net, SGD(net.parameters(), 0.1), clip=1.0, noise=1.0, expected_batch=7, seed=0),
    ):
        pass


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 1000))
def test_poisson_batches_come_as_often_as_planned(rows, batch_size, seed):
    seen = []
    net = nn.Linear(1, 2)
    tensors = (torch.arange(rows).float()[:, None], torch.zeros(rows, dtype=torch.int64))
    train(
        net,
        tensors,
        update=lambda batch: seen.append(batch[0]) or 0.0,
        epochs=2,
        batch_size=batch_size,
        seed=seed,
        poisson=True,
    )
    rate, steps = poisson_plan(rows, batch_size)
    assert len(seen) == 2 * steps
    assert all(len(batch.unique()) == len(batch) for batch in seen)
    if rate == 1:
        assert all(len(batch) == rows for batch in seen)


def test_each_row_is_drawn_by_itself_at_the_sample_rate():
    sizes, drawn = [], torch.zeros(50)

    def update(batch):
        sizes.append(len(batch[0]))
        drawn[batch[0].flatten().long()] += 1
        return 0.0

    tensors = (torch.arange(50.0)[:, None], torch.zeros(50, dtype=torch.int64))
    train(nn.Linear(1, 2), tensors, update=update, epochs=400, patience=None, batch_size=2, poisson=True)
    assert len(sizes) == 400 * 25
    assert np.isclose(drawn.mean() / len(sizes), 2 / 50, rtol=0.02)
    expected = len(sizes) * binom.pmf(np.arange(7), 50, 2 / 50)
    observed = np.bincount(np.minimum(sizes, 7), minlength=8)
    assert chisquare(observed, [*expected, len(sizes) - expected.sum()]).pvalue > 1e-3
    assert observed[0] > 0  # empty batches are passed on


def test_private_training_learns_in_the_one_loop():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    X = torch.from_numpy((np.eye(3)[labels] * 3 + rng.normal(size=(600, 3))).astype(np.float32))
    tensors = (X, torch.from_numpy(labels))

    def trained(noise, seed):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))
        optimizer = SGD(net.parameters(), 0.5)
        with private_step(net, optimizer, clip=1.0, noise=noise, expected_batch=64, seed=seed) as step:
            train(net, tensors, update=step, optimizer=optimizer, epochs=8, batch_size=64, seed=seed, poisson=True)
        return net, float((net(X).argmax(1) == tensors[1]).float().mean())

    assert trained(1.0, 0)[1] > 0.85
    assert torch.equal(_flat(trained(1.0, 3)[0]), _flat(trained(1.0, 3)[0]))
    assert trained(300.0, 0)[1] < 0.8
