"""Nets cut into backbone and head: every one of the zoo, at any common width, and their weights as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from model_rows import cancer_with_gaps, digit_images, digit_sequences
from torch import nn

from peerwise.data.rows import Feature, Inputs
from peerwise.errors import ModelError
from peerwise.models import ZOO
from peerwise.models.fitted import tensors
from peerwise.models.nets import (
    Net,
    batch_norm_names,
    in_parts,
    loaded_net,
    net_parameters,
    net_probabilities,
    net_weights,
    new_net,
)
from peerwise.models.zoo import find_build

NETS = sorted(name for name, recipe in ZOO.items() if recipe.by_epochs)
CLASSES = 4


def rows_for(recipe: str) -> tuple[Inputs, tuple[Feature, ...]]:
    if ZOO[recipe].kind == "table":
        rows, features = cancer_with_gaps()
        return rows.X[:8], features
    return (digit_images() if ZOO[recipe].kind == "image" else digit_sequences()).X[:3], ()


@pytest.mark.parametrize("recipe", NETS)
@pytest.mark.parametrize("embedding", [None, 48])
def test_every_net_of_the_zoo_can_be_cut_and_put_back(recipe: str, embedding: int | None) -> None:
    X, features = rows_for(recipe)
    net = new_net(recipe, X, features, CLASSES, embedding=embedding, seed=3)
    inputs = tensors(X)
    embedded = in_parts(net, net.embed, inputs)
    assert embedded.shape == (len(X), net.width)
    assert embedding in (None, net.width)
    assert torch.equal(net.head(embedded), in_parts(net, net, inputs))
    other = loaded_net(recipe, X, features, CLASSES, net_weights(net), embedding=embedding)
    assert np.array_equal(net_probabilities(other, inputs), net_probabilities(net, inputs))


@pytest.mark.parametrize("recipe", ["mlp", "cnn8", "vit", "tcn"])
def test_a_cut_net_says_what_the_whole_one_says(recipe: str) -> None:
    X, features = rows_for(recipe)
    torch.manual_seed(5)
    whole = find_build(recipe)(X, features, CLASSES).eval()
    last = [layer for layer in whole.modules() if isinstance(layer, nn.Linear)][-1]
    expected = whole(*tensors(X)).detach()
    net = Net(whole, None, seed=0).eval()
    net.head = last
    assert torch.equal(net(*tensors(X)), expected)


@pytest.mark.parametrize("embedding", [16, 128])
def test_different_backbones_start_from_the_same_head(embedding: int) -> None:
    X, _ = rows_for("cnn8")
    heads = [
        net_parameters(new_net(recipe, X, (), CLASSES, embedding=embedding, seed=7).head)
        for recipe in ("cnn8", "lenet", "cnn16", "resnet18")
    ]
    for head in heads[1:]:
        assert all(np.array_equal(head[name], heads[0][name]) for name in ("weight", "bias"))
    other = net_parameters(new_net("cnn8", X, (), CLASSES, embedding=embedding, seed=8).head)
    assert not np.array_equal(other["weight"], heads[0]["weight"])


@pytest.mark.parametrize("recipe", ["mlp", "cnn8"])
def test_a_head_is_no_copy_of_the_first_layer(recipe: str) -> None:
    X, features = rows_for(recipe)
    net = new_net(recipe, X, features, CLASSES, seed=3)
    first, head = (weight.detach().flatten()[:60].numpy() for weight in (next(net.parameters()), net.head.weight))
    assert abs(np.corrcoef(first, head)[0, 1]) < 0.5


def test_one_seed_gives_one_net_and_leaves_the_callers_chance_alone() -> None:
    X, features = rows_for("mlp")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, two, other = (net_weights(new_net("mlp", X, features, CLASSES, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not np.array_equal(one["head.weight"], other["head.weight"])


def test_pooling_to_a_common_width_averages_neighbouring_features() -> None:
    net = Net(nn.Sequential(nn.Identity(), nn.Linear(6, 2)), 3, seed=0)
    found = net.embed(torch.tensor([[1.0, 3.0, 5.0, 7.0, 2.0, 4.0]]))
    assert found.tolist() == [[2.0, 6.0, 3.0]]


def test_a_loaded_net_shares_nothing_with_the_next_one() -> None:
    X, features = rows_for("mlp")
    weights = net_weights(new_net("mlp", X, features, CLASSES, seed=0))
    first = loaded_net("mlp", X, features, CLASSES, weights)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.zero_()
    second = loaded_net("mlp", X, features, CLASSES, weights)
    assert all(np.array_equal(value, weights[name]) for name, value in net_weights(second).items())


def test_a_tables_scaling_stays_with_the_weights_and_does_not_travel() -> None:
    X, features = rows_for("mlp")
    net = new_net("mlp", X, features, CLASSES, seed=0)
    kept, travelling = net_weights(net), net_parameters(net)
    assert set(travelling) < set(kept)
    assert {name.rpartition(".")[2] for name in set(kept) - set(travelling)} >= {"mean", "spread", "fill"}


class Misleading(nn.Module):
    """Layers whose names say something else than their types."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.LayerNorm(3)
        self.usual = nn.BatchNorm1d(3)
        self.last = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.usual(self.bn(x)))


def test_batch_norm_is_found_by_type_and_not_by_name() -> None:
    assert batch_norm_names(Misleading()) == {"usual.weight", "usual.bias"}
    X, _ = rows_for("cnn8")
    assert batch_norm_names(new_net("cnn8", X, (), CLASSES, seed=0)) == set()
    residual = new_net("resnet18", X, (), CLASSES, seed=0)
    found = batch_norm_names(residual)
    layers = [layer for layer in residual.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(found) == 2 * len(layers) > 0
    assert found < set(net_parameters(residual))


def test_a_net_without_a_classifier_is_refused() -> None:
    with pytest.raises(ModelError, match="no linear layer"):
        Net(nn.Sequential(nn.Conv2d(1, 2, 3)), None, seed=0)
