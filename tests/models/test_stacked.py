"""Perceptrons trained together are what each is alone: the same rows, the same dropout, whatever the others do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data.rows import Feature
from peerwise.errors import ModelError
from peerwise.models.nets import Net, Weights, blank_net, first_weights, in_parts, loaded_net, net_weights
from peerwise.models.sgd import SGD
from peerwise.models.stacked import Job, Perceptron, embedded_stacked, logits_stacked, perceptron, train_stacked
from peerwise.models.training import row_chances, train

FEATURES = (Feature("a"), Feature("b"), Feature("c", ("x", "y", "z")), Feature("d"))
CLASSES = 3


def rows_of(count: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, count])
    X = rng.normal(size=(count, 4)).astype(np.float32)
    X[:, 2] = rng.integers(0, 3, count)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, rng.integers(0, CLASSES, count)


def begun(X: Any, embedding: int | None, seed: int = 5) -> Weights:
    return first_weights("mlp", X, FEATURES, CLASSES, embedding=embedding, seed=seed)


def net_of(X: Any, weights: Weights, embedding: int | None) -> Net:
    return loaded_net("mlp", X, FEATURES, CLASSES, weights, embedding=embedding)


def chain(X: Any, embedding: int | None) -> Perceptron:
    found = perceptron(blank_net("mlp", X, FEATURES, CLASSES, embedding=embedding))
    assert found is not None
    return found


def alone(job: Job, embedding: int | None, lr: float, epochs: int, batch_size: int) -> Weights:
    net = net_of(job.inputs, job.weights, embedding)
    batch = (torch.from_numpy(job.inputs), torch.from_numpy(job.labels))
    optimizer = SGD(net.parameters(), lr)
    how: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "patience": None, "chances": job.chances}
    train(net, batch, optimizer=optimizer, seed=job.seed, **how)
    return net_weights(net)


def apart(one: Weights, two: Weights) -> float:
    assert list(one) == list(two)
    return max(float(np.abs(one[name] - two[name]).max(initial=0)) for name in one)


@settings(max_examples=15)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    batch_size=st.integers(1, 20),
    epochs=st.integers(1, 3),
    embedding=st.sampled_from([None, 24, 100]),
    same_start=st.booleans(),
)
def test_sites_trained_together_are_what_each_is_alone(
    counts: list[int], batch_size: int, epochs: int, embedding: int | None, same_start: bool
) -> None:
    jobs = []
    for place, count in enumerate(counts):
        X, y = rows_of(count, place)
        chances = row_chances(y) if place % 3 == 2 else None
        jobs.append(Job(begun(X, embedding, 5 if same_start else place), X, y, seed=place, chances=chances))
    before = [{name: array.copy() for name, array in job.weights.items()} for job in jobs]
    how = {"epochs": epochs, "batch_size": batch_size}
    found = train_stacked(chain(jobs[0].inputs, embedding), jobs, lr=0.1, **how)
    for job, weights, start in zip(jobs, found, before, strict=True):
        assert apart(weights, alone(job, embedding, 0.1, **how)) < 1e-5
        assert apart(job.weights, start) == 0  # the arrays that it began with belong to others too


@pytest.mark.parametrize("embedding", [None, 100])
@pytest.mark.parametrize("same_arrays", [True, False])
def test_answers_together_are_what_each_net_says_alone(embedding: int | None, same_arrays: bool) -> None:
    inputs = [rows_of(count, count)[0] for count in (3, 1, 7)]
    weights = [begun(X, embedding, 5 if same_arrays else place) for place, X in enumerate(inputs)]
    net = chain(inputs[0], embedding)
    logits = logits_stacked(net, weights, inputs)
    embedded = embedded_stacked(net, weights, inputs)
    expected = [net_of(X, own, embedding) for X, own in zip(inputs, weights, strict=True)]
    alone = [in_parts(net, net, (torch.from_numpy(X),)).numpy() for net, X in zip(expected, inputs, strict=True)]
    assert np.abs(logits - np.concatenate(alone)).max() < 1e-5
    for net_alone, X, found in zip(expected, inputs, embedded, strict=True):
        assert torch.allclose(found, in_parts(net_alone, net_alone.embed, (torch.from_numpy(X),)), atol=1e-5)


def test_a_loss_that_overflows_is_refused_as_it_is_alone() -> None:
    X, y = rows_of(8, 0)
    calm, wild = begun(X, None), begun(X, None)
    wild["head.weight"] = np.full_like(wild["head.weight"], 3e38)
    with pytest.raises(ModelError, match="training loss became"):
        train_stacked(chain(X, None), [Job(calm, X, y, 0), Job(wild, X, y, 0)], lr=0.1, epochs=1, batch_size=4)
    with pytest.raises(ModelError, match="training loss became"):
        alone(Job(wild, X, y, 0), None, 0.1, 1, 4)


def test_a_job_needs_rows() -> None:
    X, y = rows_of(2, 0)
    with pytest.raises(ModelError, match="no rows to train on"):
        Job(begun(X, None), X[:0], y[:0], 0)


@pytest.mark.parametrize("recipe", ["cnn8", "resnet18"])
def test_a_net_with_convolutions_is_no_perceptron(recipe: str) -> None:
    assert perceptron(blank_net(recipe, np.zeros((1, 1, 28, 28), np.uint8), (), 3)) is None
