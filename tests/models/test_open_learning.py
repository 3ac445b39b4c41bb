"""Open-set losses worked out by hand, the phases of a training, one batch for BatchNorm, and exact pruning."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from peerwise.models.nets import Net, net_weights, new_net
from peerwise.models.open_set.learning import OpenPlan, learn_open
from peerwise.models.open_set.losses import Attack, Terms, attacked, made_up, open_loss, to_unknown
from peerwise.models.open_set.outliers import Outliers, outliers_for
from peerwise.models.open_set.pruning import apply_masks, find_ticket, kept_count, largest, prunable

TABLE = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
LABELS = torch.arange(40) % 2


def _tiny() -> Net:
    """Two numbers in, the embedding is the numbers, three outputs of which the last is unknown."""
    net = Net(nn.Sequential(nn.Identity(), nn.Linear(2, 3)), None, 0)
    with torch.no_grad():
        net.head.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]))
        net.head.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
    return net


X, Y = torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]]), torch.tensor([0, 1, 0])
TURNED = Outliers(destroyed=lambda x: -x, smooth=lambda x: 2 * x + 1, unit=torch.tensor(10.0))


def _log_softmax(x: np.ndarray) -> np.ndarray:
    logits = x @ np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]).T + np.array([0.1, -0.2, 0.3])
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def test_known_and_each_kind_of_outliers_count_alike():
    x = X.numpy().astype(np.float64)
    known = -_log_softmax(x)[np.arange(3), Y.numpy()].mean()
    cruel, soft = (-_log_softmax(rows)[:, 2].mean() for rows in (-x, 2 * x + 1))
    net = _tiny()
    for terms, expected in [
        (Terms(destroyed=False), known),
        (Terms(), known + cruel),
        (Terms(smooth=True), known + cruel + soft),
        (Terms(destroyed=False, smooth=True), known + soft),
    ]:
        assert open_loss(net, (X, Y), terms, TURNED).item() == pytest.approx(expected, rel=1e-5)


def test_the_placeholders_ask_for_unknown_as_second_best_and_between_classes():
    net = _tiny()
    x = X.numpy().astype(np.float64)
    logits = _log_softmax(x)
    second = np.mean([-(row[2] - np.logaddexp(row[1 - y], row[2])) for row, y in zip(logits, Y.tolist(), strict=True)])
    without = open_loss(net, (X, Y), Terms(), TURNED).item()
    torch.manual_seed(3)
    found = open_loss(net, (X, Y), Terms(second_best=True, between=True), TURNED).item()
    torch.manual_seed(3)
    one = open_loss(net, (X, Y), Terms(between=True), TURNED).item()
    torch.manual_seed(3)
    order = torch.randperm(3)
    pairs = (Y[order] != Y).numpy()
    part = torch.rand(()).item()
    mixed = part * x[pairs] + (1 - part) * x[order.numpy()][pairs]
    assert pairs.any()
    between = -_log_softmax(mixed)[:, 2].mean()
    assert found == pytest.approx(without + second + 0.01 * between, rel=1e-4)
    assert one == pytest.approx(without + 0.01 * between, rel=1e-4)
    assert open_loss(net, (X, Y), Terms(second_best=True), TURNED).item() == pytest.approx(without + second, rel=1e-4)
    one_class = open_loss(net, (X, torch.zeros(3, dtype=torch.int64)), Terms(between=True), TURNED)
    assert torch.isfinite(one_class)


def test_an_attack_climbs_away_from_unknown_within_its_radius():
    net = _tiny()
    start = -X
    one = attacked(net, start, Attack(1, 0.02, 0.5), TURNED.unit)
    torch.testing.assert_close((one - start).abs(), torch.full((3, 2), 0.2))
    assert to_unknown(net(one)) > to_unknown(net(start))
    many = attacked(net, start, Attack(40, 0.02, 0.05), TURNED.unit)
    assert (many - start).abs().max().item() == pytest.approx(0.5)
    assert to_unknown(net(many)) > to_unknown(net(one))
    assert all(parameter.grad is None for parameter in net.parameters())


def test_an_attack_leaves_batch_statistics_and_training_mode_as_they_were():
    net = new_net("mobilenet_v2", np.zeros((2, 1, 28, 28), np.uint8), (), 3, seed=0).train()
    before = net_weights(net)
    attacked(net, torch.rand(2, 1, 28, 28) * 255, Attack(1, 0.02, 0.5), torch.tensor(255.0))
    assert net.training
    assert all(np.array_equal(value, before[name]) for name, value in net_weights(net).items())


def test_known_and_unknown_rows_meet_in_one_batch():
    """BatchNorm must see them together: one call of the backbone, over all of them."""
    net = new_net("mobilenet_v2", np.zeros((2, 1, 28, 28), np.uint8), (), 3, seed=0).train()
    sizes: list[int] = []
    net.backbone.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    images = torch.randint(0, 256, (6, 1, 28, 28), dtype=torch.uint8)
    outliers = outliers_for("image", images.numpy())
    open_loss(net, (images, torch.tensor([0, 1] * 3)), Terms(smooth=True, between=True), outliers)
    assert sizes == [18]


def test_attacked_rows_start_from_the_destroyed_ones():
    net = _tiny()
    made = made_up(net, X, Terms(attack=Attack(1, 0.0, 0.0), smooth=True), TURNED)
    assert [torch.equal(one, other) for one, other in zip(made, [-X, -X, 2 * X + 1], strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("epochs", "lengths"), [(10, [3, 4, 3]), (9, [3, 3, 3]), (3, [1, 1, 1]), (2, [1, 1]), (1, [1])]
)
def test_the_phases_follow_one_another(epochs, lengths):
    terms = Terms(attack=Attack(1, 0.02, 0.5), smooth=True)
    plan = OpenPlan(epochs, terms, phased=True)
    assert [length for length, _ in plan.phases()] == lengths
    assert sum(lengths) == epochs
    assert plan.phases()[-1][1] == terms  # however short
    assert OpenPlan(epochs, terms).phases() == [(epochs, terms)]


def test_attacks_come_after_a_third_and_smooth_outliers_after_two():
    terms = Terms(attack=Attack(1, 0.02, 0.5), smooth=True, between=True)
    first, second, third = (phase for _, phase in OpenPlan(9, terms, phased=True).phases())
    assert (first.destroyed, first.attack, first.smooth, first.between) == (True, None, False, True)
    assert (second.attack, second.smooth) == (terms.attack, False)
    assert third == terms


def _learned(plan: OpenPlan, seed: int = 0) -> Net:
    net = new_net("mlp", TABLE, (), 3, seed=1)
    learn_open(net, (torch.from_numpy(TABLE), LABELS), plan, outliers_for("table", TABLE), seed)
    return net


PLAN = OpenPlan(3, Terms(attack=Attack(1, 0.02, 0.5), smooth=True), phased=True, batch_size=16)


@pytest.mark.parametrize("compress", ["tickets", "magnitude"])
@pytest.mark.parametrize("sparsity", [0.5, 0.9, 0.99])
def test_exactly_the_promised_number_of_weights_is_left_after_training(compress, sparsity):
    net = _learned(replace(PLAN, compress=compress, sparsity=sparsity, prune_stages=2, prune_epochs=1))
    weights = prunable(net)
    total = sum(weight.numel() for weight in weights.values())
    kept = sum(int((weight != 0).sum()) for weight in weights.values())
    assert kept == round(total * (1 - sparsity))
    assert not any(bool((torch.signbit(weight) & (weight == 0)).any()) for weight in weights.values())
    assert (net.head.weight != 0).all()


def test_finishing_after_the_smallest_weights_are_left_out_does_not_begin_anew():
    plan = replace(PLAN, compress="magnitude", sparsity=0.5)
    before, after = (prunable(_learned(replace(plan, prune_epochs=epochs))) for epochs in (0, 1))
    steps = math.ceil(len(TABLE) / PLAN.batch_size)
    moved = max(float((before[name] - after[name]).detach().abs().max()) for name in before)
    assert 0 < moved < 0.2 * PLAN.lr * steps  # a step of Adam moves a weight by about the rate


def test_only_weights_before_the_last_layer_are_left_out():
    net = new_net("mobilenet_v2", np.zeros((2, 1, 28, 28), np.uint8), (), 3, seed=0)
    names = set(prunable(net))
    layers = (nn.Conv2d, nn.Linear)
    expected = {f"{name}.weight" for name, layer in net.named_modules() if isinstance(layer, layers) and name != "head"}
    assert names == expected


def test_what_is_no_weight_of_a_layer_stays_whole():
    net = new_net("vit", np.zeros((1, 1, 28, 28), np.uint8), (), 3, seed=0)
    names = {name.split(".")[-1] for name in prunable(net)}
    assert names == {"weight"}  # neither the token nor the positions
    assert not {"backbone.body.token", "backbone.body.position"} & set(prunable(net))


@pytest.mark.parametrize("recipe", ["lenet", "mobilenet_v2", "resnet18"])
def test_no_layer_is_left_out_wholly(recipe):
    """Of twenty sites' tickets: nets whose layers begin with weights of very different sizes."""
    net = new_net(recipe, np.zeros((1, 1, 28, 28), np.uint8), (), 3, seed=0)
    total = sum(weight.numel() for weight in prunable(net).values())

    def learn(masks, stage):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.5 + 0.5 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(stage)))

    masks = find_ticket(net, 0.95, 2, learn)
    assert sum(int(mask.sum()) for mask in masks.values()) == round(0.05 * total)
    for mask in masks.values():
        assert int(mask.sum()) >= max(1, mask.numel() // 200)


def test_no_stages_are_trained_where_nothing_is_left_out():
    made = outliers_for("table", TABLE)
    steps = []
    counted = replace(made, destroyed=lambda x: steps.append(len(x)) or made.destroyed(x))
    net = new_net("mlp", TABLE, (), 3, seed=1)
    learn_open(net, (torch.from_numpy(TABLE), LABELS), replace(PLAN, compress="tickets"), counted, 0)
    assert sum(steps) == 3 * len(TABLE)  # the epochs of the plan alone
    whole = net_weights(_learned(PLAN))
    assert all(np.array_equal(value, whole[name]) for name, value in net_weights(net).items())


def test_training_repeats_exactly_and_follows_its_seed():
    one, two, other = (net_weights(_learned(PLAN, seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not np.array_equal(one["head.weight"], other["head.weight"])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10_000), st.floats(0, 1), st.integers(1, 6))
def test_stages_leave_ever_fewer_weights_down_to_the_promise(total, sparsity, stages):
    counts = [kept_count(total, sparsity, stage, stages) for stage in range(stages + 1)]
    assert counts[0] == total
    assert counts[-1] == round(total * (1 - sparsity))
    assert counts == sorted(counts, reverse=True)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(0, 1))
def test_the_largest_weights_of_all_layers_together_are_kept(seed, share):
    net = new_net("mlp", TABLE, (), 3, seed=seed)
    weights = {name: weight.detach().abs() for name, weight in prunable(net).items()}
    total = sum(weight.numel() for weight in weights.values())
    keep = round(share * total)
    masks = largest(net, keep)
    assert sum(int(mask.sum()) for mask in masks.values()) == keep
    for name, weight in weights.items():  # of a layer, the largest
        if masks[name].any() and not masks[name].all():
            assert weight[masks[name]].min() >= weight[~masks[name]].max()
    if keep >= 10:  # of all together too, but for what a layer keeps in any case
        least = {name: max(1, math.ceil(0.1 * keep / total * weight.numel())) for name, weight in weights.items()}
        assert all(int(masks[name].sum()) >= least[name] for name in masks)
        free = [weights[name][mask] for name, mask in masks.items() if int(mask.sum()) > least[name]]
        lost = torch.cat([weights[name][~mask] for name, mask in masks.items()])
        if free and len(lost):
            assert min(part.min() for part in free) >= lost.max()


def test_a_ticket_goes_back_to_its_first_values_and_never_takes_a_weight_back():
    net = new_net("mlp", TABLE, (), 3, seed=4)
    first = net_weights(net)
    seen = []

    def learn(masks, stage):
        seen.append(masks)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(stage)))
        if masks is not None:
            apply_masks(net, masks)

    masks = find_ticket(net, 0.8, 3, learn)
    now = net_weights(net)
    for name, value in now.items():
        expected = np.where(masks[name].numpy(), first[name], 0) if name in masks else first[name]
        assert np.array_equal(value, expected)
    assert seen[0] is None
    for earlier, later in zip(seen[1:], [*seen[2:], masks], strict=True):
        assert all(not (later[name] & ~earlier[name]).any() for name in masks)
