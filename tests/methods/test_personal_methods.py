"""Methods that answer with a net of the site's own: special cases that must agree, and every update by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_nets import TwoWeights, X, Y, begun, distance, furthest, images, play, rows, said, same, slope, tables

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.federation import answer, combine
from peerwise.methods.apfl import APFL, mixture_step
from peerwise.methods.ditto import Ditto
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.fedphp import BANDWIDTHS, FedPHP, discrepancy, inherit
from peerwise.methods.local_rounds import LocalRounds
from peerwise.methods.moves import ByMoves
from peerwise.methods.perfedavg import PerFedAvg, halves, meta_step
from peerwise.methods.pfedme import PFedMe, envelope_step
from peerwise.models.fitted import tensors
from peerwise.models.nets import net_parameters, net_probabilities
from peerwise.models.sgd import SGD
from peerwise.parcels import Parcel, pack
from peerwise.run import run_method

LR = 0.1
KINDS: list[type[FedAvg]] = [Ditto, APFL, PerFedAvg, PFedMe, FedPHP]


def alone(sites: list[Site], rounds: int, **budget: Any) -> list[Site]:
    method = LocalRounds(**budget)
    for round in range(rounds):
        for site in begun(method, sites) if round == 0 else sites:
            method.share(site, round)
    return sites


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_ditto_without_a_pull_is_local_training_and_fedavg_side_by_side(optimizer: Any) -> None:
    found = play(Ditto(mu=0, optimizer=optimizer), tables(), 3)[0]
    assert same(found, alone(tables(), 3, optimizer=optimizer), "personal", "net")
    assert same(found, play(FedAvg(optimizer=optimizer), tables(), 3)[0])


def test_ditto_without_a_pull_answers_as_local_does() -> None:
    ditto, local = Ditto(mu=0, rounds=3), LocalRounds(rounds=3)
    one, two = tables(), tables()
    run_method(ditto, one)
    run_method(local, two)
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(answer(ditto, a, a.test.X), answer(local, b, b.test.X))


def test_ditto_pulls_towards_the_weights_received_before_they_are_trained() -> None:
    method = Ditto(mu=2.0, lr=LR, batch_size=64)
    site = play(method, images((12, 20)), 2)[0][0]
    received, personal, net = site.state["net"], site.state["personal"], method.net(site, "personal")
    loss(net, site).backward()
    method.share(site, 2)
    for name, parameter in net.named_parameters():
        pull = parameter.grad.numpy() + 2.0 * (personal[name] - received[name])
        assert np.allclose(site.state["personal"][name], personal[name] - LR * pull, atol=1e-6)


def loss(net: Any, site: Site) -> Any:
    logits = net.eval()(torch.from_numpy(site.train.X))
    return torch.nn.functional.cross_entropy(logits, torch.from_numpy(site.train.y))


def test_apfl_with_its_own_net_alone_is_local() -> None:
    found = play(APFL(alpha=1, adapt=False), tables(), 3)[0]
    expected = alone(tables(), 3)
    assert same(found, expected, "personal", "net")
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(answer(APFL(), a, a.test.X), answer(LocalRounds(), b, b.test.X))


def test_apfl_with_the_common_net_alone_is_fedavg() -> None:
    found, expected = play(APFL(alpha=0, adapt=False), tables(), 2)[0], play(FedAvg(), tables(), 2)[0]
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(answer(APFL(), a, a.test.X), answer(FedAvg(), b, b.test.X))


def test_apfl_step_by_hand() -> None:
    w, v, alpha = np.array([0.3, -0.8]), np.array([-0.5, 0.4]), 0.25
    net, mixed = TwoWeights(*w), TwoWeights(0, 0)
    own = torch.nn.ParameterList([torch.tensor(v)])
    optimizers = SGD(net.parameters(), LR), SGD(own, LR)
    mixture = alpha * v + (1 - alpha) * w
    _, found = mixture_step(net, mixed, own, alpha, optimizers, rows())
    assert net.now == pytest.approx(w - LR * slope(w), abs=1e-9)
    assert own[0].detach().numpy() == pytest.approx(v - LR * alpha * slope(mixture), abs=1e-9)
    assert found == pytest.approx((v - w) @ slope(mixture), abs=1e-9)


def test_apfl_learns_its_mixture_once_a_round_and_keeps_it_between_nothing_and_all() -> None:
    method = APFL(lr=LR, batch_size=4)
    sites = play(method, images(), 3)[0]
    assert all(0 <= site.state["alpha"] <= 1 and site.state["alpha"] != 0.5 for site in sites)
    assert method.curves(sites[0]) == {"alpha": sites[0].state["alpha"]}
    site, net, mixed = sites[0], method.net(sites[0]), method.net(sites[0], "personal")
    alpha, whole = site.state["alpha"], APFL(lr=LR, batch_size=64)
    apart = {name: (value - net.get_parameter(name)).detach() for name, value in mixed.named_parameters()}
    with torch.no_grad():
        for name, value in mixed.named_parameters():
            value.copy_(alpha * value + (1 - alpha) * net.get_parameter(name))
    loss(mixed, site).backward()
    expected = alpha - LR * sum((apart[name] * value.grad).sum().item() for name, value in mixed.named_parameters())
    whole.share(site, 3)
    assert site.state["alpha"] == pytest.approx(expected, abs=1e-6)


def test_apfl_keeps_its_own_net_unmixed() -> None:
    method = APFL(alpha=0.5, adapt=False)
    sites = begun(method, tables())
    method.share(sites[0], 0)
    before = dict(sites[0].state["personal"])
    told, _ = method.combine(said(method, sites[1:]), {}, np.random.default_rng(0))
    method.absorb(sites[0], 0, told)
    answer(method, sites[0], sites[0].test.X)
    assert all(np.array_equal(array, sites[0].state["personal"][name]) for name, array in before.items())


def test_perfedavg_step_by_hand() -> None:
    w = np.array([0.3, -0.8])
    net = TwoWeights(*w)
    meta_step(net, SGD(net.parameters(), LR), 0.2)(rows())  # type: ignore[arg-type]
    there = w - 0.2 * slope(w, X[:2], Y[:2])
    assert net.now == pytest.approx(w - LR * slope(there, X[2:], Y[2:]), abs=1e-9)


def test_perfedavg_halves_hold_two_rows_or_all() -> None:
    for number in range(1, 9):
        first, second = halves((torch.arange(number),))
        assert min(len(first[0]), len(second[0])) >= min(2, number)
        assert sorted({*first[0].tolist(), *second[0].tolist()}) == list(range(number))


def test_perfedavg_answers_after_one_step_on_a_train_batch_and_asking_changes_nothing() -> None:
    method = PerFedAvg(inner_lr=0.2, batch_size=64)
    site = play(method, images((12, 20)))[0][0]
    net = method.net(site)
    loss(net, site).backward()
    for name, value in net.named_parameters():
        adapted = (value - 0.2 * value.grad).detach().numpy()
        assert np.allclose(site.state["personal"][name], adapted, atol=1e-6)
    before = pack(site.state)
    first = answer(method, site, site.test.X)
    assert np.array_equal(first, answer(method, site, site.test.X))
    assert pack(site.state) == before


def test_pfedme_step_by_hand() -> None:
    w = np.array([0.3, -0.8])
    net, followed, lam = TwoWeights(*w), [torch.tensor(w)], 3.0
    step = envelope_step(net, SGD(net.parameters(), 0.05), followed, lam, LR, 4)  # type: ignore[arg-type]
    theta = w
    for _ in range(2):
        step(rows())
        for _ in range(4):
            theta = theta - 0.05 * (slope(theta) + lam * (theta - w))
        w = w - lam * LR * (w - theta)
        assert net.now == pytest.approx(theta, abs=1e-9)
        assert followed[0].numpy() == pytest.approx(w, abs=1e-9)


def test_pfedme_moves_by_default_and_not_with_a_beta_of_zero() -> None:
    start = begun(PFedMe(), tables())[0].state["start"]
    still, moved, half = (
        net_parameters(method.net(play(method, tables())[0][0]))
        for method in (PFedMe(beta=0), PFedMe(), PFedMe(beta=0.5))
    )
    assert furthest(still, start) == 0
    assert furthest(moved, start) > 1e-5
    assert all(np.allclose(half[name], (start[name] + moved[name]) / 2, atol=1e-7) for name in start)


def test_fedphp_discrepancy_by_hand() -> None:
    a, b = np.random.default_rng(0).normal(size=(5, 3)), np.random.default_rng(1).normal(1, size=(7, 3))

    def kernel(one: Any, two: Any) -> float:
        squares = ((one[:, None] - two[None]) ** 2).sum(axis=2)
        return float(np.mean(sum(np.exp(-squares / (2 * width)) for width in BANDWIDTHS)))

    found = discrepancy(torch.tensor(a), torch.tensor(b)).item()
    assert found == pytest.approx(kernel(a, a) + kernel(b, b) - 2 * kernel(a, b), abs=1e-9)
    assert discrepancy(torch.tensor(a), torch.tensor(a)).item() == pytest.approx(0, abs=1e-9)


def test_fedphp_inherits_more_of_itself_from_round_to_round() -> None:
    trained = {"w": np.array([2.0], np.float32), "columns": np.array([3])}
    inherited = {"w": np.array([10.0], np.float32), "columns": np.array([4])}
    mixed = inherit(trained, inherited, 0.25)
    assert (mixed["w"].tolist(), mixed["columns"].tolist()) == ([4.0], [3])
    method = FedPHP(mu=0.8, rounds=4)
    site = begun(method, tables())[0]
    for round in range(4):
        before = site.state.get("personal")
        method.share(site, round)
        expected = inherit(site.state["net"], before or site.state["net"], 0.8 * round / 4)
        assert furthest(site.state["personal"], expected) == 0


def test_fedphp_first_training_is_plain_and_later_ones_hear_the_past() -> None:
    budget: Any = {"lr": LR, "local_epochs": 2}
    assert same(play(FedPHP(**budget), tables())[0], play(FedAvg(**budget), tables())[0])
    later, plain = play(FedPHP(**budget), tables(), 2)[0], play(FedAvg(**budget), tables(), 2)[0]
    assert all(distance(a.state["net"], b.state["net"]) > 1e-5 for a, b in zip(later, plain, strict=True))


@pytest.mark.parametrize("kind", [Ditto, PerFedAvg, PFedMe, FedPHP])
def test_answers_come_from_the_personal_net(kind: type[FedAvg]) -> None:
    method = kind(lr=LR)
    site = play(method, tables(), 2)[0][0]
    personal = net_probabilities(method.net(site, "personal"), tensors(site.test.X))
    assert np.array_equal(answer(method, site, site.test.X), personal)
    assert not np.allclose(personal, net_probabilities(method.net(site), tensors(site.test.X)), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_personal_is_sent(kind: type[FedAvg]) -> None:
    method = kind(lr=LR)
    sites = play(method, tables())[0]
    shapes = {name: array.shape for name, array in net_parameters(method.net(sites[0])).items()}
    item = "moves" if issubclass(kind, ByMoves) else "weights"
    received = {site.name: dict(site.state["net"]) for site in sites}
    for site in sites:
        parcel = method.share(site, 1)
        assert set(parcel) == {item, "rows"}
        assert {name: array.shape for name, array in parcel[item].items()} == shapes
        for name, array in parcel[item].items():
            now = array if item == "weights" else received[site.name][name] + array
            assert np.allclose(now, site.state["net"][name], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_who_only_listened_so_far_answers_and_can_join(kind: type[FedAvg]) -> None:
    method = kind()
    *early, late = begun(method, tables())
    told, memory = combine(method, 0, said(method, early), {}, 0)
    method.absorb(late, 0, told.content)
    assert answer(method, late, early[0].test.X).shape == (len(early[0].test.X), 3)
    parcels = said(method, [*early, late], 1)
    told, _ = combine(method, 1, parcels, memory, 0)
    assert isinstance(told.content, Parcel)
    assert not told.left_out
    method.absorb(late, 1, told.content)
    method.absorb(early[0], 1, told.content)
    common = net_parameters(method.net(late))
    assert furthest(common, net_parameters(method.net(early[0]))) == 0


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Ditto, {"mu": -1}),
        (APFL, {"alpha": 1.2}),
        (PerFedAvg, {"inner_lr": 0}),
        (PFedMe, {"lam": -1}),
        (PFedMe, {"inner_steps": 0}),
        (PFedMe, {"personal_lr": float("inf")}),
        (FedPHP, {"lam": 1.5}),
        (FedPHP, {"mu": -0.5}),
    ],
)
def test_values_out_of_range_are_refused_by_name(kind: Any, values: dict[str, Any]) -> None:
    name, value = next(iter(values.items()))
    with pytest.raises(ConfigError, match=f"{name} is {value}: expected a finite number from"):
        kind(**values)
