"""DP-SGD as a step of the one loop: clipping, noise, empty batches, the public gradient."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, kstest
from torch import nn

from peerwise.data.rows import Sequences
from peerwise.errors import ModelError
from peerwise.methods.public.dp_training import private_step
from peerwise.models.adam import Adam
from peerwise.models.nets import new_net
from peerwise.models.sgd import SGD
from peerwise.models.training import poisson_plan, train


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
    given = {"clip": 1.0, "noise": 0.0, "expected_batch": 7, "chance": 0, **settings}
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
    with private_step(changed, Adam(changed.parameters(), 1e-3), clip=1e6, noise=0, expected_batch=7, chance=0) as step:
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
    same = [_flat(_stepped(net, batch, batch, noise=1.0, chance=seed)) for seed in (4, 4, 5)]
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
        private_step(net, SGD(net.parameters(), 0.1), clip=1.0, noise=1.0, expected_batch=7, chance=0) as step,
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
        private_step(net, SGD(net.parameters(), 0.1), clip=1.0, noise=1.0, expected_batch=7, chance=0),
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
        with private_step(net, optimizer, clip=1.0, noise=noise, expected_batch=64, chance=seed) as step:
            train(net, tensors, update=step, optimizer=optimizer, epochs=8, batch_size=64, seed=seed, poisson=True)
        return net, float((net(X).argmax(1) == tensors[1]).float().mean())

    assert trained(1.0, 0)[1] > 0.85
    assert torch.equal(_flat(trained(1.0, 3)[0]), _flat(trained(1.0, 3)[0]))
    assert trained(300.0, 0)[1] < 0.8
