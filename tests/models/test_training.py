"""The one training loop: what it promises to every method that uses it."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_rows import wine
from torch import nn

from peerwise.errors import ModelError
from peerwise.models.training import class_weights, cross_entropy, train


def _wine_tensors():
    rows = wine()
    X = torch.from_numpy((rows.X - rows.X.mean(0)) / rows.X.std(0))
    return X, torch.from_numpy(rows.y)


def _net(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def _weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_training_learns_and_records_every_epoch():
    X, y = _wine_tensors()
    net = _net()
    record = train(net, (X, y), epochs=40, lr=1e-2)
    assert (net(X).argmax(1) == y).float().mean() > 0.95
    assert record.epochs == len(record.losses) == 40
    assert record.best_epoch == 40
    assert record.losses[-1] < record.losses[0] / 3
    assert not net.training


def test_same_seed_gives_the_same_weights_and_another_seed_others():
    X, y = _wine_tensors()
    nets = [_net() for _ in range(3)]
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        train(net, (X, y), epochs=3, seed=seed)
    assert torch.equal(_weights(nets[0]), _weights(nets[1]))
    assert not torch.equal(_weights(nets[0]), _weights(nets[2]))


def test_it_takes_the_very_steps_of_a_plainly_written_loop():
    X, y = _wine_tensors()
    ours, plain = _net(), _net()
    train(ours, (X, y), epochs=3, lr=1e-2, batch_size=50, patience=None, seed=5)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-2, fused=True)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        for _ in range(3):
            for rows in torch.randperm(len(X)).split(50):
                optimizer.zero_grad()
                nn.functional.cross_entropy(plain(X[rows]), y[rows]).backward()
                optimizer.step()
    assert torch.equal(_weights(ours), _weights(plain))


def test_inputs_and_labels_of_a_row_stay_together():
    rows = torch.arange(70)

    def update(batch):
        first, second, label = batch
        assert torch.equal(second[:, 0, 1], 3.0 * first)
        assert torch.equal(label, first + 1)
        return 0.0

    series = (3.0 * rows)[:, None, None].expand(-1, 2, 2)
    train(nn.Linear(1, 1), (rows, series, rows + 1), update=update, epochs=2, batch_size=32)


def test_the_callers_random_state_is_untouched():
    X, y = _wine_tensors()
    before = torch.get_rng_state()
    train(_net(), (X, y), epochs=2, seed=7)
    assert torch.equal(before, torch.get_rng_state())


def test_update_replaces_the_step():
    X, y = _wine_tensors()
    net, sizes = _net(), []
    start = _weights(net)

    def update(batch):
        sizes.append(len(batch[-1]))
        return 1.0

    record = train(net, (X, y), update=update, epochs=2, batch_size=50)
    assert sizes == [50, 50, 50, 28] * 2
    assert torch.equal(_weights(net), start)
    assert record.losses == [1.0, 1.0]


def test_extra_loss_adds_to_the_loss():
    X, y = _wine_tensors()
    plain, pulled = _net(), _net()
    first = train(plain, (X, y), epochs=1, seed=3, lr=0.0)
    second = train(pulled, (X, y), epochs=1, seed=3, lr=0.0, extra_loss=lambda net, batch: torch.tensor(2.5))
    assert second.losses[0] == pytest.approx(first.losses[0] + 2.5, abs=1e-5)
    train(plain, (X, y), epochs=20, lr=1e-2)
    train(
        pulled,
        (X, y),
        epochs=20,
        lr=1e-2,
        extra_loss=lambda net, batch: sum(p.square().sum() for p in net.parameters()),
    )
    assert _weights(pulled).norm() < 0.5 * _weights(plain).norm()


def test_early_stopping_stops_and_restores_the_best_weights():
    X, y = _wine_tensors()
    net, states = _net(), []
    scores = iter([0.9, 0.5, 0.7, 0.6, 0.8, 0.1])

    def validate():
        assert not net.training
        states.append(copy.deepcopy(net.state_dict()))
        return next(scores)

    record = train(net, (X, y), validate=validate, patience=3, epochs=50)
    assert record.epochs == 5
    assert record.best_epoch == 2
    assert all(torch.equal(net.state_dict()[name], states[1][name]) for name in states[1])
    assert not torch.equal(net.state_dict()["0.weight"], states[-1]["0.weight"])


def test_an_improvement_below_min_delta_does_not_count():
    X, y = _wine_tensors()
    scores = iter([0.5, 0.49995, 0.49994, 0.49993])
    record = train(_net(), (X, y), validate=lambda: next(scores), patience=3, epochs=50)
    assert record.best_epoch == 1
    assert record.epochs == 4


def test_warm_up_raises_and_staleness_halves_the_learning_rate():
    X, y = _wine_tensors()
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    rates = []
    train(
        net,
        (X, y),
        optimizer=optimizer,
        validate=lambda: rates.append(optimizer.param_groups[0]["lr"]) or 1.0,
        warmup=4,
        halve_after=5,
        patience=None,
        epochs=8,
    )
    assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.05, 0.05])


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 70), batch=st.integers(1, 40))
def test_every_row_is_seen_once_an_epoch_and_never_alone_at_the_end(rows, batch):
    seen = []

    def update(parts):
        seen.append(parts[0].tolist())
        return 0.0

    train(nn.Linear(1, 1), (torch.arange(rows), torch.zeros(rows)), update=update, epochs=1, batch_size=batch)
    assert sorted(row for rows_of_batch in seen for row in rows_of_batch) == list(range(rows))
    assert batch == 1 or rows == 1 or min(map(len, seen)) > 1


def test_a_batchnorm_net_survives_a_lonely_last_row():
    X, y = _wine_tensors()
    net = nn.Sequential(nn.Linear(13, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    assert np.isfinite(train(net, (X[:33], y[:33]), epochs=2, batch_size=32).losses).all()


def test_nan_loss_is_refused():
    X, y = _wine_tensors()
    X = X.clone()
    X[3, 2] = torch.nan
    with pytest.raises(ModelError, match=r"loss became nan.*Lower the learning rate"):
        train(_net(), (X, y), epochs=1)


def test_nan_validation_score_is_refused_with_its_epoch():
    X, y = _wine_tensors()
    with pytest.raises(ModelError, match="score became nan in epoch 1"):
        train(_net(), (X, y), epochs=1, validate=lambda: float("nan"))


def test_no_rows_are_refused():
    X, y = _wine_tensors()
    with pytest.raises(ModelError, match="no rows to train on"):
        train(_net(), (X[:0], y[:0]), epochs=1)


def test_class_weights_follow_the_formula_and_absent_classes_stay_finite():
    y = np.array([0, 0, 0, 1], dtype=np.int64)
    assert class_weights(y, 3).tolist() == pytest.approx([4 / 9, 4 / 3, 4 / 3])


def test_class_weights_lift_the_rare_class():
    X, y = _wine_tensors()
    few = torch.cat([torch.where(y == 0)[0], torch.where(y == 1)[0][:4]])
    recalls = []
    for weights in (None, class_weights(y[few].numpy(), 3)):
        net = _net()
        train(net, (X[few], y[few]), loss=cross_entropy(weights), epochs=15, lr=3e-3)
        recalls.append((net(X[y == 1]).argmax(1) == 1).float().mean().item())
    assert recalls[1] > recalls[0]
